"""``hetgym plan`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import HETGYM, ask, run

import hetgym
from hetgym import Schedule, baselines, load_graph, load_platform, simulate, validate
from hetgym.cli.options import parse_dims


def test_plan_gives_a_schedule_that_can_be_read_back(tmp_path: Path) -> None:
    words = ("plan", "squeezenet", "--platform", "cpu-gpu-npu", "--batch", "4", "--schedulers", "heft,random", "--json")
    done = ask(*words, "--name", "p", cwd=tmp_path)
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


def test_plan_answers_what_it_gains_what_goes_where_whether_it_fits_and_what_limits_it(tmp_path: Path) -> None:
    words = ("plan", "inception_v1", "--platform", "cpu-gpu-npu", "--budget", "300ms")
    done = ask(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answers = (
        "times as long",
        "no plan that keeps operators whole",
        "what goes where",
        "memory, at most",
        "cross devices",
    )
    for word in (*answers, "along the critical chain"):
        assert word in done.stdout
    assert "SLR" not in done.stdout  # the table of schedulers comes with --compare only


def test_plan_is_never_longer_than_a_single_device_or_heft(tmp_path: Path) -> None:
    done = ask("plan", "lstm", "--platform", "cpu-gpu", "--budget", "50ms", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    problem = hetgym.Problem.build(load_graph("lstm"), load_platform("cpu-gpu"))
    plans = [baselines.get(name)(problem, "links") for name in ("single-device", "heft")]
    assert document["plan"]["makespan_s"] <= min(simulate(problem, plan, "links").makespan for plan in plans)


INTERRUPTED = f"""
import os, signal, threading, time
from hetgym.search import search

