"""Every kernel is compiled once: its argument types do not depend on the caller."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from brief import brief

from hetgym import Problem, Schedule, evaluate, simulate
from hetgym._kernels import interpreted
from hetgym.baselines import get, lower_bound, names
from hetgym.planning import DECODES, aliases
from hetgym.planning.bookings import Bookings
from hetgym.sim import PRESETS, online
from hetgym.sim.progress import Sharing
from hetgym.workloads import textbook

ENTRIES = (
    "graph.topology._kahn", "sim.sweep.run_orders", "sim.loop.run_schedules", "sim.decisions.decide",
    "sim.decisions.look", "schedule._count_waiting",
    "planning.decode.decode_all", "planning.evaluation._first_wrong",
    "planning.list_scheduling.place_in_order", "planning.timeline.write_device_order",
    "planning.ranks.write_list_order",
    "planning.ranks.write_longest_path_to_exit", "planning.ranks.write_longest_path_from_entry",
    "planning.ranks.write_optimistic_cost",
    "planning.ranks.write_least_cost_to_exit", "planning.ranks._write_least_cost_from_entry",
    "planning.degrees._weighted_out_degree",
    "baselines.cpgc._correct", "planning.ready_list._place_ready", "baselines.online._balance",
    "baselines.queueing._serve", "baselines.lookahead._place", "baselines.pets._rank", "baselines.hcpt._latest_start",
    "planning.critical.parents_first", "baselines.baechi._place", "baselines.pilot._decide", "baselines.bil._place",
    "baselines.bsa._migrate", "baselines.dps._place", "baselines.fast._place_urgent", "baselines.fast._place_earliest",
    "baselines.hbmct._place", "baselines.ilha._place", "baselines.mapping_heuristic._place", "planning.pull_loop._run",
    "baselines.donf_memory._run", "planning.degrees._nested",
    "baselines.rand_heft._sample", "agents.place.tokens._survey", "agents.place.inference._encode",
    "agents.place.inference._project", "agents.place.episodes.episode", "agents.place.refinement._refine",
    "agents.inference.decide",
)  # fmt: skip

NAMES = (*names(), *(alias for alias, meant in aliases().items() if ":" in meant))
"""All schedulers, and published names of others with options."""


@pytest.fixture(scope="module")
def everything_called() -> Iterator[None]:
    before, interpreted._budgets[0] = interpreted._budgets[0], 0  # small kernels are compiled, too
    _call_everything()
    yield
    interpreted._budgets[0] = before


def _call_everything() -> None:
    problem = textbook("topcuoglu")
    lower_bound(problem)
    fixed = np.array([[0] * 10, [1] * 10], np.int64)
    fortran = np.asfortranarray(fixed)
    fixed.setflags(write=False)
    schedules = [brief(name)(problem) for name in NAMES]
    for runtime in PRESETS:
        for decode in DECODES:
            for placements in (fixed, fortran, fixed.tolist(), fixed.astype(np.int8), fixed[::-1]):
                evaluate(problem, placements, runtime, decode)
        for schedule in schedules:
            simulate(problem, schedule, runtime)
        online(problem, lambda now: (now.ready[0], now.estimate(now.ready[0]).finish.argmin()), runtime)
        evaluate(problem, [get("heft")(problem), Schedule([0] * 10, priority=np.arange(10, 0, -1))], runtime)
        simulate(problem, Schedule([0] * 10, priority=np.arange(10, 0, -1)), runtime)
        simulate(problem, Schedule([0] * 10, priority=np.arange(20.0)[::2]), runtime)
    strided = Problem.from_arrays(np.ones((4, 6), np.float32)[:, ::2].T, [(0, 1, 1)], latency=np.ones((4, 4)).T)
    for name in NAMES:
        brief(name)(strided)


def is_larger(kind: Any) -> bool:
    """True if a Numba type is a record with bookings or sharing in it, at any depth; other runs have none."""
    record = getattr(kind, "kind", None)
    if record is None:
        return False
    return record.instance_class in (Bookings, Sharing) or any(is_larger(part) for part in record.types)


@pytest.mark.usefixtures("everything_called")
@pytest.mark.parametrize("entry", ENTRIES)
def test_one_specialisation(entry: str) -> None:
    module, _, name = entry.rpartition(".")
    kernel = getattr(importlib.import_module(f"hetgym.{module}"), name)
    plain = [signature for signature in kernel.signatures if not any(is_larger(kind) for kind in signature)]
    assert len(plain) == 1, plain  # and one more for plans under other runtimes than classic, or for what is shared
    assert len(kernel.signatures) <= 2, kernel.signatures
