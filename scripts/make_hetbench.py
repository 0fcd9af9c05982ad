"""Make a suite of frozen problems: the problems, and the table of their best-known values.

    python scripts/make_hetbench.py [problems] [search] [exact] [table] [docs] [--suite NAME] [--only TEXT ...]
    python scripts/make_hetbench.py [plan] [table] [docs] --suite hetbench-xl [--seconds SECONDS] [--only TEXT ...]
    python scripts/make_hetbench.py claim --only PROBLEM --schedule FILE.json --scheduler NAME [--options JSON]

Without a step, all steps run in turn. ``problems`` builds missing files and never changes existing ones. ``search``
runs every quick scheduler, for each of the suite's runtimes where it plans for them, and long searches of hetbench-v1;
``anneal`` runs long searches for each runtime of hetbench-v2, ``exact`` runs CP-SAT on small problems, and ``claim``
adds a schedule from elsewhere. hetbench-v2 has hetbench-v1's problems, too, and begins with its schedules. The problems
of hetbench-xl are built from its specifications, not frozen in files; ``plan`` has list schedulers and ``hetgym.plan``
find its schedules, the latter in ``--seconds`` for each runtime. Results go to the work folder; results that exist are
not computed again. ``table`` merges them into the shipped table, whose entries never get worse, and ``docs`` writes it
as a result of the documentation. Searches use one thread and give the same results everywhere; those of ``plan``, and
CP-SAT, stop at a time limit. Needs ``pip install "hetgym[exact]"``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from hetbench_problems import definitions

import hetgym
from hetgym import Problem, Schedule, baselines, simulate, validate
from hetgym._input.files import atomic_write
from hetgym.baselines.exact import solve
from hetgym.bench.best_schedules import load_best_schedule, load_best_schedules, save_best_schedules
from hetgym.bench.plan import schedule_of
from hetgym.planning.bounds import (
    area_bound,
    combined_bound,
    communication_bound,
    critical_path_bound,
    lower_bound,
)
from hetgym.search.device_orders import is_shop
from hetgym.sim import runtime as as_runtime
from hetgym.workloads import Best, BestKnown, ProblemSpec, load_best_known, load_suite
from hetgym.workloads.suites import FOLDER

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import results  # noqa: E402

STEPS = ("problems", "search", "anneal", "exact", "plan", "table", "docs")
LISTS = ("single-device", "donf", "heft", "peft")  # Schedulers whose schedules the step plan tries before it searches
BETTER = 1 - 1e-12
"""Factor by which a makespan must be shorter to count as better; otherwise the earlier scheduler keeps the credit."""


@dataclass(frozen=True)
class Suite:
    """A suite of frozen problems.

    Attributes:
        name: of the suite.
        runtimes: runtimes that have best-known values.
        earlier: suites whose problems it has, too.
        specified: true if its problems are built from the specifications of the suite's file.
    """

    name: str
    runtimes: tuple[str, ...]
    earlier: tuple[Suite, ...] = ()
    specified: bool = False

    @property
    def table(self) -> Path:
        """File of the best-known values."""
        return FOLDER / self.name / "best_known.json"

    @property
    def names(self) -> list[str]:
        """All problems, in the order of the table."""
        if self.specified:
            return list(specifications(self.name))
        return [*(name for suite in self.earlier for name in suite.names), *definitions(self.name)]

    def file(self, name: str) -> Path:
        """File of a problem."""
        owner = next((suite for suite in self.earlier if name in suite.names), self)
        return FOLDER / owner.name / "problems" / f"{name}.npz"

    def load(self, name: str) -> Problem:
        """A frozen problem."""
        return specifications(self.name)[name].make() if self.specified else Problem.load(self.file(name))


@cache
def specifications(suite: str) -> dict[str, ProblemSpec]:
    """Name -> specification of the problems of a suite."""
    return {spec.name: spec for spec in load_suite(suite).specs}


V1 = Suite("hetbench-v1", ("classic", "links"))
V2 = Suite("hetbench-v2", ("classic", "links", "framework", "ready"), (V1,))
XL = Suite("hetbench-xl", ("links", "framework"), specified=True)
SUITES = {suite.name: suite for suite in (V1, V2, XL)}


def long_searches(budget: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Searches with more work than their defaults."""
    for seed in (0, 1):
        for decode in ("bottom-level", "order"):
            yield "pilot-annealing", {"decode": decode, "seed": seed, "budget": budget}
    yield "annealing", {"start": "cpgc", "decode": "bottom-level", "budget": budget}
    yield "annealing", {"start": "cpgc", "decode": "order", "budget": budget}
    yield "lns", {"start": "pilot", "budget": budget}
    yield "lns", {"start": "cpgc", "budget": budget}
    yield "annealing", {"start": "lookahead-heft", "budget": budget}
    yield "lns", {"start": "lookahead-heft", "budget": budget}
    yield "rand-heft", {"budget": budget // 4}


class Notes:
    """Results of one step for one problem, written to disk after every addition."""

    def __init__(self, suite: Suite, work: Path, step: str, name: str) -> None:
        self.suite, self.path = suite, work / suite.name / f"{name}.{step}.json"
        self.content: dict[str, Any] = {"done": [], "bounds": {}, "best": {}}
        if self.path.exists():
            self.content = json.loads(self.path.read_text())

    def done(self, what: str) -> bool:
        """True if an item is noted as done."""
        return what in self.content["done"]

    def add(self, what: str) -> None:
        """Note that an item is done, and write everything to disk."""
        self.content["done"].append(what)
        write_json(self.path, self.content)

    def bound(self, by: str, seconds: float) -> None:
        """Keep the larger bound of one kind."""
        self.content["bounds"][by] = max(seconds, self.content["bounds"].get(by, 0.0))

    def offer(self, problem: Problem, schedule: Schedule, scheduler: str, options: Mapping[str, Any]) -> None:
        """Simulate a schedule under each runtime, and keep it for those under which it is the shortest."""
        validate(problem, schedule)
        for runtime in self.suite.runtimes:
            if schedule.priority is None:
                order = schedule.device_order(problem)
            else:  # priorities are resolved only in a run
                order = schedule_of(simulate(problem, schedule, runtime)).device_order(problem)
            fixed = Schedule(schedule.assignment, order=order)
            makespan = simulate(problem, fixed, runtime).makespan
            before = self.content["best"].get(runtime)
            if before is None or makespan < before["makespan_s"] * BETTER:
                self.content["best"][runtime] = {
                    "makespan_s": makespan,
                    "scheduler": scheduler,
                    "options": dict(options),
                    "schedule": fixed.to_dict(),
                }


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, lambda file: file.write((json.dumps(content, indent=1, allow_nan=False) + "\n").encode()))


