"""Make a corpus of problems with good plans, as labels for imitation.

    python scripts/make_plans.py plans/ --count 100000 --workers 2     # some forty minutes of two cores

Problem k is ``problem(k)``: the random mix of the default environment with 2, 4, 6 or 8 devices; a tenth of the
problems have 100 to 200 operators. Its runtime is ``RUNTIMES[k % 3]``, and its plan that of place-v2 without a budget,
which is the same on every machine. Files hold a thousand problems each, in arrays; files that exist are kept, so an
interrupted call goes on where it stopped. ``read(file)`` gives problems and schedules back.

| array | shape | what |
|---|---|---|
| ``number`` | [P] | k |
| ``pointer`` | [P + 1] | the operators of problem p are ``pointer[p] .. pointer[p + 1]`` of the next two |
| ``assignment`` | [sum of n] | device of each operator |
| ``turn`` | [sum of n] | position of each operator in the order of its device |
| ``makespan`` | [P] | of the plan under the runtime [s] |
| ``reference`` | [P] | of ``peft-again``'s plan [s] |
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import hetgym
from hetgym import Problem, Schedule
from hetgym._input.files import atomic_write
from hetgym.workloads import RandomMix

RUNTIMES = ("links", "framework", "ready")
DEVICES = (4, 2, 4, 8, 4, 6)
SEED = 20_000_000
"""Of the first problem, the others taking the numbers after it; no shipped recipe, test or benchmark uses them."""


def problem(number: int) -> Problem:
    """Problem k of the corpus."""
    operators = (100, 200) if number % 10 == 9 else (30, 80)
    return RandomMix(operators=operators, devices=DEVICES[number % len(DEVICES)])(np.random.default_rng(SEED + number))


def read(path: Path) -> Iterator[tuple[Problem, str, Schedule]]:
    """The problems of a file, with the runtime and the schedule of each."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    for p, number in enumerate(arrays["number"].tolist()):
        own = slice(*arrays["pointer"][p : p + 2].tolist())
        assignment, turn, drawn = arrays["assignment"][own], arrays["turn"][own], problem(number)
        ranked = np.argsort(turn, kind="stable")
        order = [ranked[assignment[ranked] == device] for device in range(drawn.num_devices)]
        yield drawn, RUNTIMES[number % len(RUNTIMES)], Schedule(assignment, order=order)


def make(path: Path, numbers: range) -> Path:
    """Plan problems and write them to a file."""
    planner, reference = hetgym.agents.load("place-v2"), hetgym.baselines.get("peft-again")
    assignments, turns, makespans, references = [], [], [], []
    for number in numbers:
        drawn, runtime = problem(number), RUNTIMES[number % len(RUNTIMES)]
        plan = planner.plan(drawn, runtime=runtime)
        turn = np.zeros(drawn.num_operators, np.int16)
        for row in plan.device_order(drawn):
            turn[row] = np.arange(len(row))
        assignments.append(plan.assignment.astype(np.int8))
        turns.append(turn)
        makespans.append(plan.makespan)
        references.append(reference(drawn, runtime).makespan)
    arrays = {
        "number": np.array(numbers, np.int64),
        "pointer": np.cumsum([0, *map(len, turns)]),
        "assignment": np.concatenate(assignments),
        "turn": np.concatenate(turns),
        "makespan": np.array(makespans),
        "reference": np.array(references),
    }
    atomic_write(path, lambda file: np.savez_compressed(file, **arrays))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=100_000, help="problems")
    parser.add_argument("--each", type=int, default=1_000, help="problems of a file")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    parts = [range(k, min(k + options.each, options.count)) for k in range(0, options.count, options.each)]
    files = [options.folder / f"plans-{part.start:07d}.npz" for part in parts]
    todo = [(file, part) for file, part in zip(files, parts, strict=True) if not file.exists()]
    with ProcessPoolExecutor(options.workers) as pool:
        for path in pool.map(make, *zip(*todo, strict=True)) if todo else ():
            print(path, flush=True)


if __name__ == "__main__":
    main()
