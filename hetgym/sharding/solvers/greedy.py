"""The solver `greedy`: each node in turn takes what is cheapest by what is known then, and memory is repaired."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hetgym.sharding.solvers.ascent import new_ascent
from hetgym.sharding.solvers.forests import new_forest
from hetgym.sharding.solvers.incumbent import Incumbent
from hetgym.sharding.solvers.model import model_of, priced
from hetgym.sharding.solvers.repairing import repair
from hetgym.sharding.solvers.sweeps import forward

REPAIRS = 50  # Most rounds of a repair


def greedy(incumbent: Incumbent, rng: np.random.Generator) -> Iterator[None]:
    """Choose once, for nodes in the order of the file; each further step repairs the choice in another random order."""
    model = model_of(incumbent.reduced)
    room, forest = new_ascent(model), new_forest(model)
    priced(model, room.sums, 0.0, room.theta)
    forward(model, room.theta, room.messages, room.choice, room.scratch)
    order = np.arange(len(room.choice))
    while incumbent.choice is None:
        choice, theta = room.choice.copy(), room.theta.copy()
        if repair(model, forest, choice, theta, room.sums, room.used, order, REPAIRS, rng):
            incumbent.offer(choice, "greedy")
        yield
