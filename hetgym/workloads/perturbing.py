"""Problems near another one: its numbers stretched within a range, its edges added and removed."""

import math
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray, IntArray
from hetgym.errors import ProblemError
from hetgym.problem import Problem, Routes

STRIDE = 1.0
"""Longest step of one factor, as a share of the way from the start's value to an end of the range, in logarithms."""

DIGITS = 3  # Significant digits of a factor: few, so that problems can be written down and do not hang on a last bit
WIDEST = 1000.0  # Largest range; beyond it a device or a link is as good as absent


_STRETCHED = {
    "operator": ("run_time", "run time"), "device": ("slowness", "run times"), "cable": ("width", "bandwidth"),
    "tensor": ("size", "bytes"),
}  # fmt: skip
"""Move -> the factors of a variant that it changes one of, and what they multiply."""


class Variant(NamedTuple):
    """A problem near a start, as factors of the start's numbers and a list of edges."""

    run_time: FloatArray  # [n] of each operator's run times
    slowness: FloatArray  # [d] of all run times on each device
    width: FloatArray  # [c] of the bandwidth of each cable
    size: FloatArray  # [t] of the bytes of each tensor
    # source, target: [e] ends of the edges
    source: IntArray
    target: IntArray
    tensor: IntArray  # [e] tensor of each edge
    # [e] bytes of each edge before its factor; those that the start gives it, if it has the edge
    start_bytes: FloatArray


