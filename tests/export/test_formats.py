"""Plain JSON against its schema, the arguments of export_plan, and ``hetgym plan --export``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.commands import ask

import hetgym
from hetgym import ConfigError, InvalidSchedule, Problem, ProblemError, Schedule, UnknownName, export_plan
from hetgym.export import FORMATS, find_format, plan_schema
from hetgym.parallel import Group, ParallelPlan, Stage
from hetgym.planning import unregister


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem.build(hetgym.load_graph("squeezenet"), hetgym.load_platform("cpu-gpu"))


def test_json_follows_its_schema(problem: Problem, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = plan_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    schedule = hetgym.baselines.get("heft")(problem)
    found = export_plan(schedule, "json", tmp_path / "p.json", problem=problem, model="squeezenet")
    check.validate(json.loads((tmp_path / "p.json").read_text()))
    again = Schedule.from_dict(found["schedule"])
    assert hetgym.simulate(problem, again, found["runtime"]).makespan == found["makespan_s"]
    trace = hetgym.simulate(problem, schedule, "links")
    check.validate(export_plan(trace, "json"))
    slow = export_plan(hetgym.baselines.get("slack-heft")(problem), "json", problem=problem)
    check.validate(slow)
    assert min(slow["schedule"]["speed"]) < 1 and slow["problem"] == problem.id and slow["energy_j"] < found["energy_j"]
    stage = Stage(0, 3, (Group("a100", 2),))
    check.validate(export_plan(ParallelPlan((stage,), micro_batch=1, global_batch=2), "json"))
    for change in ({"version": 2}, {"makespan_s": -1}, {"blocks": []}, {"own": 1}, {"format": "hetgym-parallel-plan"}):
        assert not check.is_valid(found | change)
    assert not check.is_valid({k: v for k, v in found.items() if k != "operators"})


def test_bad_arguments_are_refused(problem: Problem, tmp_path: Path) -> None:
    schedule = hetgym.baselines.get("heft")(problem)
    with pytest.raises(UnknownName, match="format of plans 'jsn'; did you mean 'json'"):
        export_plan(schedule, "jsn", problem=problem)
    with pytest.raises(ConfigError, match="exported with its problem"):
        export_plan(schedule, "json")
    with pytest.raises(ConfigError, match="not {'assignment': "):
        export_plan({"assignment": [0]}, "json", problem=problem)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cannot be written"):
        export_plan(schedule, "json", tmp_path / "none" / "p.json", problem=problem)
    with pytest.raises(ConfigError, match="'cpu-gpu-npu' has other devices"):
        export_plan(schedule, "accelerate", problem=problem, platform=hetgym.load_platform("cpu-gpu-npu"))
    for form in ("json", "accelerate"):
        with pytest.raises(ProblemError, match="a problem is a hetgym.Problem, not str"):
            export_plan(schedule, form, problem="squeezenet")  # type: ignore[arg-type]
        wrong: tuple[tuple[dict[str, Any], str], ...] = (
            ({"platform": "cpu-gpu"}, "as hetgym.load_platform returns, not 'cpu-gpu'"),
            ({"model": 3}, "the model of a plan is read from a path, not from int 3"),
            ({"weights": 3}, "weights are a sequence of names, not 3"),
            ({"weights": [b"w"]}, "weights are a sequence of names"),
            ({"layers": "model.layers"}, "layers are a sequence of names, not 'model.layers'"),
        )
        for arguments, message in wrong:
            with pytest.raises(ConfigError, match=message):
                export_plan(schedule, form, problem=problem, **arguments)
    with pytest.raises(InvalidSchedule, match="1 operators are assigned"):
        export_plan(Schedule([0], order=[[0], []]), "accelerate", problem=problem)


def test_the_command_writes_every_form_that_holds_the_plan(tmp_path: Path) -> None:
    words = ("plan", "llama-3-8b", "--dims", "sequence=64", "--phase", "decode", "--layers", "--platform", "cpu-gpu")
    exports = ("--export", "llama.cpp", "--export", "json:my.json", "--export", "accelerate")
    done = ask(*words, "--schedulers", "single-device", *exports, "--name", "p", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "results" / "p"
    document = json.loads(done.stdout)
    assert {"llama.cpp", "json", "accelerate"} <= document["files"].keys()
    assert (folder / find_format("llama.cpp").file).read_text().startswith("--n-gpu-layers ")
    assert json.loads((folder / "device_map.json").read_text()) in ({"": 0}, {"": "cpu"})
    assert json.loads((tmp_path / "my.json").read_text())["operators"] == document["plan"]["operators"]
    assert len(document["plan"]["operators"]) == 35


def test_the_command_refuses_before_it_plans(tmp_path: Path) -> None:
    done = ask("plan", "gpt2", "--platform", "cpu-gpu", "--export", "onnx", cwd=tmp_path)
    assert done.returncode == 2 and "unknown format of plans 'onnx'; did you mean 'onnxruntime'" in done.stderr
    assert not (tmp_path / "results").exists()
    words = ("plan", "squeezenet", "--platform", "cpu-gpu", "--schedulers", "heft")
    for form, says in (
        ("llama.cpp", "language models, and squeezenet@cpu-gpu is not one of"),
        ("onnxruntime", "places the nodes of an .onnx file; plan one, not squeezenet"),
        ("pipelining", "the operators of squeezenet@cpu-gpu are not named after modules"),
        ("accelerate", "the operators of squeezenet@cpu-gpu are not named after modules"),
    ):
        done = ask(*words, "--export", "json:my.json", "--export", form, "--name", "p", cwd=tmp_path)
        assert done.returncode == 2 and says in done.stderr
    assert not (tmp_path / "results").exists() and not (tmp_path / "my.json").exists()
    done = ask(*words, "--layers", cwd=tmp_path)
    assert done.returncode == 2 and "no operators are named after layers" in done.stderr


SPREAD = """
from hetgym import Schedule, baselines

