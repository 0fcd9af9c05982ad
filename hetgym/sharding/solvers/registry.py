"""The table of solvers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from hetgym.errors import check_name
from hetgym.sharding.solvers.incumbent import Incumbent

Steps = Callable[[Incumbent, np.random.Generator], Iterator[None]]
"""A solver: it takes choices and bounds to the incumbent, and returns to its caller after every short piece of work."""


@dataclass(frozen=True)
class Solver:
    """A row of the table of solvers."""

    name: str  # what users type
    target: str  # place of the function, a Steps
    citation: str  # source of the method
    summary: str
    needs: tuple[str, ...] = ()  # modules of an extra without which it does not work

    @property
    def steps(self) -> Steps:
        """The function itself."""
        module, _, name = self.target.partition(":")
        found: Steps = getattr(import_module(module), name)
        return found


SOLVERS: dict[str, Solver] = {
    row.name: row
    for row in (
        Solver(
            "greedy", "hetgym.sharding.solvers.greedy:greedy", "folklore",
            "Each node in turn takes what is cheapest given the nodes before it.",
        ),
        Solver(
            "dual", "hetgym.sharding.solvers.dual:dual",
            "Kolmogorov, IEEE TPAMI 28(10), 2006; Polyak, USSR Comput. Math. Math. Phys. 9(3), 1969",
            "Message passing (TRW-S) with a price for memory at each time; bounds, and choices that are repaired.",
        ),
        Solver(
            "trees", "hetgym.sharding.solvers.trees:trees",
            "Hamze & de Freitas, UAI 2004 (trees in fields); prices of the dual",
            "The dual, then exact choices on random trees of nodes.",
        ),
        Solver(
            "mip", "hetgym.sharding.solvers.mip:mip",
            "Dantzig, Fulkerson & Johnson, Oper. Res. 2(4), 1954; Huangfu & Hall, Math. Program. Comput. 10, 2018",
            "Branch and bound (HiGHS) on the linear program, with rows for memory where it runs out.", ("highspy",),
        ),
    )
}  # fmt: skip
"""Name -> solver. ``auto``, which runs two of them at the same time, is a name of :func:`hetgym.sharding.solve`."""


def solver(name: str) -> Solver:
    """The solver of a name; UnknownName if there is none."""
    check_name("solver of sharding problems", name, SOLVERS)
    return SOLVERS[name]