def write_problems(suite: Suite, names: list[str]) -> None:
    """Write missing files; an existing file is frozen, so the problem is only compared with it."""
    own = definitions(suite.name)
    for name in [name for name in names if name in own]:
        path = suite.file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        problem = own[name]()
        if not path.exists():
            problem.save(path)
        same = "" if suite.load(name).digest == problem.digest else "  kept, but would come out otherwise today"
        print(f"{name:40} {problem.num_operators:5} operators {path.stat().st_size:7} B{same}", flush=True)


def search(suite: Suite, name: str, work: Path, budget: int) -> None:
    """Run everything except exact solvers, then the best long search again with five times the work."""
    problem, notes = suite.load(name), Notes(suite, work, "search", name)

    def attempt(scheduler: str, options: dict[str, Any]) -> None:
        key = json.dumps([scheduler, options])
        if not notes.done(key):
            notes.offer(problem, baselines.get(scheduler, **options)(problem), scheduler, options)
            notes.add(key)

    for scheduler in baselines.names():
        row = baselines.get(scheduler)
        if row.kind != "exact":
            attempt(scheduler, {})
            for runtime in suite.runtimes if row.plans_for == "any" and suite.earlier else ():
                if runtime != "classic":
                    attempt(scheduler, {"runtime": runtime})
    if not suite.earlier:
        for scheduler, options in long_searches(budget):
            attempt(scheduler, options)
        best = notes.content["best"]["classic"]
        if "budget" in best["options"]:
            for seed in (0, 1):
                attempt(best["scheduler"], {**best["options"], "seed": seed, "budget": 5 * budget})
    tell(notes, name)


