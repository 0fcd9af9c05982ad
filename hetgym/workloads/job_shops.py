"""Job shops and flexible job shops, in the formats of the benchmark sets.

A job is a chain of operators. A machine is a device; an operator's cost is infinite on machines that cannot run it.
Nothing is transferred, so a makespan is the one that the literature states. All times are taken as seconds, and text
after ``#`` is a comment. Three forms are read:

- The standard form, as in OR-Library and JSPLIB: a line ``jobs machines``, then a line for each job with its
  ``machine time`` pairs, machines counted from 0.
- Taillard's form: ``jobs machines`` and whatever follows on that line, then a line of times for each job, then a line
  of machines for each job, machines counted from 1. The words ``Times`` and ``Machines`` above them, and the title of
  the first line, may be missing. His own files hold ten instances each and have to be cut.
- Brandimarte's form of the flexible job shop: a line ``jobs machines`` with or without the mean number of choices, then
  a line for each job: its number of operations, and for each of them its number of choices and as many
  ``machine time`` pairs, machines counted from 1.

Sources: Taillard, EJOR 64, 1993; github.com/tamy0612/JSPLIB; Brandimarte, Annals of OR 41, 1993.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from hetgym.errors import ProblemError
from hetgym.problem import Problem
from hetgym.workloads.lines import MOST_DEVICES, MOST_OPERATORS, Line, Lines, cost_table

Choices = list[tuple[int, float]]  # What may run one operation: machines, from 0, and the times they take


@dataclass(frozen=True)
class JobShops:
    """Random job shops as Taillard (EJOR 64, 1993) draws them.

    Every job visits every machine once, in random order, for 1 to 99 s each. Operators are numbered job by job.

    Args:
        jobs: fewest and most jobs.
        machines: fewest and most machines; of a draw there are at most as many as jobs, as in Taillard's instances.

    Raises:
        ProblemError: an empty range.

    >>> problem = JobShops(jobs=(6, 6), machines=(4, 4))(np.random.default_rng(0))
    >>> problem.cost.shape, is_job_shop(problem)
    ((24, 4), True)
    """

    jobs: tuple[int, int] = (6, 15)
    machines: tuple[int, int] = (6, 15)

    def __post_init__(self) -> None:
        if not (1 <= self.jobs[0] <= self.jobs[1] and 1 <= self.machines[0] <= self.machines[1] <= MOST_DEVICES):
            raise ProblemError(f"{self} holds no job shop: jobs and machines must be ranges, at least 1")

    @property
    def limit(self) -> tuple[int, int, int]:
        """Most operators, edges and devices of any draw."""
        jobs, machines = self.jobs[1], self.machines[1]
        return jobs * machines, jobs * (machines - 1), machines

    def __call__(self, rng: np.random.Generator) -> Problem:
        """Draw a problem."""
        jobs = int(rng.integers(self.jobs[0], self.jobs[1] + 1))
        machines = int(rng.integers(self.machines[0], max(self.machines[0], min(self.machines[1], jobs)) + 1))
        n = jobs * machines
        cost, operator = np.full((n, machines), np.inf), np.arange(n)
        cost[operator, rng.permuted(np.tile(np.arange(machines), (jobs, 1)), axis=1).ravel()] = rng.integers(1, 100, n)
        first = operator[operator % machines < machines - 1]
        return Problem.from_edges(cost, first, first + 1, np.zeros(len(first)), name=f"shop-{jobs}x{machines}")


def read_job_shop(path: Path, name: str) -> Problem:
    """Read a job shop in the standard or in Taillard's form.

    Raises:
        ProblemError: the file is missing or unreadable, a number is missing or out of range, or there are more or fewer
            lines than the first one announces.
    """
    lines = Lines(path)
    head = lines.take("the numbers of jobs and machines")
    if head.words[0].lower() == "nb":  # "Nb of jobs, Nb of Machines, Time seed, …"
        head = lines.take("the numbers of jobs and machines")
    jobs, machines = _sizes(head)
    rows: list[Line] = []
    titled = False
    for line in lines:
        if line.words[0].lower() in ("times", "machines"):
            titled = True
        elif len(rows) == 2 * jobs or line.words[0].lower() == "nb":
            raise line.fail(f"the file continues after an instance of {jobs} jobs; a file holds one instance")
        else:
            rows.append(line)
    if len(rows) == 2 * jobs:
        shop, first = [_matrices(*pair, machines) for pair in zip(rows[:jobs], rows[jobs:], strict=True)], 1
    elif len(rows) == jobs and not titled:
        shop, first = [_pairs(line, machines) for line in rows], 0
    else:
        forms = "" if titled else f"{jobs} lines of pairs or "
        raise ProblemError(f"{path}: {len(rows)} lines after the first; {jobs} jobs have {forms}{2 * jobs} lines")
    return _problem(shop, machines, first, str(path), name)


def read_flexible_job_shop(path: Path, name: str) -> Problem:
    """Read a flexible job shop in Brandimarte's form; arguments and errors as in :func:`read_job_shop`."""
    lines = Lines(path)
    jobs, machines = _sizes(lines.take("the numbers of jobs and machines"))
    shop: list[list[Choices]] = []
    count = 0
    while len(shop) < jobs:
        line = lines.take(f"job {len(shop) + 1} of {jobs}")
        shop.append(_flexible(line, machines))
        count += len(shop[-1])
        if count > MOST_OPERATORS:
            raise line.fail(f"more than {MOST_OPERATORS} operations")
    lines.finish()
    return _problem(shop, machines, 1, str(path), name)


