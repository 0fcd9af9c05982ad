"""Outside a window: the rest of a plan, as the course of some of its turns sees it.

A window is a run of turns of a long plan, cut out as a course of its own (:mod:`hetgym.search.windows`). Only what its
turns hold can change. The rest is known from the simulation of the whole plan: the state of devices and links before
the first turn, when the outputs of earlier operators are on each device, and the tails of what comes behind. So a price
ends at the window's last turn, with a bound on the makespan: what a device still has to run, and what the readers
behind the window wait for.

Every function takes None for a course that is a whole plan, for which kernels are compiled without it.
"""

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import inlined
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray


@record
class Sequel(NamedTuple):
    """Least times from a turn to the end of the plan, -inf where nothing follows."""

    device: Annotated[FloatArray, "d"]  # from the start of each device's next operator [s]
    asked: Annotated[FloatArray, "d"]  # from its next request for inputs, if transfers are aggregated [s]
    link: Annotated[FloatArray, "l"]  # from the start of each link's next transfer [s]
    channel: Annotated[
        FloatArray, "2, d"
    ]  # from the start of the next transfer that each device sends, and receives [s]


@record
class Outside(NamedTuple):
    """The rest of a plan; see the module."""

    # the first turn that may change, and the one behind the last; operators that were cut out have the number of their
    # turn, and the others come behind them: those that are read, with turn -1, then the readers behind the window
    turns: Annotated[npt.NDArray[np.int64], "2"]
    operators: Annotated[npt.NDArray[np.int64], "1"]  # number of operators of the whole plan
    # the edges from outside to operator i are `inner + pointer[i] .. inner + pointer[i + 1]`, with `inner` the number
    # of all others; `arrival`: time at which what each carries is on each device [s]
    pointer: Annotated[IntArray, "n + 1"]
    # `floor`: least makespan that its transfer leaves possible there [s]
    arrival: Annotated[FloatArray, "o, d"]
    floor: Annotated[FloatArray, "o, d"]
    # least time to the end of the plan from when an operator outside has its inputs; where transfers are aggregated,
    # from when it may ask for them [s]
    wait: Annotated[FloatArray, "g"]
    before: Annotated[FloatArray, "d"]  # time that earlier operators take on each device [s]
    rest: Annotated[FloatArray, "d"]  # time that those behind the window take [s]
    behind: Sequel  # what follows the window
    # crossing, ahead: least makespan that the readers behind the window leave possible, before every marked turn, of
    # the plan and of the change priced last; `crossed`: where a price has come to [s]
    crossing: Annotated[FloatArray, "m"]
    ahead: Annotated[FloatArray, "m"]
    crossed: Annotated[FloatArray, "1"]


@inlined
def turns(outside: Outside | None, n: int) -> tuple[int, int]:
    """The first turn that may change, and the one behind the last."""
    if outside is None:
        return 0, n
    return int(outside.turns[0]), int(outside.turns[1])


@inlined
def operators(outside: Outside | None, n: int) -> int:
    """Number of operators of the whole plan."""
    if outside is None:
        return n
    return int(outside.operators[0])


@inlined
def behind(outside: Outside | None, device: int) -> float:
    """Least time from the start of a device's first operator behind the window to the end [s]."""
    if outside is None:
        return 0.0
    return float(max(0.0, outside.behind.device[device]))


@inlined
def before(outside: Outside | None, device: int) -> float:
    """Time that earlier operators take on a device [s]."""
    if outside is None:
        return 0.0
    return float(outside.before[device])


@inlined
def rest(outside: Outside | None, device: int) -> float:
    """Time that the operators behind the window take on a device [s]."""
    if outside is None:
        return 0.0
    return float(outside.rest[device])


@inlined
def crossed(outside: Outside | None) -> float:
    """Least makespan that the readers behind the window leave possible, where a price has come to [s]."""
    if outside is None:
        return 0.0
    return float(outside.crossed[0])


@inlined
def restore(outside: Outside | None, row: int) -> None:
    """Begin a price at a mark."""
    if outside is not None:
        outside.crossed[0] = outside.crossing[row]


@inlined
def same(outside: Outside | None, row: int) -> bool:
    """True if a price has come to what the plan has at a mark."""
    if outside is None:
        return True
    return bool(outside.crossed[0] == outside.crossing[row])


@inlined
def mark(outside: Outside | None, row: int) -> None:
    """Save where a price has come to as a mark of the change."""
    if outside is not None:
        outside.ahead[row] = outside.crossed[0]


@inlined
def adopt(outside: Outside | None, row: int) -> None:
    """Make a mark of the change one of the plan."""
    if outside is not None:
        outside.crossing[row] = outside.ahead[row]


@inlined
def bring(outside: Outside | None, arrived: FloatArray, operator: int, device: int) -> None:
    """Write when an operator's inputs from outside are on its device into ``arrived``, [e] [s]."""
    if outside is None or operator >= len(outside.pointer) - 1:
        return
    inner = len(arrived) - len(outside.arrival)
    for k in range(outside.pointer[operator], outside.pointer[operator + 1]):
        arrived[inner + k] = outside.arrival[k, device]