def anneal(suite: Suite, name: str, work: Path, budget: int, seeds: int, runtimes: Sequence[str]) -> None:
    """Search for some runtimes, from the best start that the search knows, after the schedules of earlier suites."""
    problem, notes = suite.load(name), Notes(suite, work, "anneal", name)
    for before in suite.earlier:
        if name in before.names and not notes.done(before.name):
            for runtime, best in load_best_known(before.table)[name].best.items():
                notes.offer(problem, load_best_schedule(before.table, name, runtime), best.scheduler, best.options)
            notes.add(before.name)
    for seed in range(seeds):
        for runtime in runtimes:
            options = {"runtime": runtime, "seed": seed, "budget": 5 * budget}
            key = json.dumps(options)
            if not notes.done(key):
                notes.offer(problem, baselines.get("region-annealing", **options)(problem), "region-annealing", options)
                notes.add(key)
            key = json.dumps(["tabu", options])
            if is_shop(problem) and not notes.done(key):
                notes.offer(problem, baselines.get("tabu", **options)(problem), "tabu", options)
                notes.add(key)
    tell(notes, name)


def plan(suite: Suite, name: str, work: Path, seconds: float) -> None:
    """List schedulers and ``hetgym.plan`` for each runtime."""
    problem, notes = suite.load(name), Notes(suite, work, "plan", name)
    for runtime in suite.runtimes:
        for scheduler in LISTS:
            key = json.dumps([scheduler, runtime])
            if not notes.done(key):
                options = {"runtime": runtime} if baselines.get(scheduler).plans_for == "any" else {}
                notes.offer(problem, baselines.get(scheduler, **options)(problem), scheduler, options)
                notes.add(key)
        key = json.dumps(["plan", runtime, seconds])
        if not notes.done(key):
            options = {"runtime": runtime, "seconds": seconds}
            notes.offer(problem, hetgym.plan(problem, runtime, seconds), "portfolio", options)
            notes.add(key)
    tell(notes, name)


def tell(notes: Notes, name: str) -> None:
    """Print the best makespans so far."""
    for runtime, best in notes.content["best"].items():
        print(f"{name:40} {runtime:9} {best['makespan_s']:.6g} s by {best['scheduler']} {best['options']}", flush=True)


def exact(suite: Suite, name: str, work: Path, seconds: float, workers: int, limit: int) -> None:
    problem, notes = suite.load(name), Notes(suite, work, "exact", name)
    if not notes.done("bounds"):
        notes.bound("critical path", critical_path_bound(problem))
        notes.bound("critical path with transfers", communication_bound(problem))
        notes.bound("area", area_bound(problem))
        notes.bound("combined load", combined_bound(problem))
        notes.add("bounds")
    options = {"seconds": seconds, "workers": workers}
    key = json.dumps(["cp-sat", options])
    if problem.num_operators > limit or notes.done(key):
        return
    solution = solve(problem, seconds, workers)
    notes.bound("CP-SAT", solution.lower_bound)
    notes.offer(problem, solution.schedule, "cp-sat", options)
    notes.add(key)
    print(f"{name:40} {solution.schedule.makespan:.6g} s, {solution.status}, gap {solution.gap:.2%}", flush=True)


def claim(suite: Suite, name: str, work: Path, file: Path, scheduler: str, options: dict[str, Any]) -> None:
    """Add a schedule of a registered scheduler that ``Schedule.to_dict`` or ``hetgym plan`` wrote."""
    baselines.get(scheduler, **options)
    content = json.loads(file.read_text())
    schedule = Schedule.from_dict(content.get("schedule", content))
    notes = Notes(suite, work, "claim", name)
    notes.offer(suite.load(name), schedule, scheduler, options)
    notes.add(str(file))
    for runtime, best in notes.content["best"].items():
        print(f"{name}: {best['makespan_s']:.9g} s under {runtime}; now run the step table")


def make_table(suite: Suite, work: Path) -> None:
    """Merge new results into the shipped table."""
    table = suite.table
    known = dict(load_best_known(table)) if table.exists() else {}
    schedules = load_best_schedules(table) if table.with_suffix(".npz").exists() else {}
    for name in suite.names:
        problem = suite.load(name)
        row = known.get(name)
        if row is None or row.digest != problem.digest:
            row = BestKnown(problem.digest, 0.0, "", {})
        for before in suite.earlier:
            if name in before.names:
                proved = load_best_known(before.table)[name]
                row = replace(row, bound_s=proved.bound_s, bound_by=proved.bound_by)
        for step in ("search", "anneal", "exact", "plan", "claim"):
            found = Notes(suite, work, step, name).content
            for runtime, offer in found["best"].items():
                before = row.best.get(runtime)
                if before is None or offer["makespan_s"] < before.makespan_s * BETTER:
                    best = Best(offer["makespan_s"], offer["scheduler"], offer["options"])
                    row = replace(row, best={**row.best, runtime: best})
                    schedules[name, runtime] = Schedule.from_dict(offer["schedule"])
            for by, seconds in found["bounds"].items():
                if seconds > row.bound_s * (1 + 1e-9):
                    row = replace(row, bound_s=seconds, bound_by=by)
        if row.best:
            known[name] = _bounded(suite, problem, row)
    problems = {name: asdict(known[name]) for name in suite.names if name in known}
    write_json(table, {"format": "hetgym-best-known", "version": 1, "problems": problems})
    kept = {(name, runtime): schedules[name, runtime] for name in problems for runtime in suite.runtimes}
    save_best_schedules(table, kept)
    for runtime in suite.runtimes:
        proved = sum(row.optimal(runtime) for row in known.values())
        print(f"{len(problems)} problems, {proved} proved optimal under {runtime}")