def known_optimum(problem: Problem) -> float | None:
    """The least makespan of a job shop of JSPLIB, where it is proven; None for every other problem [s]."""
    return _optima().get(problem.digest[:16])


@cache
def _optima() -> dict[str, float]:
    """Start of the digest of a problem -> its optimum [s]."""
    found: dict[str, float] = json.loads(files(__package__).joinpath("job_shops.json").read_text())["optima"]
    return found


def is_job_shop(problem: Problem) -> bool:
    """True if a problem has several jobs, whose operators transfer nothing and may not run everywhere."""
    several = problem.num_operators > 1 and problem.component.max() > 0
    return bool(several and not problem.edge_bytes.any() and not np.isfinite(problem.cost).all())


def _sizes(line: Line) -> tuple[int, int]:
    jobs = line.whole(0, "the number of jobs", 1, MOST_OPERATORS)
    return jobs, line.whole(1, "the number of machines", 1, MOST_DEVICES)


def _pairs(line: Line, machines: int) -> list[Choices]:
    if len(line.words) % 2:
        raise line.fail(f"{len(line.words)} numbers do not form pairs of a machine and a time")
    return [[_pair(line, at, 0, machines)] for at in range(0, len(line.words), 2)]


def _pair(line: Line, at: int, first: int, machines: int) -> tuple[int, float]:
    machine = line.whole(at, "a machine", first, machines - 1 + first) - first
    return machine, line.number(at + 1, "a time")


def _matrices(times: Line, order: Line, machines: int) -> list[Choices]:
    times.exactly(machines)
    order.exactly(machines)
    return [[(order.whole(at, "a machine", 1, machines) - 1, times.number(at, "a time"))] for at in range(machines)]


def _flexible(line: Line, machines: int) -> list[Choices]:
    """The operations of one job."""
    job: list[Choices] = []
    at = 1
    for _ in range(line.whole(0, "the number of operations", 1, MOST_OPERATORS)):
        count = line.whole(at, "the number of choices", 1, machines)
        choices = [_pair(line, at + 1 + 2 * k, 1, machines) for k in range(count)]
        if len({machine for machine, _ in choices}) < count:
            raise line.fail(f"operation {len(job) + 1} has a machine twice")
        job.append(choices)
        at += 1 + 2 * count
    line.exactly(at)
    return job


def _problem(shop: list[list[Choices]], machines: int, first: int, where: str, name: str) -> Problem:
    steps = [(j, k, choices) for j, job in enumerate(shop) for k, choices in enumerate(job)]
    cost = cost_table(len(steps), machines, where)
    for i, (_, _, choices) in enumerate(steps):
        for machine, seconds in choices:
            cost[i, machine] = seconds
    return Problem.from_arrays(
        cost,
        [(i - 1, i, 0.0) for i, (_, k, _) in enumerate(steps) if k],
        operator_names=[f"J{j + first}.{k + first}" for j, k, _ in steps],
        device_names=[f"M{machine + first}" for machine in range(machines)],
        name=name,
    )
