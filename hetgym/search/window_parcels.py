"""Parcels: windows on their way to another process, without what can be made there.

A parcel holds what a window knows that the whole problem and the rest of the plan give it. Room for the times of
changes, marks and scratch is made where the window is opened; arrays that all windows of a problem share stay out. Both
sides must have the same problem.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.blanks import blank
from hetgym._types import FloatArray, IntArray, frozen
from hetgym.problem import ProblemArrays
from hetgym.search import course as courses
from hetgym.search.course import Course, Front
from hetgym.search.outside import Outside, Sequel
from hetgym.search.windows import Window
from hetgym.weights import SharedWeights

OWN = (
    "cost", "successor_pointer", "successor", "edge_source", "predecessor_pointer", "predecessor", "predecessor_edge",
    "edge_bytes", "edge_tensor",
)  # fmt: skip
"""Arrays of a window's problem that are its own."""

OPERATORS = ("topological_order", "position", "occupancy")
"""Arrays with an entry for each operator of the whole problem, which no window reads."""

KNOWN = ("assignment", "order", "turn", "tail", "bound", "weight", "room", "held")
"""Arrays of a window's course that it does not find by itself when it begins, apart from times and the front."""


class Parcel(NamedTuple):
    """A window on its way."""

    turns: tuple[int, int, int]  # see Window: first, begin, end
    operators: IntArray
    p: tuple[npt.NDArray[Any], ...]  # see OWN
    known: tuple[npt.NDArray[Any], ...]  # see KNOWN
    times: tuple[FloatArray, FloatArray, FloatArray]  # when operators begin and finish, and when edges arrive [s]
    front: Front  # before the halo
    shared: SharedWeights
    outside: Outside


def common(p: ProblemArrays) -> ProblemArrays:
    """What a process needs of a problem to open its windows."""
    nothing = {name: getattr(p, name)[:0] for name in (*OWN, *OPERATORS)}
    return p._replace(**nothing)


def packed(window: Window) -> Parcel:
    """A window that has not begun, as a parcel; the arrays are the window's own."""
    course = window.course
    assert course.outside is not None
    return Parcel(
        (window.first, window.begin, window.end),
        window.operators,
        tuple(getattr(window.p, name) for name in OWN),
        tuple(getattr(course, name) for name in KNOWN),
        (course.now.begin, course.now.finish, course.now.arrived),
        course.front,
        course.shared,
        course.outside,
    )


def opened(parcel: Parcel, p: ProblemArrays) -> Window:
    """The window of a parcel, which may be read-only.

    Args:
        p: as :func:`common` gives it.
    """
    own = {name: np.array(array) for name, array in zip(OWN, parcel.p, strict=True)}
    known = {name: np.array(array) for name, array in zip(KNOWN, parcel.known, strict=True)}
    outside = _copied(parcel.outside)
    given = {
        **known,
        "shared": SharedWeights._make(frozen(np.asarray(array)) for array in parcel.shared),
        "outside": outside,
    }
    n, e, rows = len(own["cost"]), len(own["successor"]), len(outside.crossing)
    sizes = {"n": n, "e": e, "d": own["cost"].shape[1], "l": len(p.link_bandwidth), "m": rows}
    course = blank(Course, given | {"clockwork": courses.NOTHING}, **sizes)
    for target, source in zip(course.now, parcel.times, strict=False):
        target[:] = source
    for name in Front._fields:
        getattr(course.front, name)[...] = getattr(course.marks, name)[0] = getattr(parcel.front, name)
    return Window(*parcel.turns, np.array(parcel.operators), p._replace(**own), course)


def _copied(outside: Outside) -> Outside:
    """A copy whose arrays may be written."""
    fields: dict[str, Any] = {name: np.array(field) for name, field in outside._asdict().items() if name != "behind"}
    return Outside(**fields, behind=Sequel(*(np.array(field) for field in outside.behind)))


def _frozen(shared: SharedWeights) -> SharedWeights:
    """The same arrays, read-only as those of other windows: kernels are compiled for these."""
    fields: dict[str, Any] = {name: frozen(np.asarray(field)) for name, field in shared._asdict().items()}
    return SharedWeights(**fields)
