"""Device maps against the modules of transformers, on the meta device: each parameter and buffer has a device."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.commands import ask

import hetgym
from hetgym import ConfigError, Problem, Schedule, export_plan
from hetgym.export.formats import check_export
from hetgym.export.placement import Placement
from hetgym.export.whole_modules import on_accelerators, whole_modules
from hetgym.graph.model_names import _configs
from hetgym.llm import plan_llm
from hetgym.planning.layers import LAYER, by_layers
from hetgym.topology import find_platform

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
modeling = pytest.importorskip("accelerate.utils.modeling")

REMOTE = ("internlm2", "exaone", "kimi_k2")  # families whose code is in their repositories
FIRST = {config["model_type"]: name for name, config in reversed(_configs().items())}
"""Family -> the first model of it."""
NAMES = {
    **{family: name for family, name in FIRST.items() if family not in REMOTE},
    "gemma4_text, small": "gemma-4-e2b",
}
QUICK = ("gpt2", "falcon", "gpt_neox", "llama", "phi", "bloom", "gpt_bigcode", "gemma3_text", "gemma4_text, small")


def covered(module: Any, found: Mapping[str, int | str]) -> None:
    """Accelerate takes the map, each parameter and buffer is in it, and it names nothing else."""
    tensors = [name for name, _ in (*module.named_parameters(remove_duplicate=False), *module.named_buffers())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about paths of tensors
        modeling.check_device_map(module, found)
    assert [
        name for name in tensors if not any(f"{name}.".startswith(f"{path}." if path else "") for path in found)
    ] == []
    assert found.keys() <= {"", *tensors, *(name for name, _ in module.named_modules())}


def halves(problem: Problem) -> Schedule:
    """The first half of the operators on one GPU, the others on the next; the head, which may be tied, with words."""
    n = problem.num_operators
    first = [i < n // 2 or name.startswith(("embed", "lm_head")) for i, name in enumerate(problem.operator_names)]
    devices = [1 if own else 2 for own in first]
    return Schedule(devices, order=[[i for i in range(n) if devices[i] == k] for k in range(problem.num_devices)])


@pytest.mark.parametrize("family", [pytest.param(f, marks=() if f in QUICK else pytest.mark.slow) for f in NAMES])
def test_each_family_has_its_own_names(family: str, tmp_path: Path) -> None:
    config = {key: value for key, value in _configs()[NAMES[family]].items() if key not in ("like", "layer_types")}
    if "num_kv_shared_layers" not in config:
        config |= {key: 4 for key in ("num_hidden_layers", "n_layer", "num_layers") if key in config}
    own = f"{family}_text" if family.startswith("qwen3_5") else config["model_type"]
    kind = transformers.AutoConfig.for_model(
        **{key: value for key, value in config.items() if key != "quantization_config"} | {"model_type": own}
    )
    with torch.device("meta"):
        module = transformers.AutoModelForCausalLM.from_config(kind)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    platform = hetgym.load_platform("cpu-2gpu-nvlink")
    single = Problem.build(hetgym.load_graph(file), platform)
    everywhere = {"", *(name for name, _ in module.named_modules())}
    placement = Placement.of(single, np.zeros(single.num_operators, np.int32), model=file)
    assert everywhere.issuperset(placement.modules("Accelerate"))
    problem = by_layers(single)
    found = export_plan(halves(problem), "accelerate", problem=problem, model=file)
    assert set(found.values()) == {0, 1}
    covered(module, found)
    covered(module, json.loads(plan_llm(file, find_platform("2x RTX 3090, 64GB ddr4-3200"), target="accelerate").flags))


@pytest.mark.parametrize(
    ("name", "module", "config"),
    [
        ("gpt2", "GPT2LMHeadModel", "GPT2Config"),
        ("bert_base", "BertModel", "BertConfig"),
        ("vit_b16", "ViTForImageClassification", "ViTConfig"),
    ],
)
def test_models_of_the_zoo_have_all_weights(name: str, module: str, config: str) -> None:
    with torch.device("meta"):
        made = getattr(transformers, module)(getattr(transformers, config)())
    platform = hetgym.load_platform("cpu-2gpu-nvlink")
    problem = whole_modules(Problem.build(hetgym.load_graph(name), platform))
    found = export_plan(halves(problem), "accelerate", problem=problem)
    assert set(found.values()) == {0, 1}
    covered(made, found)


def test_models_without_known_names_are_refused() -> None:
    platform = hetgym.load_platform("cpu-2gpu-nvlink")
    t5 = Problem.build(hetgym.load_graph("t5-3b"), platform)
    with pytest.raises(ConfigError, match="t5-3b@cpu-2gpu-nvlink have other names in transformers"):
        export_plan(halves(t5), "accelerate", problem=t5)
    lstm = Problem.build(hetgym.load_graph("lstm"), platform)
    with pytest.raises(ConfigError, match="does not name those that no operator reads"):
        check_export("accelerate", lstm)


SMALL = """
name: small
devices:
  - {{name: cpu, kind: cpu, peak_flops: {{float32: 1e12}}, memory_bandwidth: 80e9, memory_capacity: 64e9,
     launch_overhead: 2e-6, source: x}}
  - &gpu {{name: gpu0, kind: gpu, peak_flops: {{float32: 13e12}}, memory_bandwidth: 616e9, memory_capacity: {room},
     launch_overhead: 5e-6, source: x}}
  - {{<<: *gpu, name: gpu1}}
