"""``hetgym pipeline`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import ask

from hetgym import DataflowGraph, load_graph, load_platform
from hetgym.graph import to_json
from hetgym.graph.ops import Operator, Tensor
from hetgym.pipeline import Stage, blocks, layer_chain

TIMES = "layer,count,time [ms]\nwords,1,0.003\nlayers,64,0.39375\nhead,1,0.751\n"
SIZES = "layer,count,size [parameters]\nlayers,8,3160\nhead,1,472\n"
GIB, MIB = 2**30, 2**20

DEVICE = (
    "  - {{name: {name}, kind: {kind}, peak_flops: {{float32: 1e12}}, memory_bandwidth: 1e11, "
    "memory_capacity: {memory}, launch_overhead: 1e-6, source: test}}\n"
)
LINK = "  - {{between: [{name}, hub], latency: 5e-6, bandwidth: 12e9, source: test}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tables of layers, and a machine of a CPU and four cards of which 24 124 MiB are free."""
    (tmp_path / "times.csv").write_text(TIMES)
    (tmp_path / "sizes.csv").write_text(SIZES)
    names = ["cpu", *(f"gpu{k}" for k in range(4))]
    devices = [DEVICE.format(name=n, kind=n[:3], memory=640e9 if n == "cpu" else 24124 * MIB) for n in names]
    links = [LINK.format(name=name) for name in names]
    (tmp_path / "cards.yaml").write_text(
        f"name: cards\ndevices:\n{''.join(devices)}switches: [hub]\nlinks:\n{''.join(links)}"
    )
    rows = ["layer,count,size [MiB],time cpu [ms],time gpu [ms],output [kB]", "first,1,570,10.7,0.85,14"]
    (tmp_path / "experts.csv").write_text("\n".join([*rows, "layers,60,9295.5,5.87,0.47,14"]) + "\n")
    return tmp_path