class Neighbourhood:
    """All problems near a start.

    They have its operators, devices, latencies, routes and memory. Four things are stretched: the run times of an
    operator, all run times on a device, the bytes of a tensor and the bandwidth of a cable, each by a factor between
    ``1 / within`` and ``within``. The links of a cable, such as the two directions between two devices, keep their
    proportion. Edges may be removed and added, the latter only along the start's topological order, so that no
    cycle comes about. The moves are those of PISA (Coleman, Krishnamachari, arXiv 2403.07120) but for the range,
    which is relative here.

    Args:
        start: the problem in the middle.
        within: the range of each factor, 1 to 1000.

    Raises:
        ProblemError: an impossible range.

    >>> near = Neighbourhood(chain(4, 3), within=2.0)
    >>> changed, what = near.step(near.start(), np.random.default_rng(0))
    >>> what, near.problem(changed)
    ('b → d added', Problem('chain-4-3', 4 operators, 4 edges, 3 devices))
    """

    def __init__(self, start: Problem, within: float = 2.0) -> None:
        if not 1 <= within <= WIDEST:
            raise ProblemError(f"within is {within}; it must be a factor from 1 to {WIDEST:g}")
        self.around, self.within = start, float(within)
        self._cable, self._cable_names = _cables(start)
        self._apart = ~np.eye(start.num_devices, dtype=np.bool_).ravel()
        self._typical = _typical_bytes(start)

    def start(self) -> Variant:
        """The start itself."""
        p = self.around
        tensors, tensor = np.unique(p.edge_tensor, return_inverse=True)
        return Variant(
            run_time=np.ones(p.num_operators),
            slowness=np.ones(p.num_devices),
            width=np.ones(len(self._cable_names)),
            size=np.ones(len(tensors)),
            source=p.edge_source,
            target=p.edge_target,
            tensor=tensor.astype(np.int32),
            start_bytes=p.edge_bytes,
        )

    def draw(self, rng: np.random.Generator) -> Variant:
        """The start's graph with all factors drawn, evenly in their logarithms."""
        start = self.start()
        run_time, slowness, width, size = (np.array([self._drawn(rng) for _ in row]) for row in start[:4])
        return start._replace(run_time=run_time, slowness=slowness, width=width, size=size)

    def step(self, variant: Variant, rng: np.random.Generator) -> tuple[Variant, str]:
        """Another problem, one move away.

        The six moves (operator, device, tensor, cable, one edge more, one edge less) are equally likely unless one is
        impossible.

        Args:
            variant: the problem before.
            rng: source of all randomness.

        Returns:
            The problem after, and what was changed, in words; factors are of the start's values.
        """
        n, pairs = len(variant.run_time), set(zip(variant.source.tolist(), variant.target.tolist(), strict=True))
        moves = ["operator", "device"]
        moves += ["tensor", "less"] if pairs else []
        moves += ["cable"] if len(variant.width) else []
        moves += ["more"] if 2 * len(pairs) < n * (n - 1) else []
        move = moves[int(rng.integers(len(moves)))]
        if move == "more":
            return self._add(variant, pairs, rng)
        if move == "less":
            return self._remove(variant, int(rng.integers(len(variant.source))))
        field, what = _STRETCHED[move]
        factors: FloatArray = getattr(variant, field)
        k = int(rng.integers(len(variant.source if move == "tensor" else factors)))
        changed, factor = self._stretched(factors, int(variant.tensor[k]) if move == "tensor" else k, rng)
        names = {"operator": self.around.operator_names, "device": self.around.device_names, "cable": self._cable_names}
        place = self._edge(variant.source[k], variant.target[k]) if move == "tensor" else names[move][k]
        changes: dict[str, Any] = {field: changed}
        return variant._replace(**changes), f"{place}: {what} × {factor:g}"

    def problem(self, variant: Variant, name: str = "") -> Problem:
        """A variant as a problem.

        Args:
            variant: factors and edges.
            name: name of the problem; that of the start by default.
        """
        p = self.around
        links, bandwidth = p.link_bandwidth * variant.width[self._cable], np.full(p.num_devices**2, np.inf)
        if len(p.route_link):
            starts = p.route_pointer[:-1][self._apart]
            bandwidth[self._apart] = np.minimum.reduceat(links[p.route_link], starts)
        return p.replace(
            cost=p.cost * variant.run_time[:, None] * variant.slowness,
            edge_source=variant.source,
            edge_target=variant.target,
            edge_bytes=variant.start_bytes * variant.size[variant.tensor],
            edge_tensor=variant.tensor,
            bandwidth=bandwidth.reshape(p.latency.shape),
            name=name or p.name,
            routes=Routes(p.route_pointer, p.route_link, links),
        )

    def _drawn(self, rng: np.random.Generator) -> float:
        return self._within(self.within ** rng.uniform(-1.0, 1.0))

    def _within(self, factor: float) -> float:
        return min(max(float(f"{factor:.{DIGITS}g}"), 1 / self.within), self.within)

    def _stretched(self, factors: FloatArray, k: int, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """A copy with a step of one factor, and its new value."""
        changed = factors.copy()
        changed[k] = self._within(float(factors[k]) * self.within ** rng.uniform(-STRIDE, STRIDE))
        return changed, float(changed[k])

    def _add(self, variant: Variant, pairs: set[tuple[int, int]], rng: np.random.Generator) -> tuple[Variant, str]:
        """One more edge with a tensor of its own, of a drawn multiple of the start's median bytes."""
        order = self.around.topological_order
        while True:
            a, b = sorted(int(k) for k in rng.integers(len(order), size=2))
            pair = int(order[a]), int(order[b])
            if a != b and pair not in pairs:
                break
        added = variant._replace(
            size=np.append(variant.size, self._drawn(rng)),
            source=np.append(variant.source, np.int32(pair[0])),
            target=np.append(variant.target, np.int32(pair[1])),
            tensor=np.append(variant.tensor, np.int32(len(variant.size))),
            start_bytes=np.append(variant.start_bytes, self._typical),
        )
        return added, f"{self._edge(*pair)} added"

    def _remove(self, variant: Variant, k: int) -> tuple[Variant, str]:
        """One edge less; tensors that no edge carries any longer are forgotten."""
        kept, tensor = np.unique(np.delete(variant.tensor, k), return_inverse=True)
        less = variant._replace(
            size=variant.size[kept],
            source=np.delete(variant.source, k),
            target=np.delete(variant.target, k),
            tensor=tensor.astype(np.int32),
            start_bytes=np.delete(variant.start_bytes, k),
        )
        return less, f"{self._edge(variant.source[k], variant.target[k])} removed"

    def _operator(self, k: int) -> str:
        return self.around.operator_names[k]

    def _edge(self, source: int, target: int) -> str:
        return f"{self._operator(source)} → {self._operator(target)}"


def chain(operators: int, devices: int) -> Problem:
    """Operators of one second in a chain; each sends one byte, which takes a second between any two devices.

    Up to 26 operators are named by letters.

    Raises:
        ProblemError: less than one operator or device.
    """
    if operators < 1 or devices < 1:
        raise ProblemError(f"a chain of {operators} operators on {devices} devices: both must be at least 1")
    return Problem.from_arrays(
        np.ones((operators, devices)),
        [(i, i + 1, 1.0) for i in range(operators - 1)],
        output_bytes=0.0,
        operator_names=ascii_lowercase[:operators] if operators <= len(ascii_lowercase) else None,
        name=f"chain-{operators}-{devices}",
    )


def _cables(problem: Problem) -> tuple[npt.NDArray[np.intp], list[str]]:
    """[l] cable of each link, and the name of each cable: links of one serve the same pairs, in either direction."""
    d, pairs = problem.num_devices, [set[tuple[int, int]]() for _ in problem.link_bandwidth]
    hops = np.diff(problem.route_pointer)
    for pair, link in zip(np.repeat(np.arange(d * d), hops).tolist(), problem.route_link.tolist(), strict=True):
        a, b = sorted(divmod(pair, d))
        pairs[link].add((a, b))
    alike: dict[tuple[tuple[int, int], ...], int] = {}
    cable = np.array([alike.setdefault(tuple(sorted(served)), len(alike)) for served in pairs], np.intp)
    names = []
    for served in alike:
        ends = [f"{problem.device_names[a]} – {problem.device_names[b]}" for a, b in served[:1]]
        names.append("".join(ends) + (f" and {len(served) - 1} more" if len(served) > 1 else ""))
    return cable, names


def _typical_bytes(problem: Problem) -> float:
    """Median payload of a problem; without any, what takes as long as the median operator."""
    moved = problem.edge_bytes[problem.edge_bytes > 0]
    if len(moved):
        return float(np.median(moved))
    narrow = problem.link_bandwidth[np.isfinite(problem.link_bandwidth)]
    typical = float(np.median(problem.mean_cost)) * float(np.median(narrow)) if len(narrow) else 0.0
    return typical if 0 < typical < math.inf else 1.0
