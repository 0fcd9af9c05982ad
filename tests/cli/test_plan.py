"""``hetgym plan`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import run

import hetgym
from hetgym import Schedule, baselines, load_graph, load_platform, simulate, validate
from hetgym.cli.plan import parse_dims


def test_plan_gives_a_schedule_that_can_be_read_back(tmp_path: Path) -> None:
    words = ("plan", "squeezenet", "--platform", "cpu-gpu-npu", "--batch", "4", "--schedulers", "heft,random", "--json")
    done = run(*words, "--name", "p", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "results" / "p" / "plan.json").read_text())
    assert json.loads(done.stdout)["plan"] == plan
    graph = load_graph("squeezenet", batch=4)
    problem = hetgym.Problem.build(graph, load_platform("cpu-gpu-npu"))
    schedule = Schedule.from_dict(plan["schedule"])
    validate(problem, schedule)
    assert simulate(problem, schedule, plan["runtime"]).makespan == plan["makespan_s"]
    best = min(simulate(problem, baselines.get(s)(problem), "links").makespan for s in ("heft", "random"))
    assert plan["makespan_s"] == best
    assert {o["name"]: o["device"] for o in plan["operators"]} == {
        op.name: problem.device_names[d] for op, d in zip(graph.operators, schedule.assignment, strict=True)
    }
    assert sum(share["operators"] for share in plan["devices"]) == problem.num_operators
    assert sum(share["sent_bytes"] for share in plan["devices"]) == validate(problem, schedule).remote_bytes


def test_plan_shows_what_each_device_does(tmp_path: Path) -> None:
    done = run("plan", "alexnet", "--platform", "cpu-gpu", "--schedulers", "heft", cwd=tmp_path)
    assert done.returncode == 0
    assert "times as fast as everything on the best single device" in done.stdout
    assert all(word in done.stdout for word in ("device", "weights", "receives", "cpu", "gpu"))


def test_dims_may_be_joined_by_commas_or_repeated() -> None:
    assert (
        parse_dims(["N=2,S=16"]) == parse_dims(["N=2", "S=16"]) == parse_dims(["N=2, S=16", "N=2"]) == {"N": 2, "S": 16}
    )
    with pytest.raises(hetgym.ConfigError, match="N is given as 2 and as 3"):
        parse_dims(["N=2,N=3"])
