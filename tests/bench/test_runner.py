from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hetgym import Problem, Schedule, baselines, simulate
from hetgym.baselines import Baseline
from hetgym.bench.attempt import attempt
from hetgym.bench.folder import RunFolder
from hetgym.bench.job import SCHEDULERS, Job, execute, pick_runtimes, pick_schedulers
from hetgym.bench.loop import Progress
from hetgym.bench.rows import COLUMNS
from hetgym.bench.runner import run
from hetgym.errors import ConfigError, HetgymWarning, ProblemError, UnknownName
from hetgym.workloads import ProblemSpec, textbook

SPECS = (ProblemSpec.textbook("topcuoglu"), ProblemSpec.textbook("arabnejad-barbosa"))
RUNTIMES = ("classic", "links")


def plugin(name: str, function: Callable[[Problem], Schedule]) -> Baseline:
    return Baseline(name, "search", function, "a test", "O(1)")


def failing(problem: Problem) -> Schedule:
    raise ZeroDivisionError("division\nby zero")


def all_on_one_in_reverse(problem: Problem) -> Schedule:
    order = [problem.topological_order[::-1], *([[]] * (problem.num_devices - 1))]
    return Schedule([0] * problem.num_operators, order=order)


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def job(*schedulers: str | Baseline, specs: tuple[ProblemSpec, ...] = SPECS) -> Job:
    table = tuple(baselines.get(item) if isinstance(item, str) else item for item in schedulers)
    return Job("test", specs, table, RUNTIMES, ("hetgym", "bench"))


def test_every_cell_of_the_run_is_what_the_library_says() -> None:
    result = run(SPECS, ["heft", "cpop", "single-device"], RUNTIMES)
    assert [(r.problem, r.scheduler, r.runtime) for r in result.rows] == [
        (spec.name, name, runtime)
        for spec in SPECS
        for name in ("heft", "cpop", "single-device")
        for runtime in RUNTIMES
    ]
    for row in result.rows:
        problem = textbook(row.problem)
        trace = simulate(problem, baselines.get(row.scheduler)(problem, row.runtime), row.runtime)
        alone = simulate(problem, baselines.single_device(problem), row.runtime).makespan
        assert row.makespan_s == trace.makespan
        assert row.speedup == alone / trace.makespan
        assert row.slr == trace.makespan / baselines.critical_path_bound(problem)
        assert row.lower_bound_s == baselines.lower_bound(problem)
        assert row.gap_to_bound == pytest.approx(trace.makespan / baselines.lower_bound(problem) - 1)
        assert row.utilisation == pytest.approx(trace.utilisation.mean())
        assert (row.n, row.edges, row.devices) == (10, problem.num_edges, 3)
        assert row.schedule_seconds is not None and row.schedule_seconds > 0


def test_gaps_are_to_the_best_of_each_problem_and_runtime() -> None:
    rows = run(SPECS, ["heft", "cpop", "random"], RUNTIMES).rows
    for spec in SPECS:
        for runtime in RUNTIMES:
            mine = [r for r in rows if (r.problem, r.runtime) == (spec.name, runtime)]
            best = min(r.makespan_s or 0.0 for r in mine)
            assert [r.gap_to_best for r in mine] == [(r.makespan_s or 0.0) / best - 1 for r in mine]
            assert min(r.gap_to_best or 0.0 for r in mine) == 0.0


def test_a_scheduler_that_raises_makes_failed_rows_and_the_run_goes_on() -> None:
    result = run(SPECS, [plugin("broken", failing), "heft"], RUNTIMES)
    assert [r.status for r in result.failures] == ["ZeroDivisionError: division by zero"] * 4
    assert all(r.makespan_s is None and r.gap_to_best is None and r.n == 10 for r in result.failures)
    assert sum(r.ok for r in result.rows) == 4


def test_a_scheduler_that_fails_under_one_runtime_keeps_its_rows_under_the_others() -> None:
    def picky(problem: Problem, runtime: str = "classic") -> Schedule:
        if runtime == "links":
            raise ProblemError("links are too much")
        return baselines.get("heft")(problem)

    picky_one = Baseline("picky", "search", picky, "a test", "O(1)")
    rows = run(SPECS[:1], [picky_one, "heft"], ("classic", "links", "fair")).rows
    status = {(row.scheduler, row.runtime): row.status for row in rows}
    assert status.pop(("picky", "links")) == "links are too much"
    assert len(status) == 5 and set(status.values()) == {"ok"}