links:
  - {{between: [cpu, gpu0], latency: 10e-6, bandwidth: 15e9, source: x}}
  - {{between: [cpu, gpu1], latency: 10e-6, bandwidth: 15e9, source: x}}
  - {{between: [gpu0, gpu1], latency: 10e-6, bandwidth: 15e9, source: x}}
"""


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_command_writes_maps_that_accelerate_dispatches(family: str, tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    sizes = {"vocab_size": 64, "bos_token_id": 0, "eos_token_id": 0, "use_cache": False}
    kind = {
        "gpt2": lambda: transformers.GPT2Config(n_layer=6, n_embd=64, n_head=4, n_positions=16, **sizes),
        "llama": lambda: transformers.LlamaConfig(
            num_hidden_layers=6, hidden_size=64, intermediate_size=128, num_attention_heads=4, **sizes
        ),
    }[family]()
    module = transformers.AutoModelForCausalLM.from_config(kind).eval()
    words = {"input_ids": torch.arange(8).reshape(1, 8)}
    torch.export.save(torch.export.export(module, (), words, strict=False), tmp_path / "net.pt2")
    total = sum(weight.numel() * 4 for weight in module.parameters())
    (tmp_path / "small.yaml").write_text(SMALL.format(room=f"{0.8 * total:.0f}"))
    done = ask(
        "plan",
        "net.pt2",
        "--platform",
        "small.yaml",
        "--budget",
        "300ms",
        "--export",
        "accelerate:m.json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "the plan is of whole layers" in done.stderr and "the plan leaves cpu out" in done.stderr
    found = json.loads((tmp_path / "m.json").read_text())
    assert set(found.values()) == {0, 1}
    covered(module, found)
    with torch.no_grad():
        expected = module(**words).logits
    # without GPUs, the disk stands for the second one: its weights leave the module
    places = {path: "cpu" if number == 0 else "disk" for path, number in found.items()}
    accelerate.dispatch_model(module, places, main_device="cpu", offload_dir=tmp_path, force_hooks=True)
    with torch.no_grad():
        assert torch.allclose(module(**words).logits, expected, atol=1e-5)


def test_the_command_refuses_what_accelerate_would_copy_before_it_plans(tmp_path: Path) -> None:
    words = ("plan", "llama-7b", "--platform", "2x RTX 2060, 64GB ddr4-3200", "--dims", "sequence=64")
    done = ask(*words, "--export", "accelerate", cwd=tmp_path)
    assert done.returncode == 2 and "plan a language model by 'hetgym llm --target accelerate'" in done.stderr
    assert "13.5 GB of weights do not fit into" in done.stderr and not (tmp_path / "results").exists()


CHAIN = {
    "view": 0.0,
    "words.embedding": 8.0,
    "add": 1.0,
    "layers.0": 4.0,
    "layers.1": 4.0,
    "norm.n": 1.0,
    "out.mm": 8.0,
    "sum": 0.0,
}


def chain(**more: Any) -> Problem:
    """A model whose first operator reads nothing, and whose head reads the table of words, and a sum."""
    n = len(CHAIN)
    return Problem.from_arrays(
        np.full((n, 3), 1.0),
        [*((i, i + 1, 1.0) for i in range(n - 1)), (5, 7, 1.0)],
        weight_bytes=list(CHAIN.values()),
        shared_weights=[((1, 6), 8.0)],
        operator_names=list(CHAIN),
        operator_kinds=["View", "Gather", "Add", "Gemm", "Gemm", "Norm", "Gemm", "Add"],
        **more,
    ).replace(asynchronous=[False, True, True])


def test_operators_between_modules_go_with_what_they_read() -> None:
    found = whole_modules(chain())
    assert found.operator_names == ("words.embedding", "layers.0", "layers.1", "norm.n", "out.mm")
    assert found.cost[:, 0].tolist() == [3.0, 1.0, 1.0, 1.0, 2.0]
    assert found.operator_kinds[:2] == ("Gather", LAYER)


def test_beside_accelerators_the_cpu_is_left_out_and_tied_weights_stay_together() -> None:
    cost = np.array([[1.0, 2.0, 3.0]] * len(CHAIN))
    cost[3, 1:] = np.inf  # runs on the CPU only
    cost[6, 1] = 9.0  # so both readers of the table take less time on the third device
    found = on_accelerators(chain().replace(cost=cost))
    usable = [np.flatnonzero(np.isfinite(row)).tolist() for row in found.cost]
    assert usable == [[1, 2], [2], [1, 2], [0], [1, 2], [1, 2], [2], [1, 2]]
    alone = chain().replace(asynchronous=[False] * 3)
    assert on_accelerators(alone) is alone
    with pytest.raises(ConfigError, match="18 B of weights do not fit into 17 B of the GPUs"):
        on_accelerators(chain(memory_capacity=[99.0, 8.0, 9.0]))
    assert on_accelerators(chain(memory_capacity=[99.0, 9.0, 9.0])).num_operators == len(CHAIN)


def test_tied_weights_on_two_devices_are_refused() -> None:
    problem = chain()
    devices = [1] * 6 + [2, 2]
    plan = Schedule(devices, order=[[], [0, 1, 2, 3, 4, 5], [6, 7]])
    with pytest.raises(
        ConfigError, match="'words.embedding' on dev1 and 'out.mm', which reads the same weight, on dev2"
    ):
        export_plan(plan, "accelerate", problem=problem, weights=["words.weight"])
