"""Plans for programs that run PyTorch modules: Accelerate's device maps, and split points of pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hetgym
from hetgym import ConfigError, Problem, Schedule, export_plan
from hetgym.cli.exports import Exports, parse_exports
from hetgym.parallel import Group, ParallelPlan, Stage
from hetgym.planning.layers import by_layers

torch = pytest.importorskip("torch")
nn = torch.nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.act, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        return x + self.down(self.act(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(32, 8), nn.Embedding(4, 8)
        self.layers = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(8, 32)

    def forward(self, x: Any) -> Any:
        x = self.tokens(x) + self.positions(torch.arange(4))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


INPUT = torch.arange(8).reshape(2, 4)


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def problem_of(module: Net, platform: str = "cpu-2gpu-nvlink") -> Problem:
    graph = hetgym.graph.from_torch(module, (INPUT,))
    return Problem.build(graph, hetgym.load_platform(platform))


def schedule(problem: Problem, on: dict[str, int], default: int = 1) -> Schedule:
    """Operators on the device of the first prefix that fits."""
    devices = [next((d for p, d in on.items() if n.startswith(p)), default) for n in problem.operator_names]
    order = [[i for i, d in enumerate(devices) if d == k] for k in range(problem.num_devices)]
    return Schedule(devices, order=order)


HALVES = {"layers.2": 2, "layers.3": 2, "head": 2}


@pytest.mark.parametrize("layers", [False, True])
def test_a_device_map_names_the_largest_modules(net: Net, layers: bool, tmp_path: Path) -> None:
    problem = problem_of(net)
    problem = by_layers(problem) if layers else problem
    weights = net.state_dict()
    found = export_plan(schedule(problem, HALVES), "accelerate", tmp_path / "m.json", problem=problem, weights=weights)
    # the sum of tokens and positions runs where the tokens are
    assert found == {"tokens": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "head": 1, "positions": 0}
    assert export_plan(schedule(problem, {}, default=0), "accelerate", problem=problem) == {"": "cpu"}
    with pytest.raises(ConfigError, match=r"a device for every weight, .* pass weights=… to hetgym.export_plan"):
        export_plan(schedule(problem, HALVES), "accelerate", problem=problem)


def test_accelerate_puts_weights_where_the_map_says(tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    module = Net().eval()
    problem = problem_of(module)
    found = export_plan(schedule(problem, HALVES), "accelerate", problem=problem, weights=module.state_dict())
    accelerate.utils.check_device_map(module, found)
    with torch.no_grad():
        expected = module(INPUT)
    # without GPUs, the disk stands for the second one: its weights leave the module
    places = {path: "cpu" if number == 0 else "disk" for path, number in found.items()}
    accelerate.dispatch_model(module, places, main_device="cpu", offload_dir=tmp_path, force_hooks=True)
    away = {name for name, weight in module.named_parameters() if weight.device.type == "meta"}
    assert away == {name for name in module.state_dict() if name.startswith(("layers.2", "layers.3", "head"))}
    with torch.no_grad():
        assert torch.equal(module(INPUT), expected)
    with pytest.raises(ValueError, match="positions"):  # a weight that the plan does not show
        accelerate.utils.check_device_map(module, {k: v for k, v in found.items() if k != "positions"})


def test_language_models_of_the_zoo_get_the_names_of_transformers() -> None:
    graph = hetgym.graph.generators.language_model("llama", layers=3, hidden=32, heads=4, kv_heads=2, vocabulary=64)
    problem = by_layers(Problem.build(graph, hetgym.load_platform("cpu-2gpu-nvlink")))
    plan = schedule(problem, {"layers.2": 2, "norm": 2, "lm_head": 2})
    found = export_plan(plan, "accelerate", problem=problem)
    assert found == {
        "model.embed_tokens": 0, "model.layers.0": 0, "model.layers.1": 0,
        "model.layers.2": 1, "model.norm": 1, "lm_head": 1, "model.rotary_emb": 0,
    }  # fmt: skip
    with pytest.raises(ConfigError, match="named by the model's family; pass model=…"):
        export_plan(plan, "pipelining", problem=problem.replace(name="mine"))
    points = export_plan(plan, "pipelining", problem=problem)["split_spec"]
    assert points == {"model.layers.2": "beginning"}


def test_plans_that_accelerate_would_not_follow(net: Net) -> None:
    problem = problem_of(net)
    with pytest.raises(
        ConfigError, match="1 of 23 operators, such as 'layers.1.add', .* --layers' places whole layers"
    ):
        export_plan(schedule(problem, {"layers.1.down": 2}), "accelerate", problem=problem)  # its sum has two sources
    whole = by_layers(problem)
    with pytest.raises(
        ConfigError, match="copies weights .* CPU to gpu0 at each call .* 1 operator of cpu would run on gpu0"
    ):
        export_plan(schedule(whole, {"tokens": 0}), "accelerate", problem=whole)
    cpus = problem_of(net, "core-pair")
    with pytest.raises(ConfigError, match="knows one CPU, and the plan uses wide and narrow"):
        export_plan(schedule(cpus, {"head": 0}), "accelerate", problem=cpus)
    unnamed = Problem.build(hetgym.load_graph("resnet50"), hetgym.load_platform("cpu-gpu"))
    for name in ("accelerate", "pipelining"):
        with pytest.raises(ConfigError, match="resnet50@cpu-gpu are not named after modules; it takes networks"):
            export_plan(hetgym.baselines.get("single-device")(unnamed), name, problem=unnamed)


def test_weights_that_no_operator_reads_lie_on_the_first_device(net: Net) -> None:
    problem = problem_of(net)
    tokens = schedule(problem, {"tokens": 2, "add": 2}, default=1)
    weights = [*net.state_dict(), "odd.table"]
    assert export_plan(tokens, "accelerate", problem=problem, weights=weights)["odd"] == 1
    alone = schedule(problem, {}, default=0)
    assert export_plan(alone, "accelerate", problem=problem, weights=weights) == {"": "cpu"}


class Scaled(torch.nn.Module):
    """A layer with a buffer and a parameter of its own; the buffer is in no state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.register_buffer("scale", torch.full((1,), 0.5), persistent=False)
        self.gain = torch.nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x))) * self.scale * self.gain