@baselines.register("spread", kind="list", citation="-", complexity="-")
def spread(problem):
    n, d = problem.num_operators, problem.num_devices
    return Schedule([i % d for i in range(n)], priority=[-float(i) for i in problem.arrays.position])
"""


def test_what_one_form_loses_does_not_stop_the_others(tmp_path: Path) -> None:
    words = ["plan", "qwen3-0.6b", "--platform", "cpu-2gpu-nvlink", "--schedulers", "spread", "--name", "p"]
    (tmp_path / "spread.py").write_text(SPREAD)
    words += ["--export", "llama.cpp", "--export", "pipelining", "--export", "json:my.json"]
    try:
        done = ask(*words, "--import", "spread.py", cwd=tmp_path)
    finally:
        unregister("spread")
    assert done.returncode == 2
    assert "llama.cpp cannot follow this plan" in done.stderr and "pipelining cannot follow this plan" in done.stderr
    assert "plan.json" in done.stdout and "my.json" in done.stdout and "llama.cpp.args" not in done.stdout
    assert json.loads((tmp_path / "my.json").read_text())["operators"]


@pytest.mark.parametrize(
    ("exports", "says"),
    [
        (("json:own.yaml",), "--export json:own.yaml would overwrite own.yaml, which the plan is made from"),
        (("accelerate:x.json", "json:x.json"), "two exports would write to x.json"),
        (("accelerate:x.json", "json:./y/../x.json"), "two exports would write to y/../x.json"),
        (("onnxruntime:x.onnx", "json:x.json"), "two exports would write to x.json"),
        (("accelerate", "accelerate"), "two exports would write to device_map.json"),
        (("json:.",), ".: cannot be written (Is a directory)"),
        (("json:none/x.json",), "none/x.json: cannot be written (No such file or directory)"),
    ],
)
def test_exports_that_would_lose_something_are_refused_before_it_plans(
    exports: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    (tmp_path / "y").mkdir()
    (tmp_path / "own.yaml").write_text(hetgym.load_platform("cpu-gpu").name)
    words = [word for export in exports for word in ("--export", export)]
    done = ask("plan", "squeezenet", "--platform", "own.yaml", *words, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr == f"hetgym: error: {says}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.yaml", "y"]


def test_exports_into_the_folder_of_the_run(tmp_path: Path) -> None:
    words = ("plan", "squeezenet", "--platform", "cpu-gpu", "--schedulers", "single-device", "--name", "p")
    done = ask(*words, "--export", "json:results/p/mine.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results" / "p" / "mine.json").exists()


def test_training_plans_are_exported(tmp_path: Path) -> None:
    words = ("cluster", "gpt-1.7b", "--platform", "dgx-a100-64", "--global-batch", "8")
    words += ("--planner", "uniform-grid", "--export", "json:t.json", "--export", "accelerate")
    done = ask(*words, cwd=tmp_path)
    assert done.returncode == 2 and "accelerate holds no plan of a training step" in done.stderr
    assert not (tmp_path / "results").exists()
    assert ask(*words[:-2], cwd=tmp_path).returncode == 0
    assert json.loads((tmp_path / "t.json").read_text())["format"] == "hetgym-parallel-plan"


def test_every_form_says_what_it_holds() -> None:
    assert len({form.name for form in FORMATS}) == len({form.file for form in FORMATS}) == 5
    assert all(form.holds.endswith(".") for form in FORMATS)
