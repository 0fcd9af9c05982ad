"""Make the suite hetbench-v1: its problems, and the table of their best-known values.

    python scripts/make_hetbench.py [problems] [search] [exact] [table] [docs] [--only TEXT ...]
    python scripts/make_hetbench.py claim --only PROBLEM --schedule FILE.json --scheduler NAME [--options JSON]

Without a step, all steps run in turn. ``problems`` builds missing files and never changes existing ones. ``search``
runs every quick scheduler and long searches, ``exact`` runs CP-SAT on small problems, and ``claim`` adds a schedule
from elsewhere. Their results go to the work folder; results that exist are not computed again. ``table`` merges them
into the shipped table, whose entries never get worse, and ``docs`` writes the table of docs/hetbench.md. Searches use
one thread and give the same results everywhere; CP-SAT stops at a time limit. Needs ``pip install "hetgym[exact]"``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hetbench_problems import definitions

from hetgym import Problem, Schedule, baselines, simulate, validate
from hetgym._files import atomic_write
from hetgym.baselines.exact import solve
from hetgym.bench.best_schedules import load_best_schedules, save_best_schedules
from hetgym.bench.plan import schedule_of
from hetgym.planning.bounds import area_bound, combined_bound, communication_bound, critical_path_bound
from hetgym.workloads import Best, BestKnown, load_best_known
from hetgym.workloads.suites import FOLDER

ROOT = Path(__file__).parents[1]
SUITE = FOLDER / "hetbench-v1"
TABLE = SUITE / "best_known.json"
PAGE = ROOT / "docs" / "hetbench.md"
RUNTIMES = ("classic", "links")
STEPS = ("problems", "search", "exact", "table", "docs")
BETTER = 1 - 1e-12
"""Factor by which a makespan must be shorter to count as better; otherwise the earlier scheduler keeps the credit."""


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

    def __init__(self, work: Path, step: str, name: str) -> None:
        self.path = work / f"{name}.{step}.json"
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
        for runtime in RUNTIMES:
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


def write_problems(names: list[str]) -> None:
    """Write missing files; an existing file is frozen, so the problem is only compared with it."""
    for name in names:
        path = SUITE / "problems" / f"{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        problem = definitions()[name]()
        if not path.exists():
            problem.save(path)
        same = "" if load(name).digest == problem.digest else "  kept, but would come out otherwise today"
        print(f"{name:40} {problem.num_operators:5} operators {path.stat().st_size:7} B{same}", flush=True)


def load(name: str) -> Problem:
    return Problem.load(SUITE / "problems" / f"{name}.npz")


def search(name: str, work: Path, budget: int) -> None:
    """Run everything except exact solvers, then the best long search again with five times the work."""
    problem, notes = load(name), Notes(work, "search", name)

    def attempt(scheduler: str, options: dict[str, Any]) -> None:
        key = json.dumps([scheduler, options])
        if not notes.done(key):
            notes.offer(problem, baselines.get(scheduler, **options)(problem), scheduler, options)
            notes.add(key)

    for scheduler in baselines.names():
        if baselines.get(scheduler).kind != "exact":
            attempt(scheduler, {})
    for scheduler, options in long_searches(budget):
        attempt(scheduler, options)
    best = notes.content["best"]["classic"]
    if "budget" in best["options"]:
        for seed in (0, 1):
            attempt(best["scheduler"], {**best["options"], "seed": seed, "budget": 5 * budget})
    best = notes.content["best"]["classic"]
    print(f"{name:40} {best['makespan_s']:.6g} s by {best['scheduler']} {best['options']}", flush=True)


def exact(name: str, work: Path, seconds: float, workers: int, limit: int) -> None:
    problem, notes = load(name), Notes(work, "exact", name)
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


def claim(name: str, work: Path, file: Path, scheduler: str, options: dict[str, Any]) -> None:
    """Add a schedule of a registered scheduler that ``Schedule.to_dict`` or ``hetgym plan`` wrote."""
    baselines.get(scheduler, **options)
    content = json.loads(file.read_text())
    schedule = Schedule.from_dict(content.get("schedule", content))
    notes = Notes(work, "claim", name)
    notes.offer(load(name), schedule, scheduler, options)
    notes.add(str(file))
    print(f"{name}: {notes.content['best']['classic']['makespan_s']:.9g} s under classic; now run the step table")


def make_table(work: Path) -> None:
    """Merge new results into the shipped table."""
    known = dict(load_best_known(TABLE)) if TABLE.exists() else {}
    schedules = load_best_schedules(TABLE) if TABLE.exists() else {}
    for name in definitions():
        digest = load(name).digest
        row = known.get(name)
        if row is None or row.digest != digest:
            row = BestKnown(digest, 0.0, "", {})
        for step in ("search", "exact", "claim"):
            found = Notes(work, step, name).content
            for runtime, offer in found["best"].items():
                before = row.best.get(runtime)
                if before is None or offer["makespan_s"] < before.makespan_s * BETTER:
                    best = Best(offer["makespan_s"], offer["scheduler"], offer["options"])
                    row = replace(row, best={**row.best, runtime: best})
                    schedules[name, runtime] = Schedule.from_dict(offer["schedule"])
            for by, seconds in found["bounds"].items():
                if seconds > row.bound_s * (1 + 1e-9):
                    row = replace(row, bound_s=seconds, bound_by=by)
        if row.best:  # a bound may exceed the optimum by the rounding of its sums
            shortest = min(best.makespan_s for best in row.best.values())
            known[name] = replace(row, bound_s=min(row.bound_s, shortest))
    problems = {name: asdict(known[name]) for name in definitions() if name in known}
    write_json(TABLE, {"format": "hetgym-best-known", "version": 1, "problems": problems})
    save_best_schedules(TABLE, {(name, runtime): schedules[name, runtime] for name in problems for runtime in RUNTIMES})
    proved = sum(row.optimal("classic") for row in known.values())
    print(f"{len(problems)} problems, {proved} proved optimal under classic")


def make_docs() -> None:
    """Write the table between the two marks of its page."""
    before, _, rest = PAGE.read_text().partition("<!-- table -->\n")
    _, _, after = rest.partition("<!-- end of table -->\n")
    PAGE.write_text(f"{before}<!-- table -->\n{table_rows()}<!-- end of table -->\n{after}")


def table_rows() -> str:
    lines = [
        "| problem | n | devices | CCR | best known [ms] | bound [ms] | gap | bound by | found by | links [ms] |",
        "|---|--:|--:|--:|--:|--:|--:|---|---|--:|",
    ]
    for name, row in load_best_known(TABLE).items():
        problem, best = load(name), row.best["classic"]
        options = ", ".join(f"{key}={value}" for key, value in best.options.items())
        cells = [
            name,
            str(problem.num_operators),
            str(problem.num_devices),
            f"{problem.mean_communication.mean() / problem.mean_cost.mean():.2g}",
            f"{1e3 * best.makespan_s:.6g}",
            f"{1e3 * row.bound_s:.6g}",
            "optimal" if row.optimal("classic") else f"{best.makespan_s / row.bound_s - 1:.1%}",
            row.bound_by,
            f"{best.scheduler} ({options})" if options else best.scheduler,
            f"{1e3 * row.best['links'].makespan_s:.6g}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"{', '.join(STEPS)}; or claim")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="problems whose names hold a text")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "hetbench", help="folder of work")
    parser.add_argument("--budget", type=int, default=10_000_000, help="operators placed by a long search")
    parser.add_argument("--seconds", type=float, default=45.0, help="of CP-SAT for a problem")
    parser.add_argument("--workers", type=int, default=4, help="threads of CP-SAT")
    parser.add_argument("--limit", type=int, default=260, help="most operators of a problem for CP-SAT")
    parser.add_argument("--schedule", type=Path, help="claim: JSON of a schedule")
    parser.add_argument("--scheduler", help="claim: registered name of what found it")
    parser.add_argument("--options", type=json.loads, default={}, help="claim: options of the scheduler, as JSON")
    options = parser.parse_args()
    names = [name for name in definitions() if name in options.only]
    names = names or [name for name in definitions() if any(text in name for text in options.only)]
    steps = options.steps or STEPS
    if unknown := set(steps) - {*STEPS, "claim"}:
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    if "claim" in steps:
        if len(names) != 1 or not options.schedule or not options.scheduler:
            parser.error("claim needs --only with one problem, --schedule and --scheduler")
        claim(names[0], options.work, options.schedule, options.scheduler, options.options)
    if "problems" in steps:
        write_problems(names)
    for name in names if "search" in steps else ():
        search(name, options.work, options.budget)
    for name in names if "exact" in steps else ():
        exact(name, options.work, options.seconds, options.workers, options.limit)
    if "table" in steps:
        make_table(options.work)
    if "docs" in steps:
        make_docs()


if __name__ == "__main__":
    main()