def test_a_lower_bound_above_a_makespan_is_refused() -> None:
    def boasts(problem: Problem) -> Schedule:
        plan = baselines.get("heft")(problem)
        return Schedule(plan.assignment, order=plan.order, lower_bound=1e6)

    def errs(problem: Problem) -> Schedule:
        plan = baselines.get("single-device")(problem)  # longer than HEFT's
        return Schedule(plan.assignment, order=plan.order, lower_bound=plan.makespan)

    result = run(SPECS[:1], [plugin("boasts", boasts), "heft"], RUNTIMES)
    assert [row.status.partition(":")[0] for row in result.failures] == ["lower bound"] * 2
    with pytest.warns(HetgymWarning, match="'errs' claims that 'topcuoglu' takes at least .* its bound is ignored"):
        rows = run(SPECS[:1], [plugin("errs", errs), "heft"], ("classic",)).rows
    honest = run(SPECS[:1], ["heft"], ("classic",)).rows[0].lower_bound_s
    assert [row.lower_bound_s for row in rows] == [honest, honest]


def test_what_is_no_schedule_is_named() -> None:
    status = run(SPECS[:1], [plugin("three", lambda problem: 3)], ("classic",)).failures[0].status  # type: ignore[arg-type, return-value]
    assert status == "'three': a schedule is a hetgym.Schedule, not int"


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for name in ("50/rand.stg", "100/rand.stg", "50/rand.npz", "50/other.stg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    specs = ProblemSpec.files(sorted(tmp_path.glob("*/*.stg")), 2)
    assert sorted(spec.name for spec in specs) == ["100-rand@2-devices", "50-rand@2-devices", "other@2-devices"]
    specs = ProblemSpec.files([tmp_path / "50/rand.npz", tmp_path / "50/rand.stg"])
    assert [spec.name for spec in specs] == ["rand.npz", "rand.stg"]


def test_an_illegal_schedule_is_a_failure_that_names_the_rule() -> None:
    result = run(SPECS[:1], [plugin("backwards", all_on_one_in_reverse)], ["classic"])
    assert "deadlock" in result.failures[0].status


def test_a_problem_that_cannot_be_built_fails_alone() -> None:
    def absent() -> Problem:
        raise ProblemError("gone.npz: no such file")

    specs = (ProblemSpec("gone", "gone", "-", absent), *SPECS)
    result = run(specs, ["heft"], ["classic"])
    assert [r.status for r in result.rows] == ["gone.npz: no such file", "ok", "ok"]


def test_progress_counts_every_schedule_and_ends_full() -> None:
    steps: list[Progress] = []
    run(SPECS, ["heft", "cpop"], ["classic"], progress=steps.append)
    assert [s.done for s in steps if s.scheduler] == [0, 1, 2, 3]
    assert [s.scheduler for s in steps if s.scheduler] == ["heft", "cpop"] * 2
    assert steps[-1].done == steps[-1].total == 4


def test_rows_are_on_disk_as_they_come(tmp_path: Path) -> None:
    """The file's content at each scheduler's turn is what a kill would leave."""
    seen: list[list[dict[str, str]]] = []
    folder = RunFolder(tmp_path, "run")

    def peek(problem: Problem) -> Schedule:
        seen.append(read_rows(folder.path / "rows.csv"))
        return baselines.heft(problem)

    outcome = execute(job("heft", plugin("peek", peek)), folder)
    first, second = seen
    assert [(r["scheduler"], r["gap_to_best"]) for r in first] == [("heft", "")] * 2
    assert [r["problem"] for r in second] == ["topcuoglu"] * 4 + ["arabnejad-barbosa"] * 2
    assert all(r["gap_to_best"] for r in second[:4]) and not any(r["gap_to_best"] for r in second[4:])
    final = read_rows(folder.path / "rows.csv")
    assert list(final[0]) == list(COLUMNS)
    assert [float(r["makespan_s"]) for r in final] == [r.makespan_s for r in outcome.result.rows]
    assert all(r["gap_to_best"] for r in final)


def test_ctrl_c_keeps_what_is_finished_and_still_writes_the_report(tmp_path: Path) -> None:
    calls: list[str] = []

    def impatient(problem: Problem) -> Schedule:
        calls.append(problem.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return baselines.heft(problem)

    folder = RunFolder(tmp_path, "run")
    outcome = execute(job("cpop", plugin("impatient", impatient), "peft"), folder)
    assert outcome.exit_code == 130
    rows = read_rows(folder.path / "rows.csv")
    assert [r["scheduler"] for r in rows] == ["cpop"] * 2 + ["impatient"] * 2 + ["peft"] * 2 + ["cpop"] * 2
    # The half-finished problem does not blur the comparison.
    assert {line.problems for line in outcome.summary} == {1}
    document = json.loads((folder.path / "results.json").read_text())
    assert document["interrupted"] and document["finished_problems"] == 1 and len(document["rows"]) == 8
    assert (folder.path / "report.html").stat().st_size > 10_000


def test_ctrl_c_in_the_first_problem_still_summarises(tmp_path: Path) -> None:
    def stop(problem: Problem) -> Schedule:
        raise KeyboardInterrupt

    outcome = execute(job("heft", plugin("stop", stop)), RunFolder(tmp_path, "run"))
    assert [(line.scheduler, line.gap_to_best) for line in outcome.summary] == [("heft", None)] * 2


@pytest.mark.parametrize(("keep", "count"), [("all", 8), ("best", 4), ("none", 0)])
def test_traces(tmp_path: Path, keep: str, count: int) -> None:
    folder = RunFolder(tmp_path, "run", traces=keep)
    outcome = execute(job("heft", "cpop"), folder)
    files = sorted((folder.path / "traces").glob("*.json"))
    assert len(files) == count
    for file in files:
        problem, scheduler, runtime = file.stem.split("__")
        events = json.loads(file.read_text())["traceEvents"]
        end = max(e["ts"] + e["dur"] for e in events if e["ph"] == "X" and e["pid"] == 0)
        row = next(
            r for r in outcome.result.rows if (r.problem, r.scheduler, r.runtime) == (problem, scheduler, runtime)
        )
        assert end == pytest.approx(1e6 * (row.makespan_s or 0))
        if keep == "best":
            assert row.gap_to_best == 0


def test_results_json_says_what_ran_and_on_what(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "run")
    outcome = execute(job("heft", plugin("broken", failing)), folder)
    document = json.loads((folder.path / "results.json").read_text())
    assert outcome.exit_code == 1
    assert document["format"] == "hetgym-results" and document["version"] == 1
    assert document["command"] == ["hetgym", "bench"]
    assert set(document["versions"]) == {"hetgym", "python", "numpy", "numba"}
    assert set(document["runtimes"]) == set(RUNTIMES)
    assert [r["status"] for r in document["rows"]].count("ok") == 4
    assert set(document["summary_by_platform"]) == {"textbook"}


def test_zero_costs_give_json_without_infinities(tmp_path: Path) -> None:
    nothing = Problem.from_arrays([[0.0, 0.0], [0.0, 0.0]], [(0, 1, 0.0)], name="nothing")
    execute(job("heft", "random", specs=(ProblemSpec.held(nothing),)), RunFolder(tmp_path, "run"))
    document = json.loads((tmp_path / "run" / "results.json").read_text(), parse_constant=pytest.fail)
    assert document["rows"][0]["makespan_s"] == 0


def test_an_earlier_run_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    execute(job("heft"), RunFolder(tmp_path, "run", traces="all"))
    (tmp_path / "run" / "notes.txt").write_text("mine")
    before = (tmp_path / "run" / "rows.csv").read_bytes()
    with pytest.raises(ConfigError, match="holds an earlier run; choose another --name or add --force"):
        RunFolder(tmp_path, "run")
    assert (tmp_path / "run" / "rows.csv").read_bytes() == before
    RunFolder(tmp_path, "run", force=True).close()
    left = sorted(p.name for p in (tmp_path / "run").rglob("*") if p.is_file())
    assert left == ["notes.txt", "rows.csv"], "only the files of a run may go"


def test_runs_without_a_name_get_folders_of_their_own(tmp_path: Path) -> None:
    folders = [RunFolder(tmp_path) for _ in range(3)]
    for folder in folders:
        folder.close()
    assert len({folder.path for folder in folders}) == 3


@pytest.mark.parametrize("name", ["a/b", "..", "/abs"])
def test_a_run_name_is_one_word(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="a single word"):
        RunFolder(tmp_path, name)


def test_bad_input_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'heft'"):
        pick_schedulers("heft,hefft")
    with pytest.raises(ConfigError, match="no scheduler"):
        pick_schedulers(" , ")
    with pytest.raises(UnknownName, match="runtime 'clasic'"):
        pick_runtimes(["clasic"])
    with pytest.raises(UnknownName, match="choice of traces"):
        RunFolder(tmp_path, "x", traces="some")
    with pytest.raises(ConfigError, match="two problems are named 'topcuoglu'"):
        Job("twice", (SPECS[0], SPECS[0]), (baselines.get("heft"),))
    with pytest.raises(ConfigError, match="at least one problem"):
        Job("none", (), (baselines.get("heft"),))


def test_picking() -> None:
    rows = [baselines.get(name) for name in baselines.names()]
    quick = [row.name for row in rows if row.kind not in ("exact", "energy") and "torch" not in row.needs]
    assert [b.name for b in pick_schedulers("all")] == quick != baselines.names()
    assert [b.name for b in pick_schedulers(" heft , cpop,heft ")] == ["heft", "cpop"]
    assert [b.name for b in pick_schedulers("default")] == [name for name in quick if name in SCHEDULERS]
    assert len(pick_schedulers("default")) == len(SCHEDULERS)
    assert {baselines.get(name).kind for name in SCHEDULERS} >= {
        "trivial",
        "online",
        "list",
        "search",
        "rule",
        "policy",
    }
    assert [b.name for b in pick_schedulers("all,cp-sat")] == [*quick, "cp-sat"]
    assert [b.name for b in pick_schedulers("heft,partition,duet")] == ["heft", *baselines.names("partition")]
    assert pick_runtimes(None) == ("classic", "links")
    assert pick_runtimes(["links", "links"]) == ("links",)


def test_schedulers_that_take_the_runtime_plan_for_each() -> None:
    problem = textbook("topcuoglu")
    made = attempt(baselines.get("heft"), problem, ["classic", "links", "framework"])
    assert list(made.traces) == ["classic", "links", "framework"]
    for runtime, trace in made.traces.items():
        assert trace.makespan == baselines.get("heft")(problem, runtime).makespan
    assert len(made.seconds) == 3
    blind = attempt(baselines.get("donf-classic"), problem, ["classic", "links"])
    assert blind.traces["classic"].assignment.tolist() == blind.traces["links"].assignment.tolist()


def test_problems_run_beside_specifications() -> None:
    problem = textbook("topcuoglu")
    rows = run([problem, SPECS[1]], ["heft"], ["classic"]).rows
    assert [(row.problem, row.makespan_s) for row in rows] == [("topcuoglu", 80), ("arabnejad-barbosa", 133)]
    with pytest.raises(ConfigError, match="two problems are called 'topcuoglu'"):
        run([problem, problem], ["heft"], ["classic"])
    with pytest.raises(ConfigError, match="got .topcuoglu."):
        run(["topcuoglu"], ["heft"], ["classic"])  # type: ignore[list-item]


def test_what_rows_could_not_tell_apart_is_refused() -> None:
    with pytest.raises(ConfigError, match="two problems are called 'topcuoglu'"):
        run([SPECS[0], SPECS[0]], ["heft"], ["classic"])
    with pytest.raises(ConfigError, match="two schedulers are called 'cpgc'"):
        run(SPECS, [baselines.get("cpgc", budget=0), "cpgc"], ["classic"])
    with pytest.raises(UnknownName, match="'lnks'"):
        run(SPECS, ["heft"], ["lnks"])
    with pytest.raises(ConfigError, match="runtimes is 'classic'"):
        run(SPECS, ["heft"], "classic")


def test_a_problem_that_no_single_device_holds_is_run() -> None:
    problem = textbook("topcuoglu").replace(weight_bytes=[1e4] * 10, memory_capacity=[6.5e4] * 3)
    (row,) = run([problem], ["heft"], ["memory=enforce"]).rows
    assert row.ok and row.speedup == 127.0 / row.makespan_s  # 127 s on a device with room for all
