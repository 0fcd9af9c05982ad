"""Plans for ONNX Runtime: read by ONNX Runtime where it is installed, and by its documented rules."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from cli.commands import ask

import hetgym
from hetgym import ConfigError, GraphError, Problem, Schedule, export_plan
from hetgym.export.onnx_runtime import BY_ANNOTATION, BY_NAME, match, shortest_rules

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def model(path: Path, names: list[str], blocks: int = 3) -> Path:
    """A chain of blocks of a product, an activation and a sum, and the shape of an input, which hetgym folds."""
    value, node = helper.make_tensor_value_info, helper.make_node
    weights = [numpy_helper.from_array(np.full((4, 4), 0.1 * (k + 1), np.float32), f"w{k}") for k in range(blocks)]
    nodes = [node("Shape", ["x"], ["shape"], name="shape")]
    last, spare = "x", iter(names)
    for k in range(blocks):
        nodes += [
            node("MatMul", [last, f"w{k}"], [f"m{k}"], name=next(spare, f"/layers.{k}/product")),
            node("Relu", [f"m{k}"], [f"r{k}"], name=next(spare, f"/layers.{k}/act")),
            node("Add", [f"r{k}", last], [f"a{k}"], name=next(spare, f"/layers.{k}/sum")),
        ]
        last = f"a{k}"
    nodes.append(node("Reshape", [last, "shape"], ["y"], name="/out"))
    inputs, outputs = [value("x", TensorProto.FLOAT, [2, 4])], [value("y", TensorProto.FLOAT, [2, 4])]
    made = helper.make_graph(nodes, "net", inputs, outputs, weights)
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def planned(path: Path, platform: str = "cpu-gpu") -> tuple[Problem, Schedule]:
    """A plan that goes back and forth."""
    problem = Problem.build(hetgym.load_graph(path, batch=None), hetgym.load_platform(platform))
    devices = np.array([(i * i) % 3 % 2 for i in range(problem.num_operators)], np.int32)
    order = [np.flatnonzero(devices == d) for d in range(problem.num_devices)]
    return problem, Schedule(devices, order=order)


def rules(settings: str) -> dict[str, str]:
    """Pattern -> device by the documented grammar ``device(pattern, …); device(pattern, …)``."""
    found: dict[str, str] = {}
    for entry in settings.split(";"):
        device, patterns = re.fullmatch(r"\s*([\w:]+)\(([^()]*)\)\s*", entry).groups()
        for pattern in patterns.split(","):
            assert pattern.strip() and pattern.strip() not in found
            found[pattern.strip()] = device
    return found


def session(path: Path, options: dict[str, str]) -> object:
    """A session of the really installed ONNX Runtime, on the CPU."""
    ort = pytest.importorskip("onnxruntime")
    settings = ort.SessionOptions()
    settings.log_severity_level = 4  # this machine has no GPU, which is an error to its log
    for key, value in options.items():
        settings.add_session_config_entry(key, value)
    return ort.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def wanted(problem: Problem, schedule: Schedule) -> dict[str, str]:
    return {name: "gpu" if d else "cpu" for name, d in zip(problem.operator_names, schedule.assignment, strict=True)}


def test_names_of_nodes_give_every_node_its_device(tmp_path: Path) -> None:
    path = model(tmp_path / "net.onnx", [])
    problem, schedule = planned(path)
    found = export_plan(schedule, "onnxruntime", tmp_path / "ort.json", problem=problem, model=path)
    assert list(found["session_options"]) == [BY_NAME]
    patterns = rules(found["session_options"][BY_NAME])
    devices = wanted(problem, schedule)
    assert set(devices.values()) == {"cpu", "gpu"}
    for name, device in devices.items():  # the longest part of the name counts
        assert patterns[max((p for p in patterns if p in name), key=len)] == device


def test_annotated_nodes_have_the_device_of_their_operator(tmp_path: Path) -> None:
    names = ["", "", "n1", "n1"]  # which no rule by name could tell apart
    path = model(tmp_path / "net.onnx", names)
    problem, schedule = planned(path)
    with pytest.raises(ConfigError, match="a MatMul node has no name; export to a file that ends in .onnx"):
        export_plan(schedule, "onnxruntime", problem=problem, model=path)
    written = tmp_path / "planned.onnx"
    found = export_plan(schedule, "onnxruntime", written, problem=problem, model=path)
    assert found["session_options"] == {BY_ANNOTATION: "cpu(=cpu); gpu(=gpu)"}
    assert (tmp_path / "planned.json").exists()
    nodes = onnx.load(written).graph.node
    marks = [{entry.key: entry.value for entry in node.metadata_props}.get("layer_ann") for node in nodes]
    assert marks[0] is None  # the folded shape
    assert marks[1:] == ["gpu" if d else "cpu" for d in schedule.assignment]


@pytest.mark.parametrize("annotated", [False, True])
def test_onnx_runtime_takes_the_plan(tmp_path: Path, annotated: bool) -> None:
    path = model(tmp_path / "net.onnx", [])
    problem, schedule = planned(path)
    to = tmp_path / ("planned.onnx" if annotated else "ort.json")
    options = export_plan(schedule, "onnxruntime", to, problem=problem, model=path)["session_options"]
    x = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}
    expected = session(path, {}).run(None, x)[0]
    found = session(to if annotated else path, options).run(None, x)[0]
    np.testing.assert_array_equal(found, expected)
    (key,) = options
    ort = pytest.importorskip("onnxruntime")
    with pytest.raises(Exception, match="Invalid layering config") as refused:  # it does read the option
        session(path, {key: options[key].replace("(", "")})
    assert "InvalidArgument" in type(refused.value).__name__ and ort.__version__


def test_few_patterns_suffice_for_long_models() -> None:
    rng = np.random.default_rng(0)
    names = [f"/model/layers.{k}/{part}/{op}" for k in range(80) for part in ("attn", "mlp") for op in ("a", "b", "ab")]
    devices = {name: "gpu" if int(name.split(".")[1].split("/")[0]) >= 30 else "cpu" for name in names}
    assert len(shortest_rules(devices)) < 60
    mixed = {name: str(rng.integers(3)) for name in [*names, "b", "ab", "/mlp/"]}
    found = shortest_rules(mixed)
    assert {name: match(found, name) for name in mixed} == mixed


def test_patterns_give_every_name_its_value() -> None:
    """A prefix also matches inside other names, and so do the whole names that are added against it."""
    names = ["".join(letters) for k in (1, 2, 3) for letters in itertools.product("ab", repeat=k)]
    awkward = {"a": "gpu", "abb": "gpu", "b": "gpu", "bb": "cpu"}
    rng = np.random.default_rng(0)
    drawn = [rng.choice(names, int(rng.integers(1, len(names))), replace=False).tolist() for _ in range(1000)]
    for wanted in (awkward, *({name: str(rng.choice(["cpu", "gpu"])) for name in some} for some in drawn)):
        rules = shortest_rules(wanted)
        assert {name: match(rules, name) for name in wanted} == wanted


def test_plans_that_onnx_runtime_cannot_follow(tmp_path: Path) -> None:
    path = model(tmp_path / "net.onnx", [])
    problem, schedule = planned(path)
    spread = Problem.build(hetgym.load_graph(path, batch=None), hetgym.load_platform("cpu-2gpu-nvlink"))
    turns = np.arange(spread.num_operators) % 2 + 1
    two = Schedule(turns, order=[np.flatnonzero(turns == d) for d in range(3)])
    with pytest.raises(ConfigError, match="one GPU a session, and the plan uses gpu0 and gpu1"):
        export_plan(two, "onnxruntime", problem=spread, model=path)
    with pytest.raises(ConfigError, match="places the nodes of an .onnx file; plan one"):
        export_plan(schedule, "onnxruntime", problem=problem)
    other = model(tmp_path / "other.onnx", [], blocks=2)
    with pytest.raises(ConfigError, match="'/layers.2/product' is not among them"):
        export_plan(schedule, "onnxruntime", problem=problem, model=other)
    (tmp_path / "bad.onnx").write_bytes(b"\x08\xff")
    with pytest.raises(GraphError, match="not an ONNX model"):
        export_plan(schedule, "onnxruntime", problem=problem, model=tmp_path / "bad.onnx")
    with pytest.raises(ConfigError, match="cannot be written"):
        export_plan(schedule, "onnxruntime", tmp_path / "none" / "x.onnx", problem=problem, model=path)


@pytest.mark.parametrize("place", ["net.onnx", "other/../net.onnx", "link.onnx"])
def test_the_model_itself_is_not_overwritten(tmp_path: Path, place: str) -> None:
    path = model(tmp_path / "net.onnx", [])
    (tmp_path / "other").mkdir()
    (tmp_path / "link.onnx").hardlink_to(path)
    before = path.read_bytes()
    problem, schedule = planned(path)
    with pytest.raises(ConfigError, match="an export would overwrite the model"):
        export_plan(schedule, "onnxruntime", tmp_path / place, problem=problem, model=path)
    assert path.read_bytes() == before
    done = ask("plan", "net.onnx", "--platform", "cpu-gpu", "--export", f"onnxruntime:{place}", cwd=tmp_path)
    assert done.returncode == 2 and "would overwrite net.onnx" in done.stderr
    assert path.read_bytes() == before


def test_weights_beside_the_model_stay_beside_it(tmp_path: Path) -> None:
    path = model(tmp_path / "net.onnx", [])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    problem, schedule = planned(path)
    (tmp_path / "else").mkdir()
    with pytest.raises(ConfigError, match="lie in files beside it; export to a model in the same folder"):
        export_plan(schedule, "onnxruntime", tmp_path / "else" / "x.onnx", problem=problem, model=path)
    export_plan(schedule, "onnxruntime", tmp_path / "x.onnx", problem=problem, model=path)
    assert len(onnx.load(tmp_path / "x.onnx").graph.initializer) == 3


def test_long_names_are_refused_with_what_to_do(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = ["".join(map(chr, rng.integers(97, 123, 900))) for _ in range(12)]
    path = model(tmp_path / "net.onnx", names, blocks=4)
    problem, _ = planned(path)
    devices = rng.integers(0, 2, problem.num_operators)
    schedule = Schedule(devices, order=[np.flatnonzero(devices == d) for d in range(2)])
    try:
        found = export_plan(schedule, "onnxruntime", problem=problem, model=path)
    except ConfigError as error:
        assert re.search(r"8192 characters of patterns, and the plan needs \d+; export to a file", str(error))
    else:
        assert len(found["session_options"][BY_NAME]) <= 8192