def _bounded(suite: Suite, problem: Problem, row: BestKnown) -> BestKnown:
    """Bounds of all runtimes, and larger ones of some; they may exceed the optimum by the rounding of their sums.

    Bounds proved for one stream do not hold where several share a device.
    """
    if suite is V1:
        return replace(row, bound_s=min(row.bound_s, *(best.makespan_s for best in row.best.values())))
    common, best = lower_bound(problem, linear=True, runtime="framework,dispatch=0"), {}
    for runtime, shortest in row.best.items():
        proofs = [(shortest.bound_s, shortest.bound_by)]
        proofs.append((lower_bound(problem, linear=True, runtime=runtime), "path, load or traffic"))
        if as_runtime(runtime).streams == 1:
            proofs.append((row.bound_s, row.bound_by))
        bound, by = max(proofs)
        best[runtime] = replace(shortest, bound_s=min(bound, shortest.makespan_s), bound_by=by)
    common = min(common, *(each.bound_s for each in best.values()))
    return replace(row, bound_s=common, bound_by="path or load", best=best)


def make_docs(suite: Suite) -> None:
    """Write the table as a result of the documentation; its title, words and notes are kept."""
    path = results.DATA / f"{suite.name}.json"
    known = json.loads(path.read_text("utf-8"))
    notes = {table["name"]: table["note"] for table in known["tables"]}
    tables = [makespans_table(suite), *([shorter_table(suite)] if suite.earlier else []), bounds_table(suite)]
    tables += [problems_table(suite), *([found_table(suite)] if suite is V1 else [])]
    tables = [{**table, "note": notes.get(table["name"], "")} for table in tables]
    if tables != known["tables"]:
        known["date"] = datetime.now(UTC).date().isoformat()
    known |= {"tables": tables, "digest": results.digest_of(known["sources"])}
    path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", "utf-8")


def table_of(name: str, title: str, columns: list[str], rows: list[list[str]], keys: int = 1) -> dict[str, Any]:
    """A table of a result, whose first columns name the row."""
    return {"name": name, "title": title, "columns": columns, "rows": rows, "keys": keys}


def makespans_table(suite: Suite) -> dict[str, Any]:
    """The best known makespan under each runtime."""
    columns = ["problem", *(f"{runtime} [ms]" for runtime in suite.runtimes)]
    rows = [
        [name, *(f"{1e3 * row.best[runtime].makespan_s:.6g}" for runtime in suite.runtimes)]
        for name, row in load_best_known(suite.table).items()
    ]
    return table_of("makespans", "Best known makespans", columns, rows)


def problems_table(suite: Suite) -> dict[str, Any]:
    """The size of each problem, and the excess of its best known makespans over their bounds."""
    runtimes = ("classic",) if suite is V1 else suite.runtimes
    columns = ["problem", "operators", "devices", "CCR", *(f"{runtime} over bound" for runtime in runtimes)]
    rows = []
    for name, row in load_best_known(suite.table).items():
        problem = suite.load(name)
        ratio = problem.mean_communication.mean() / problem.mean_cost.mean()
        size = [str(problem.num_operators), str(problem.num_devices), f"{ratio:.2g}"]
        rows.append([name, *size, *(over_bound(row, runtime) for runtime in runtimes)])
    return table_of("problems", "Problems, and excess over bounds", columns, rows)