def interrupt() -> None:
    since = time.monotonic()
    while time.monotonic() < since + 0.3:  # until it has searched for so long
        time.sleep(0.01)
        since = since if search._interrupts.searching else time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
{HETGYM}
"""


def test_an_interrupted_plan_is_the_best_that_was_found(tmp_path: Path) -> None:
    words = ("plan", "squeezenet", "--platform", "cpu-gpu-npu", "--budget", "1h", "--json")
    done = run(*words, cwd=tmp_path, code=INTERRUPTED)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == (
        "interrupted: the search ended early; the plan is the best that it had found"
    )
    found = {row["scheduler"]: row["makespan_s"] for row in json.loads(done.stdout)["rows"]}
    assert found["portfolio"] <= min(found["heft"], found["single-device"])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--dtype", "float16"), "float16"),
        (("--fuse",), "fused"),
        (("--training",), "training"),
        (("--runtime", "links,order=ready"), "ready"),
    ],
)
def test_plan_takes_the_model_as_it_will_run(tmp_path: Path, words: tuple[str, ...], name: str) -> None:
    done = ask("plan", "squeezenet", "--platform", "cpu-gpu", "--budget", "20ms", "--json", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)["plan"]
    graph = load_graph("squeezenet")
    if name == "float16":
        assert sum(share["weight_bytes"] for share in plan["devices"]) == graph.model_bytes / 2
    elif name == "ready":
        assert plan["runtime"] == "communication=fifo,order=ready"
    else:
        assert (len(plan["operators"]) < len(graph)) == (name == "fused")


def test_a_model_that_fits_no_device_is_spread_or_refused(tmp_path: Path) -> None:
    """VGG-19 takes 575 MB."""
    text = (Path(hetgym.__file__).parent / "configs" / "platforms" / "cpu-gpu.yaml").read_text()
    small = text.replace("memory_capacity: 17179869184", "memory_capacity: 200000000")
    (tmp_path / "small.yaml").write_text(small)
    done = ask("plan", "vgg19", "--platform", "small.yaml", "--budget", "300ms", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for share in json.loads(done.stdout)["plan"]["devices"]:
        assert share["peak_bytes"] <= share["capacity_bytes"]
    (tmp_path / "tiny.yaml").write_text(small.replace("memory_capacity: 206158430208", "memory_capacity: 300000000"))
    done = ask("plan", "vgg19", "--platform", "tiny.yaml", "--budget", "300ms", cwd=tmp_path)
    assert done.returncode == 2
    assert "no plan fits: the weights take 574.7 MB" in done.stderr and "84.67 MB are missing" in done.stderr


def test_plans_for_another_objective_take_less_of_it(tmp_path: Path) -> None:
    words = ("plan", "squeezenet", "--platform", "cpu-gpu-npu", "--budget", "50ms")
    done = ask(*words, "--objective", "makespan=1,energy=1", "--name", "p", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "times that of HEFT's plan" in done.stdout and "plans that do not dominate each other" in done.stdout
    plan = json.loads((tmp_path / "results" / "p" / "plan.json").read_text())
    problem = hetgym.Problem.build(load_graph("squeezenet"), load_platform("cpu-gpu-npu"))
    assert plan["problem"] == problem.id and plan["objective"] == {"makespan": 0.5, "energy": 0.5, "cost": 0.0}
    trace = simulate(problem, Schedule.from_dict(plan["schedule"]), "links")
    assert (trace.makespan, trace.energy.total) == (plan["makespan_s"], plan["energy_j"])
    heft = simulate(problem, baselines.heft(problem, runtime="links"), "links")
    assert trace.makespan / heft.makespan + trace.energy.total / heft.energy.total < 2.0


def test_odd_words_of_plan_are_refused_in_one_sentence(tmp_path: Path) -> None:
    for words, reason in (
        (("--dtype", "float17"), "a graph cannot be cast to 'float17'"),
        (("--phase", "decode"), "option 'phase' is for language models"),
        (("--runtime", "links,order=random"), "order cannot be 'random'"),
        (("--budget", "soon"), "invalid duration 'soon'"),
        (("--objective", "energi"), "unknown objective 'energi'; did you mean 'energy'"),
        (("--objective", "cost"), "does not state the price of all devices"),
        (("--runtime", "links,stream=2"), "unknown switch of a runtime 'stream'; did you mean 'streams'"),
        (("--runtime", "links,streams=x"), "streams cannot be 'x'"),
    ):
        done = ask("plan", "alexnet", "--platform", "cpu-gpu", *words, cwd=tmp_path)
        assert (done.returncode, reason in done.stderr) == (2, True), done.stderr


def test_dims_may_be_joined_by_commas_or_repeated() -> None:
    assert (
        parse_dims(["N=2,S=16"]) == parse_dims(["N=2", "S=16"]) == parse_dims(["N=2, S=16", "N=2"]) == {"N": 2, "S": 16}
    )
    with pytest.raises(hetgym.ConfigError, match="N is given as 2 and as 3"):
        parse_dims(["N=2,N=3"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--planner", "pipedream"], "No such option: --planner"),
        (["--global-batch", "8"], "No such option: --global-batch"),
        (["--schedulers", "heft", "--budget", "1s"], "--budget is for the search, which --schedulers replaces"),
        (["--schedulers", "heft", "--ray"], "--ray is for the search, which --schedulers replaces"),
        (["--ray"], "operators, and problems of fewer than 2,000 are not searched in windows"),
    ],
)
def test_options_of_other_commands_are_refused(tmp_path: Path, words: list[str], message: str) -> None:
    done = ask("plan", "alexnet", "--platform", "cpu-gpu", *words, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr


def test_a_scheduler_that_crashes_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "from hetgym.planning import register\n"
        "@register('crashes', kind='list', citation='', complexity='')\n"
        "def crashes(problem):\n"
        "    return 1 // 0\n"
    )
    words = ("plan", "alexnet", "--platform", "cpu-gpu", "--import", "bad.py", "--schedulers", "crashes")
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2 and "crashes: ZeroDivisionError" in done.stderr