def test_weights_of_a_layer_itself_lie_where_they_are_read() -> None:
    module = torch.nn.Sequential(Scaled(), Scaled()).eval()
    weights = [*module.state_dict(), *(name for name, _ in module.named_buffers())]
    problem = Problem.build(
        hetgym.graph.from_torch(module, (torch.zeros(2, 8),)), hetgym.load_platform("cpu-2gpu-nvlink")
    )
    plan = schedule(problem, {"0.down": 2, "0.mul": 2, "0.mul_2": 2, "1": 2})
    found = export_plan(plan, "accelerate", problem=problem, weights=weights)
    assert found == {"0.up": 0, "0.down": 1, "1": 1, "0.scale": 1, "0.gain": 1}


SPLITS = [
    HALVES,
    pytest.param({"tokens": 2, "add": 2}, marks=pytest.mark.slow),
    pytest.param({"layers.1": 2, "layers.2": 1, "layers.3": 2, "head": 2}, marks=pytest.mark.slow),
    {"layers.3.add": 2, "head": 2},
]


@pytest.mark.filterwarnings("ignore:.isinstance.treespec:FutureWarning")  # within torch
@pytest.mark.parametrize("on", SPLITS)
def test_pytorch_splits_where_the_plan_does(on: dict[str, int]) -> None:
    from torch.distributed.pipelining import SplitPoint, pipeline

    module = Net().eval()
    problem = problem_of(module)
    plan = schedule(problem, on)
    found = export_plan(plan, "pipelining", problem=problem)
    spec = {path: SplitPoint[point.upper()] for path, point in found["split_spec"].items()}
    pipe = pipeline(module, (INPUT,), split_spec=spec)
    assert pipe.num_stages == len(found["stages"])
    devices = dict(zip(problem.operator_names, (problem.device_names[d] for d in plan.assignment), strict=True))
    for number, stage in enumerate(found["stages"]):
        assert devices[stage["first"]] == devices[stage["last"]] == stage["device"]
        owners = {name.rpartition(".")[0] for name, _ in pipe.get_stage_module(number).named_parameters()}
        planned = {device for name, device in devices.items() if name.rpartition(".")[0] in owners - {"positions"}}
        assert planned == {stage["device"]}
    with torch.no_grad():
        assert torch.allclose(pipe(INPUT)[0] if isinstance(pipe(INPUT), tuple) else pipe(INPUT), module(INPUT))