def test_the_best_cut_beside_a_given_one(folder: Path) -> None:
    """64 equal layers, words and a head on eight devices, eight layers each: 6.65 times one device; best: 7.32."""
    words = ("pipeline", "times.csv", "--stages", "8", "--layout", "9,8,8,8,8,8,8,9", "--name", "one")
    done = ask(*words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["speedup"] == pytest.approx(7.32, rel=0.005)
    assert document["layout"]["speedup"] == pytest.approx(6.65, rel=0.005)
    assert [stage["device"] for stage in document["stages"]] == [f"device {k}" for k in range(8)]
    assert sum(stage["layers"] for stage in document["stages"]) == 66
    assert json.loads((folder / "results/one/plan.json").read_text()) == document
    shown = ask(*words[:-1], "two", cwd=folder)
    for text in ("a result every 3.54 ms, 7.32 times as fast as device 0 alone", "time [ms]", "layers.56", "9,8,8,8"):
        assert text in shown.stdout


def test_a_table_of_sizes_is_balanced_by_size(folder: Path) -> None:
    """Eight dense layers and a head: stages of 1, 2, 2 and 3 layers have 9952 parameters in the heaviest."""
    done = ask("pipeline", "sizes.csv", "--layout", "1,2,2,4", "--planner", "all", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["layout"]["largest"] == 9952 and document["largest"] == document["heaviest"] == 6792
    assert document["fullest"] is None and document["heaviest_unit"] == document["largest_unit"] == "parameters"
    assert document["planners"]["equal-cut"] == 9480 and min(document["planners"].values()) == 6792
    shown = ask("pipeline", "sizes.csv", "--layout", "1,2,2,4", cwd=folder).stdout
    assert "6,792 parameters on the fullest device" in shown and "size [parameters]" in shown


def test_unified_memory_is_counted_once(tmp_path: Path) -> None:
    """A chip whose GPU and CPU share 68.7 GB, by hand and as linked-dp, other planners and hetgym plan judge it."""
    (tmp_path / "ninety.csv").write_text("layer,count,size [GB],time [ms]\nl,90,1,3\n")
    (tmp_path / "sixty.csv").write_text("layer,count,size [GB],time [ms]\nl,60,1,3\n")
    chip = ("--platform", "M3 Max 64GB")
    for planner in ("linked-dp",):
        refused = ask("pipeline", "ninety.csv", *chip, "--planner", planner, cwd=tmp_path)
        assert refused.returncode == 2 and "90 GB, and there are 68.72 GB: 21.28 GB are missing" in refused.stderr
    given = ask("pipeline", "sixty.csv", *chip, "--layout", "20,40", "--name", "given", "--json", cwd=tmp_path)
    document = json.loads(given.stdout)
    assert [stage["layers"] for stage in document["layout"]["stages"]] == [20, 40]


@pytest.mark.slow
def test_a_model_that_unified_memory_does_not_hold_is_refused_alike(tmp_path: Path) -> None:
    words = ("llama-3.3-70b", "--quant", "q8_0", "--phase", "decode", "--platform", "M3 Max 64GB")
    assert "6.919 GB are missing" in ask("pipeline", *words, cwd=tmp_path).stderr
    assert "6.919 GB are missing" in ask("plan", *words, cwd=tmp_path).stderr


@pytest.mark.parametrize(("model", "most"), [("gemma-3-12b", 131_072), ("qwen3-8b", 40_960)])
def test_room_for_caches_is_that_of_language_models(tmp_path: Path, model: str, most: int) -> None:
    """On one card and a CPU, hetgym pipeline and hetgym llm find the same largest context."""
    words = (model, "--quant", "Q4_K_M", "--platform", "RTX 3090, 64GB ddr4-3600", "--json")
    cut = ask("pipeline", *words, "--phase", "decode", "--objective", "cache", cwd=tmp_path)
    assert cut.returncode == 0 and json.loads(cut.stdout)["room"] == most, cut.stderr
    assert json.loads(ask("llm", *words, cwd=tmp_path).stdout)["largest_context"] == most


def test_a_delegate_that_is_dear_to_enter_stays_empty(tmp_path: Path) -> None:
    """Four layers of 10 ms on the CPU and 1 ms on a delegate that takes 2 ms, or half a second, to enter."""
    (tmp_path / "four.csv").write_text("layer,count,time cpu [ms],time npu [ms]\nlayers,4,10,1\n")
    for name, entry, device, seconds in (("cheap", "2e-3", "npu", 6e-3), ("dear", "0.5", "cpu", 40e-3)):
        npu = (
            "  - {name: npu, kind: npu, peak_flops: {float32: 1e12}, memory_bandwidth: 1e11, memory_capacity: 8e9, "
            f"launch_overhead: 1e-6, source: test, partition_overhead: {entry}, synchronous: true}}\n"
        )
        cpu, link = (
            DEVICE.format(name="cpu", kind="cpu", memory=8e9),
            "links:\n" + LINK.format(name="cpu") + LINK.format(name="npu"),
        )
        (tmp_path / f"{name}.yaml").write_text(f"name: phone\ndevices:\n{cpu}{npu}switches: [hub]\n{link}")
        for planner in ("linked-dp", "even-cut", "downset-dp"):
            words = (
                "four.csv",
                "--platform",
                f"{name}.yaml",
                "--planner",
                planner,
                "--json",
                "--force",
                "--name",
                "one",
            )
            document = json.loads(ask("pipeline", *words, cwd=tmp_path).stdout)
            assert [stage["device"] for stage in document["stages"]] == [device] and document["alone"] == device
            assert document["slowest_s"] == document["request_s"] == document["alone_s"] == pytest.approx(seconds)


def test_a_layout_counts_layers_as_other_programs_do(folder: Path) -> None:
    """GPT-2 has 12 layers; words, positions and the head come with the first and the last of them."""
    words = ("gpt2", "--platform", "8gpu-node", "--stages", "2", "--json")
    found = json.loads(ask("pipeline", *words, "--layout", "7,5", "--name", "a", cwd=folder).stdout)["layout"]
    text = found["layouts"]["megatron"].split('"')[1]
    assert text == "Et*7|t*5L" and found["layouts"]["vllm"] == "VLLM_PP_LAYER_PARTITION=7,5"
    again = json.loads(ask("pipeline", *words, "--layout", text, "--name", "b", cwd=folder).stdout)["layout"]
    assert again == found
    many = ask("pipeline", "gpt2", "--platform", "8gpu-node", "--layout", "E(t|)*11tL", cwd=folder)
    assert "stages is 12; 'gpt2@8gpu-node' has 8 devices" in many.stderr


def test_a_request_passes_fast_devices_only(folder: Path) -> None:
    """Every layer takes longer on the CPU, and what fits on two cards is not spread over four."""
    (folder / "few.csv").write_text(
        "layer,count,size [MiB],time cpu [ms],time gpu [ms],output [MB]\nlayers,6,7000,9,1,8\n"
    )
    words = ("pipeline", "few.csv", "--platform", "cards.yaml", "--objective", "latency")
    document = json.loads(ask(*words, "--json", cwd=folder).stdout)
    assert [stage["device"] for stage in document["stages"]] == ["gpu0", "gpu1"]
    assert document["request_s"] == pytest.approx(6e-3 + 2 * 5e-6 + 8e6 / 12e9)
    shown = ask(*words, "--name", "two", cwd=folder).stdout
    assert "the other devices stay empty: one more stage would make a request slower" in shown


def test_whole_layers_that_a_card_holds_and_the_rest_on_the_cpu(folder: Path) -> None:
    words = ("pipeline", "experts.csv", "--platform", "cards.yaml", "--reserve", "2500MiB")
    document = json.loads(ask(*words, "--json", cwd=folder).stdout)
    layers = {stage["device"]: stage["layers"] for stage in document["stages"]}
    assert layers["cpu"] in (51, 52, 53) and sorted(layers[f"gpu{k}"] for k in range(4)) == [2, 2, 2, 3]
    assert all(stage["bytes"] <= stage["capacity_bytes"] for stage in document["stages"])
    assert document["alone"] == "cpu" and document["alone_fits"]


def test_a_model_is_cut_at_its_blocks(folder: Path) -> None:
    words = ("pipeline", "vgg19", "--platform", "cpu-2gpu-nvlink", "--batch", "2")
    done = ask(*words, "--stages", "2", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    graph, platform = load_graph("vgg19", batch=2), load_platform("cpu-2gpu-nvlink")
    chain, block = layer_chain(graph, platform), blocks(graph)
    assert sum(stage["layers"] for stage in document["stages"]) == len(set(block.tolist()))
    first = document["stages"][0]["layers"]
    names = [device.name for device in platform.devices]
    one, two = (names.index(stage["device"]) for stage in document["stages"])
    stages = [Stage(0, first, one), Stage(first, len(chain.layers), two)]
    assert chain.loads(stages).max() == document["slowest_s"] and chain.latency_of(stages) == document["request_s"]
    assert sum(stage["bytes"] for stage in document["stages"]) == pytest.approx(float(graph.resident_bytes.sum()))
    shown = ask(*words, cwd=folder).stdout
    assert "size [MB]" in shown and "of the device" in shown and graph.operators[0].name in shown


def test_a_model_of_layers_names_them(folder: Path) -> None:
    done = ask("pipeline", "gpt2", "--platform", "cpu-2gpu-nvlink", "--stages", "2", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)["stages"]
    assert "transformer.h." in first["last"] + second["first"]
    layouts = json.loads(done.stdout)["layouts"]
    assert layouts["vllm"] == "VLLM_PP_LAYER_PARTITION=7,5"
    assert layouts["megatron"] == '--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "Et*7|t*5L"'
    assert layouts["pipelining"] == 'split_spec={"transformer.h.7": SplitPoint.BEGINNING}'
    words = ("--phase", "decode", "--dims", "sequence=64", "--platform", "8gpu-node", "--stages", "2")
    done = ask("pipeline", "llama-3-8b", *words, "--objective", "cache", "--json", cwd=folder)
    document = json.loads(done.stdout)
    assert document["room_unit"] == "tokens" and document["room"] == 8192  # the longest context of Llama 3
    assert 'split_spec={"model.layers.' in document["layouts"]["pipelining"]


def test_devices_that_no_stage_needs_are_said_to_stay_empty(folder: Path) -> None:
    (folder / "one.csv").write_text("time [ms],transfer [ms]\n5,9\n1,9\n")
    done = ask("pipeline", "one.csv", "--stages", "2", cwd=folder)
    assert "one: 1 stage by linked-dp" in done.stdout
    assert "the other devices stay empty: one more stage would not shorten the slowest\n" in done.stdout


@pytest.mark.parametrize(
    ("stages", "warned", "left"),
    [
        (("--stages", "2"), "", ""),
        (("--stages", "3"), "3 stages: 1 stays empty", "every stage is one layer already"),
        ((), "8 devices: 6 stay empty", "every stage is one layer already"),
    ],
)
def test_few_blocks_are_said_for_the_stages_that_are_wanted(
    stages: tuple[str, ...], warned: str, left: str, folder: Path
) -> None:
    x, w = Tensor((512, 512)), Tensor((512, 512), constant=True, name="w")
    gemm = [Operator(name, "Gemm", (x, w), (x,)) for name in "ab"]
    to_json(DataflowGraph(gemm, [(0, 0, 1)], "two"), folder / "two.json")
    done = ask("pipeline", "two.json", "--platform", "8gpu-node", *stages, cwd=folder, warned="always")
    said = [line for line in done.stderr.splitlines() if "warning" in line]
    assert said == ([f"hetgym: warning: graph 'two' has 2 blocks (layers) for {warned}"] if warned else [])
    assert f"the other devices stay empty: {left}\n" in done.stdout if left else "stay empty" not in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("times.csv",), "--stages is missing"),
        (("times.csv", "--stages", "8", "--layout", "33,33"), "--layout has 2 stages, and --stages 8"),
        (
            ("times.csv", "--layout", "60,5"),
            "--layout places 65 layers; there are 64, or 66 with what is before and behind them",
        ),
        (("times.csv", "--layout", "66,0"), "expected whole numbers of at least 1"),
        (("times.csv", "--stages", "2", "--batch", "3"), "belong to models, not to tables"),
        (("times.csv", "--stages", "2", "--planner", "evencut"), "did you mean 'even-cut'"),
        (("times.csv", "--stages", "2", "--objective", "speed"), "unknown objective"),
        (("sizes.csv", "--stages", "2", "--objective", "throughput"), "sizes.csv has no times"),
        (("sizes.csv", "--stages", "2", "--objective", "cache"), "every device needs a memory_capacity"),
        (
            ("times.csv", "--stages", "2", "--objective", "latency", "--planner", "even-cut"),
            "latency needs --planner linked-dp",
        ),
        (
            ("vgg19", "--platform", "cpu-gpu", "--blocks", "operators", "--planner", "linked-dp"),
            "choose other --blocks than operators",
        ),
        (("sizes.csv", "--platform", "cpu-gpu"), "sizes in parameters"),
        (("gone.csv", "--stages", "2"), "gone.csv"),
        (("vgg19",), "--platform is missing"),
        (("vgg19", "--platform", "CPU-GPU"), "did you mean 'cpu-gpu'?"),
        (("vgg19", "--platform", "dgx-a100-64"), "dgx-a100-64 is a cluster"),
        (("vgg19", "--platform", "cpu-gpu", "--stages", "3"), "stages is 3; 'vgg19@cpu-gpu' has 2 devices"),
        (("vgg19", "--platform", "cpu-gpu", "--blocks", "layer"), "unknown kind of blocks 'layer'"),
        (("vgg19", "--platform", "cpu-gpu", "--reserve", "much"), "Invalid size 'much'"),
        (("vgg19", "--platform", "cpu-gpu", "--reserve", "1000GB"), "has no more memory than that"),
        (("experts.csv", "--platform", "cards.yaml", "--layout", "1,60"), "memory: device 1 holds"),
    ],
)
def test_bad_input_gets_one_clear_line(folder: Path, words: tuple[str, ...], message: str) -> None:
    done = ask("pipeline", *words, "--name", "bad", cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
    assert not (folder / "results" / "bad").exists()
