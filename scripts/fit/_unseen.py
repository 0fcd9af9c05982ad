"""Protocol *unseen GPU*: each board held out of everything that is fitted or chosen; used by ``neusight.py``.

For a board X that is held out:

1. trees are fitted to the operator tables of the other boards;
2. for each other board B, trees without X *and* B give the share of the peak that B's runs imply, and the law of
   sustained rates is fitted to these shares;
3. host time for a kernel and the gap between kernels are those of :data:`CANDIDATES` at which runs of the other boards
   scatter least about their board's median;
4. X is then priced by its data sheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from _neusight import GPUS, Node, Run, graphs, opgraph, runs, samples
from _pytorch import Clocks, Pass, passes, replay

from hetgym.costs.gpu.eager import EagerGpuCosts
from hetgym.costs.gpu.fit import Sample, fit, launches, law
from hetgym.costs.gpu.work import Gpu
from hetgym.graph import Operator

GAPS = (1e-6, 2e-6, 4e-6)
"""Candidates for the time from the end of a kernel to that of an empty one that follows it in a full stream [s]."""

HOSTS = (0.5, 1.0)
"""Candidates for the host time of a kernel, as shares of the time that a small one takes on an idle stream."""

CANDIDATES = [(host, gap) for host in HOSTS for gap in GAPS]

GRID = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
"""Shares of the peak between which run times are interpolated, on logarithmic scales."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """A pass, its distinct kernels, and for each kernel in order the number of the equal distinct one."""

    whole: Pass
    distinct: list[Operator]
    place: npt.NDArray[np.int64]


def part_of(whole: Pass) -> Part:
    """Collect the distinct kernels of a pass."""
    numbers: dict[tuple[object, ...], int] = {}
    distinct, place = [], []
    for op in (op for step in whole.steps for op in step.kernels):
        key = (op.kind, op.inputs, op.outputs, tuple(op.attributes.items()))
        if key not in numbers:
            numbers[key] = len(distinct)
            distinct.append(op)
        place.append(numbers[key])
    return Part(whole, distinct, np.array(place, np.int64))


def board(name: str) -> str:
    """The board that a table or run belongs to; both PCIe models of the A100 count as one: they share the chip."""
    return "NVIDIA A100-PCIE-40GB" if name.startswith("NVIDIA A100") else name


class Laboratory:
    """The measurements, and fits without some of the boards.

    Args:
        data: NeuSight's folder.
        traces: folder with traces of its switch transformers; None leaves their runs out.
        seed: seed of the fits.
    """

    def __init__(self, data: Path, traces: Path | None, seed: int) -> None:
        self.tables = [*samples(data, "train"), *samples(data, "test")]
        self.runs = known_runs(data, traces)
        self.boards = sorted({run.device for run, _ in self.runs})
        self.fit_without = cache(lambda held: fit(self.without(held), seed))
        self.aligned = cache(self._aligned)
        self._parts: dict[str, list[Part]] = {}

    def without(self, held: frozenset[str]) -> list[Sample]:
        """Tables of all boards but those held out."""
        return [sample for sample in self.tables if board(sample.device.name) not in held]

    def parts(self, run: Run, nodes: Sequence[Node]) -> list[Part]:
        """Passes of a run's model."""
        if run.model not in self._parts:
            self._parts[run.model] = [part_of(whole) for whole in passes(run, nodes)]
        return self._parts[run.model]

    def kernels(self, name: str, costs: EagerGpuCosts) -> list[list[Floats]]:
        """Times of all kernels without the gap, for each pass of each run on a board [s]."""
        gpu = replace(GPUS[name], launch_overhead=0.0)
        return [
            [costs.predict(part.distinct, gpu)[part.place] for part in self.parts(run, nodes)]
            for run, nodes in self.runs
            if run.device == name
        ]

    def ratios(self, name: str, kernels: Sequence[Sequence[Floats]], clocks: Clocks) -> Floats:
        """Predicted over measured time of the runs on a board."""
        own = [(run, self.parts(run, nodes)) for run, nodes in self.runs if run.device == name]
        return np.array(
            [
                sum(replay(p.whole, (t + clocks.gap).tolist(), clocks) for p, t in zip(parts, times, strict=True))
                / run.measured
                for (run, parts), times in zip(own, kernels, strict=True)
            ]
        )

    def clocks(self, held: frozenset[str], candidate: tuple[float, float]) -> Clocks:
        """A candidate, with the launch of an elementwise operator in the tables of the other boards."""
        launch = launches([s for s in self.without(held) if s.session == "train"])["elementwise"]
        return Clocks(candidate[0] * launch, gap=candidate[1])

    def _aligned(self, name: str, held: frozenset[str]) -> dict[tuple[float, float], tuple[float, float]]:
        """Share of the peak at which the median run of a board is met, by trees without the boards ``held``.

        Returns:
            Candidate -> the share, and the mean size of the log errors that are left.
        """
        costs = self.fit_without(held)
        gpu = Gpu.of(GPUS[name])
        times = [self.kernels(name, EagerGpuCosts(costs.classes, shares={gpu: share})) for share in GRID]
        result = {}
        for candidate in CANDIDATES:
            clocks = self.clocks(held, candidate)
            logs = np.log([self.ratios(name, kernels, clocks) for kernels in times])  # falling
            share = float(np.exp(np.interp(0.0, -np.median(logs, axis=1), np.log(GRID))))
            left = [np.interp(np.log(share), np.log(GRID), own) for own in logs.T]
            result[candidate] = share, float(np.abs(left).mean())
        return result

    def chosen(self, held: str) -> tuple[EagerGpuCosts, Clocks]:
        """Cost model and clocks for a board, without anything of it; an empty name holds nothing out.

        Args:
            held: the board.
        """
        out = frozenset({held} - {""})
        others = [name for name in self.boards if name != held]

        def align(name: str, candidate: tuple[float, float]) -> tuple[float, float]:
            return self.aligned(name, out | {name})[candidate]

        best = min(CANDIDATES, key=lambda one: float(np.mean([align(name, one)[1] for name in others])))
        shares = {Gpu.of(GPUS[name]): align(name, best)[0] for name in others}
        costs = self.fit_without(out)
        return EagerGpuCosts(costs.classes, {}, {}, law(shares)), self.clocks(out, best)