def test_plans_that_pipelining_cannot_split(net: Net) -> None:
    problem = problem_of(net, "8gpu-node")
    with pytest.raises(ConfigError, match="from gpu2 back to gpu0 at 'layers.3.norm.layer_norm'"):
        export_plan(
            schedule(problem, {"layers.1": 0, "layers.2": 2, "layers.3": 0, "head": 0}), "pipelining", problem=problem
        )
    with pytest.raises(ConfigError, match="has 3 stages on 2 devices"):
        export_plan(schedule(problem, {"layers.1": 0}), "pipelining", problem=problem)
    gpt = Problem.build(hetgym.load_graph("gpt2"), hetgym.load_platform("even-pair"))
    at = gpt.operator_names.index("transformer.h.5.attn.transpose")
    halves = Schedule([int(i >= at) for i in range(gpt.num_operators)], order=[range(at), range(at, gpt.num_operators)])
    with pytest.raises(
        ConfigError, match="splits module 'transformer.h.5.attn' before 'transformer.h.5.attn.transpose'"
    ):
        export_plan(halves, "pipelining", problem=gpt)


def test_training_plans_become_stages() -> None:
    stages = tuple(Stage(a, b, (Group("a100"), Group("h100"))) for a, b in ((0, 2), (3, 5)))
    plan = ParallelPlan(stages, micro_batch=2, global_batch=16)
    found = export_plan(plan, "pipelining")
    assert found["split_spec"] == {"model.layers.2": "beginning"}
    assert found["stages"][1] == {
        "device": "a100", "first": "model.layers.2", "last": "model.norm", "replicas": ["a100", "h100"]
    }  # fmt: skip
    assert (found["schedule"], found["micro_batch"], found["micro_batches"]) == ("1f1b", 2, 4)
    assert export_plan(plan, "pipelining", layers=[f"b.{k}" for k in range(6)])["split_spec"] == {"b.3": "beginning"}
    with pytest.raises(ConfigError, match="2 paths of layers for a plan of 6 layers"):
        export_plan(plan, "pipelining", layers=["a", "b"])
    split = ParallelPlan((Stage(0, 5, (Group("a100", 4),)),), micro_batch=1, global_batch=4)
    with pytest.raises(ConfigError, match="splits no tensors, and layers 0 to 5 run on 4 GPUs together"):
        export_plan(split, "pipelining")
    for name in ("accelerate", "onnxruntime", "llama.cpp"):
        with pytest.raises(ConfigError, match=f"{name} holds no plan of a training step: its stages, replicas"):
            export_plan(plan, name)


def test_a_plan_of_one_stage_says_that_there_is_nothing_to_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = hetgym.graph.generators.language_model("llama", layers=3, hidden=32, heads=4, kv_heads=2, vocabulary=64)
    problem = by_layers(Problem.build(graph, hetgym.load_platform("cpu-2gpu-nvlink")))
    for devices, said in (({}, True), ({"layers.2": 2, "norm": 2, "lm_head": 2}, False)):
        trace = hetgym.simulate(problem, schedule(problem, devices))
        files, refused = Exports(parse_exports(["pipelining"])).write(trace, tmp_path)
        assert refused is None and files["pipelining"].exists()
        assert ("the plan has one stage, so there is nothing to split" in capsys.readouterr().err) == said