def found_table(suite: Suite) -> dict[str, Any]:
    """Bounds under ``classic`` and what proved them, and the schedulers that found the best known makespans."""
    rows = []
    for name, row in load_best_known(suite.table).items():
        best = row.best["classic"]
        options = ", ".join(f"{key}={value}" for key, value in best.options.items())
        found = f"{best.scheduler} ({options})" if options else best.scheduler
        rows.append([name, found, row.bound_by, f"{1e3 * row.bound_s:.6g}"])
    columns = ["problem", "found by", "bound by", "bound [ms]"]
    return table_of("found", "Who found them, under classic", columns, rows, keys=3)


def over_bound(row: BestKnown, runtime: str) -> str:
    """Excess of the best known makespan over the bound."""
    excess = row.best[runtime].makespan_s / row.bound(runtime) - 1
    return "optimal" if row.optimal(runtime) else f"{100 * excess:.1f} %"


def bounds_table(suite: Suite) -> dict[str, Any]:
    """How many problems are solved to the optimum, and how far the bounds of the others lie, by runtime."""
    rows = []
    for runtime in ("classic",) if suite is V1 else suite.runtimes:
        known = load_best_known(suite.table).values()
        gaps = [row.best[runtime].makespan_s / row.bound(runtime) - 1 for row in known if not row.optimal(runtime)]
        mean = f"{100 * sum(gaps) / len(gaps):.0f} %" if gaps else "-"
        rows.append([runtime, f"{len(known) - len(gaps)} of {len(known)}", mean])
    columns = ["runtime", "proved optimal", "mean excess of the others over their bounds"]
    return table_of("bounds", "Bounds", columns, rows)


def shorter_table(suite: Suite) -> dict[str, Any]:
    """Problems of earlier suites whose best known makespan is shorter here."""
    rows, here = [], load_best_known(suite.table)
    for before in suite.earlier:
        for runtime in before.runtimes:
            known = load_best_known(before.table).items()
            ratios = [row.best[runtime].makespan_s / here[name].best[runtime].makespan_s for name, row in known]
            shorter = sum(ratio > 1 / BETTER for ratio in ratios)
            rows.append([f"{before.name} under {runtime}", f"{shorter} of {len(ratios)}", f"{max(ratios):.2f}"])
    return table_of("shorter", "Shorter than in earlier suites", ["suite", "problems", "largest ratio"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"{', '.join(STEPS)}; or claim")
    parser.add_argument("--suite", choices=SUITES, default=V1.name)
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="problems whose names hold a text")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "hetbench", help="folder of work")
    parser.add_argument("--budget", type=int, default=10_000_000, help="operators placed by a search")
    parser.add_argument("--seeds", type=int, default=2, help="anneal: searches of each problem for each runtime")
    parser.add_argument("--runtimes", nargs="+", choices=V2.runtimes, help="anneal: some of the suite's")
    parser.add_argument("--seconds", type=float, help="of CP-SAT for a problem (45), or of plan for each runtime (10)")
    parser.add_argument("--workers", type=int, default=4, help="threads of CP-SAT")
    parser.add_argument("--limit", type=int, default=260, help="most operators of a problem for CP-SAT")
    parser.add_argument("--schedule", type=Path, help="claim: JSON of a schedule")
    parser.add_argument("--scheduler", help="claim: registered name of what found it")
    parser.add_argument("--options", type=json.loads, default={}, help="claim: options of the scheduler, as JSON")
    options = parser.parse_args()
    suite = SUITES[options.suite]
    names = [name for name in suite.names if name in options.only]
    names = names or [name for name in suite.names if any(text in name for text in options.only)]
    steps = options.steps or STEPS
    if unknown := set(steps) - {*STEPS, "claim"}:
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    if "claim" in steps:
        if len(names) != 1 or not options.schedule or not options.scheduler:
            parser.error("claim needs --only with one problem, --schedule and --scheduler")
        claim(suite, names[0], options.work, options.schedule, options.scheduler, options.options)
    if "problems" in steps and not suite.specified:
        write_problems(suite, names)
    for name in names if "plan" in steps and suite.specified else ():
        plan(suite, name, options.work, options.seconds or 10.0)
    for name in names if "search" in steps and not suite.specified else ():
        search(suite, name, options.work, options.budget)
    for name in names if "anneal" in steps and suite.earlier else ():
        anneal(suite, name, options.work, options.budget, options.seeds, options.runtimes or suite.runtimes)
    for name in names if "exact" in steps and not suite.specified else ():
        exact(suite, name, options.work, options.seconds or 45.0, options.workers, options.limit)
    if "table" in steps:
        make_table(suite, options.work)
    if "docs" in steps:
        make_docs(suite)


if __name__ == "__main__":
    main()