@dataclass(frozen=True)
class Outcome:
    """A board that was held out.

    Args:
        costs: the model.
        clocks: what starting kernels costs.
        ratios: [runs] predicted over measured time.
        neusight: [runs] the same of NeuSight.
        names: names of the runs.
    """

    costs: EagerGpuCosts
    clocks: Clocks
    ratios: Floats
    neusight: Floats
    names: list[str]


def outcome(laboratory: Laboratory, name: str) -> Outcome:
    """Hold a board out."""
    costs, clocks = laboratory.chosen(name)
    own = [run for run, _ in laboratory.runs if run.device == name]
    theirs = np.array([run.neusight / run.measured for run in own])
    ratios = laboratory.ratios(name, laboratory.kernels(name, costs), clocks)
    return Outcome(costs, clocks, ratios, theirs, [run.model for run in own])


def known_runs(data: Path, traces: Path | None) -> list[tuple[Run, list[Node]]]:
    """Runs whose traces are at hand, with these."""
    found = graphs(data)
    for run in runs(data):
        path = traces / f"{run.model}.csv" if traces else None
        if run.model not in found and path and path.exists():
            found[run.model] = opgraph(path)
    return [(run, found[run.model]) for run in runs(data) if run.model in found]


def pooled(logs: Sequence[Floats]) -> tuple[float, float]:
    """Tenth and ninetieth percentile of log errors, each board counting once."""
    steps = np.linspace(0.0, 1.0, 201)
    low, high = np.quantile(np.concatenate([np.quantile(own, steps) for own in logs]), (0.1, 0.9))
    return float(low), float(high)
