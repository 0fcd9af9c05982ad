"""Plans for llama.cpp, read by the rules of its documentation: ``-ngl``, ``-ts`` and ``-ot``."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import hetgym
from hetgym import ConfigError, Problem, Schedule, UnknownName, export_plan
from hetgym.envs import HetScheduleEnv
from hetgym.graph.generators import language_model
from hetgym.planning.layers import by_layers

LAYERS = 6
GGUF = (
    "attn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight", "ffn_norm.weight",
    "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight",
)  # fmt: skip
"""Tensors of a layer in a GGUF file of Llama; ``token_embd``, ``output_norm`` and ``output`` lie outside layers."""


class Reader:
    """What llama.cpp does with its arguments.

    By its help and ``load_tensors``: the last ``-ngl`` of the layers and the head go to the devices in proportion to
    ``-ts``, which is summed up and searched from above. ``-ot`` is cut at commas, then at the first equals sign; the
    first pattern found in a tensor's name counts.
    """

    def __init__(self, args: list[str], layers: int) -> None:
        assert len(args) % 2 == 0
        self.values = dict(zip(args[::2], args[1::2], strict=True))
        known = {"--n-gpu-layers", "--device", "--split-mode", "--tensor-split", "--override-tensor"}
        assert set(self.values) <= known and self.values.get("--split-mode", "layer") == "layer"
        self.layers = layers
        self.devices = [d for d in self.values.get("--device", "").split(",") if d]
        shares = [float(x) for x in self.values.get("--tensor-split", "1").split(",")]
        assert len(shares) == max(1, len(self.devices))
        self.splits = np.cumsum(np.array(shares, np.float32)) / np.float32(sum(shares))
        text = self.values.get("--override-tensor", "")
        pairs = [part.partition("=") for part in text.split(",") if part]
        assert all(equals and where in ("CPU", *self.devices) for _, equals, where in pairs)
        self.overrides = [(re.compile(pattern), where) for pattern, _, where in pairs]

    def slot(self, layer: int) -> str:
        """Device of a layer; of the head if it is the number of layers."""
        offloaded = min(int(self.values["--n-gpu-layers"]), self.layers + 1)
        start = max(self.layers + 1 - int(self.values["--n-gpu-layers"]), 0)
        if layer < start or layer - start >= offloaded:
            return "CPU"
        share = np.float32(layer - start) / np.float32(offloaded)
        return self.devices[int(np.searchsorted(self.splits, share, side="right"))]

    def tensor(self, name: str) -> str:
        for pattern, where in self.overrides:
            if pattern.search(name):
                return where
        if name.startswith("token_embd"):
            return "CPU"
        number = re.match(r"blk\.(\d+)\.", name)
        return self.slot(int(number[1]) if number else self.layers)


def problem_of(platform: str = "cpu-2gpu-nvlink", layers: bool = False, **options: object) -> Problem:
    sizes = {"layers": LAYERS, "hidden": 32, "heads": 4, "vocabulary": 64, "sequence": 16, "phase": "decode"}
    problem = Problem.build(language_model(**(sizes | options)), hetgym.load_platform(platform))
    return by_layers(problem) if layers else problem


def schedule(problem: Problem, on: dict[str, int], default: int = 1) -> Schedule:
    """Operators on the device of the first pattern that fits the start of their names."""
    names = problem.operator_names
    devices = [next((d for p, d in on.items() if re.match(p, n)), default) for n in names]
    order = [[i for i, d in enumerate(devices) if d == k] for k in range(problem.num_devices)]
    return Schedule(devices, order=order)


PLANS = [
    {"embed": 0},
    {"embed": 0, r"layers\.[01]\b": 0, r"layers\.[45]\b": 2, "norm|lm_head": 2},
    {"embed": 0, r"layers\.[0-5]\b": 0, "norm|lm_head": 1},
    {"": 0},
    {"embed": 1, r"layers\.[0-2]\b": 2, "norm|lm_head": 1},
    {"embed": 0, "lm_head": 0},
]


@pytest.mark.parametrize("layers", [False, True])
@pytest.mark.parametrize("on", PLANS)
def test_layers_and_weights_lie_where_planned(on: dict[str, int], layers: bool, tmp_path: Path) -> None:
    problem = problem_of(layers=layers)
    plan = schedule(problem, on)
    found = export_plan(plan, "llama.cpp", tmp_path / "args", problem=problem)
    assert shlex.split((tmp_path / "args").read_text()) == found["args"]
    reader = Reader(found["args"], LAYERS)
    names = {"cpu": "CPU", "gpu0": "CUDA0", "gpu1": "CUDA1"}
    device = {n: names[problem.device_names[d]] for n, d in zip(problem.operator_names, plan.assignment, strict=True)}
    for k in range(LAYERS):
        where = device[f"layers.{k}" if layers else f"layers.{k}.self_attn.sdpa"]
        assert reader.slot(k) == where
        assert {reader.tensor(f"blk.{k}.{tensor}") for tensor in GGUF} == {where}
    assert reader.tensor("token_embd.weight") == device["embed_tokens"]
    assert reader.tensor("output_norm.weight") == device["norm"]
    assert reader.tensor("output.weight") == device["lm_head"]


def separate_experts(tmp_path: Path) -> Problem:
    """A mixture whose experts have their first two products apart, as those of a configuration."""
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "vocab_size": 64, "num_hidden_layers": LAYERS}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "intermediate_size": 64}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "qwen3_moe", **sizes, **experts}))
    return Problem.build(hetgym.load_graph(path), hetgym.load_platform("cpu-gpu"))


@pytest.mark.parametrize("fused", [True, False])
def test_experts_stay_in_the_memory_of_the_cpu(fused: bool, tmp_path: Path) -> None:
    problem = problem_of("cpu-gpu", experts=4) if fused else separate_experts(tmp_path)
    plan = schedule(problem, {"embed": 0, r"layers\.[2-5]\.mlp\.experts": 0})
    found = export_plan(plan, "llama.cpp", problem=problem)
    reader = Reader(found["args"], LAYERS)
    for k in range(LAYERS):
        for tensor in ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"):
            assert reader.tensor(f"blk.{k}.{tensor}.weight") == ("CPU" if k >= 2 else "CUDA0")
        assert reader.tensor(f"blk.{k}.ffn_gate_inp.weight") == reader.slot(k) == "CUDA0"
    first = "ffn_(gate|up|gate_up)_exps" if fused else "ffn_gate_exps|ffn_up_exps"
    assert list(found["override_tensor"]) == [rf"^blk\.(2|3|4|5)\.({first}|ffn_down_exps)\."]
    assert "Vulkan0" in export_plan(plan, "llama.cpp", problem=problem, backend="Vulkan")["args"]


@pytest.mark.parametrize("first", range(LAYERS))
def test_rules_name_the_layers_unless_they_hold_for_all(first: int) -> None:
    problem = problem_of("cpu-gpu", experts=4)
    plan = schedule(problem, {"embed": 0, rf"layers\.[{first}-5]\.mlp\.experts": 0})
    found = export_plan(plan, "llama.cpp", problem=problem)
    reader = Reader(found["args"], LAYERS)
    for k in range(LAYERS):
        assert reader.tensor(f"blk.{k}.ffn_up_exps.weight") == ("CPU" if k >= first else "CUDA0")
    assert (r"\d+" in next(iter(found["override_tensor"]))) == (first == 0)


def test_a_gpu_that_holds_overridden_weights_alone_gets_no_layers() -> None:
    """Without --tensor-split, llama.cpp splits the layers over both GPUs."""
    problem = problem_of(experts=4)
    plan = schedule(problem, {"embed": 0, r"layers\.[2-5]\.mlp\.experts": 2})
    found = export_plan(plan, "llama.cpp", problem=problem)
    assert (found["device"], found["tensor_split"]) == (["CUDA0", "CUDA1"], [LAYERS + 1, 0])
    reader = Reader(found["args"], LAYERS)
    for k in range(LAYERS):
        assert reader.slot(k) == "CUDA0"
        assert reader.tensor(f"blk.{k}.ffn_up_exps.weight") == ("CUDA1" if k >= 2 else "CUDA0")


def test_plans_that_llama_cpp_would_not_follow() -> None:
    problem = problem_of(layers=True)
    with pytest.raises(ConfigError, match="goes from gpu0 back to cpu at layer 3$"):  # layers are whole
        export_plan(schedule(problem, {r"layers\.3": 0}), "llama.cpp", problem=problem)
    single = problem_of()
    with pytest.raises(ConfigError, match="1 operator, such as 'layers.2.mlp.act', .*; 'hetgym plan --layers'"):
        export_plan(schedule(single, {r"layers\.2\.mlp\.act": 2}), "llama.cpp", problem=single)
    other = Problem.build(hetgym.load_graph("bert_base"), hetgym.load_platform("cpu-gpu"))
    with pytest.raises(ConfigError, match="bert_base@cpu-gpu is not one of 'hetgym list decoders'"):
        export_plan(hetgym.baselines.get("single-device")(other), "llama.cpp", problem=other)
    with pytest.raises(UnknownName, match="back end of llama.cpp 'cuda'; did you mean 'CUDA'"):
        export_plan(schedule(problem, {}), "llama.cpp", problem=problem, backend="cuda")


@pytest.mark.parametrize("known", [False, True])
def test_npus_are_accelerators_as_they_are_to_the_target_of_environments(known: bool) -> None:
    problem = problem_of("cpu-gpu-npu", layers=True)
    platform = hetgym.load_platform("cpu-gpu-npu")
    gpu, npu = platform.index("gpu"), platform.index("npu")
    cpu = {"embed": platform.index("cpu")}
    plan = schedule(problem, cpu | {r"layers\.[0-3]": gpu}, default=npu)
    found = export_plan(plan, "llama.cpp", problem=problem, platform=platform if known else None)
    names = ["CUDA0", "CANN0" if known else "CUDA1"]
    assert (found["device"], found["tensor_split"], found["override_tensor"]) == (names, [4, 3], {})
    allows = HetScheduleEnv(problem, target="llama.cpp")
    _, info = allows.reset(options={"order": problem.topological_order.tolist()})
    for operator in problem.topological_order.tolist():
        device = int(plan.assignment[operator])
        assert info["action_mask"][device]
        *_, info = allows.step(device)
