"""The cut problem of a pipeline, and the reference value that cuts are compared with."""

from dataclasses import replace

import numpy as np

from hetgym._sums import summed
from hetgym._types import frozen
from hetgym.errors import ProblemError
from hetgym.pipeline.contraction import bind
from hetgym.pipeline.cuts import CutProblem, Stage
from hetgym.pipeline.objective import TRAINING, Objective
from hetgym.pipeline.problem import PipelineProblem
from hetgym.pipeline.room import something_fits, with_room
from hetgym.pipeline.sharing import rationed
from hetgym.pipeline.tables import counts_and_first, tables_of
from hetgym.pipeline.training import TrainingPipeline


def cut_problem(pipeline: PipelineProblem | TrainingPipeline, objective: Objective | None = None) -> CutProblem:
    """Price a pipeline's blocks for an objective, and compute the reference.

    The reference is the least value among these cuts, as far as they fit into memory: each single device that can run
    everything, and the equal cuts over all devices and over the devices of each kind. If none fits, it is the value of
    the cut that fills the last stages first.

    Args:
        pipeline: the pipeline to cut; see :class:`~hetgym.pipeline.TrainingPipeline` for the assumptions about a
            pipeline without a backward pass.
        objective: the figure by which cuts are judged; the throughput by default.

    Devices that share a memory get fixed parts of it, those with which the reference is best.

    Raises:
        ProblemError: devices take time to enter or take turns, no contiguous cut can run, there are too many sets of
            devices, or the objective is training and the pipeline already has backward operators.

    >>> from hetgym.pipeline import DeviceKind
    >>> chain = PipelineProblem.chain([[4.0], [1.0], [1.0], [2.0]], [DeviceKind("gpu", 2)], transfer=0.5)
    >>> cuts = cut_problem(chain)
    >>> cuts.reference, cuts.evaluate([Stage(0, 1, 0), Stage(1, 4, 1)]).value
    (5.5, 4.5)
    """
    training = pipeline if isinstance(pipeline, TrainingPipeline) else TrainingPipeline(pipeline)
    objective = Objective() if objective is None else objective
    if training.problem.has_delays:
        raise ProblemError(
            f"pipeline {training.problem.name!r}: on devices that take time to enter a partition, or take turns, only "
            "plan_pipeline and linked_dp cut pipelines"
        )
    if not training.problem.pools:
        return _cut_problem(training, objective)
    divided = [_cut_problem(training.on(problem), objective) for problem in rationed(training.problem, coarse=True)]
    return min(divided, key=lambda cuts: (not cuts.within_memory, cuts.reference))


def _cut_problem(training: TrainingPipeline, objective: Objective) -> CutProblem:
    """As :func:`cut_problem`, without pools."""
    problem = training.problem
    if objective.code == TRAINING and problem.backward.any():
        raise ProblemError(
            f"pipeline {problem.name!r} has backward operators of its own, objective='training' adds a backward "
            "pass to one of inference; cut it for its throughput or latency"
        )
    blocks = bind(problem)
    n = problem.num_operators
    edges = list(zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True))
    is_chain = blocks.members == [(i,) for i in range(n)] and edges == [(i, i + 1) for i in range(n - 1)]
    tables = with_room(tables_of(training, blocks, objective, is_chain), problem)
    within = something_fits(tables)
    if not within:
        tables = tables._replace(capacity=frozen(np.full(len(tables.capacity), np.inf)))
        tables = with_room(tables, problem)
        if not something_fits(tables):
            raise ProblemError(f"pipeline {problem.name!r}: no contiguous cut puts all operators where they can run")
    names = tuple(problem.operator_names[inside[0]] for inside in blocks.members)
    return _with_reference(CutProblem(training, objective, blocks, tables, names, is_chain, within))


def _with_reference(cuts: CutProblem) -> CutProblem:
    """Set ``alone``, ``reference`` and ``reference_cut``; of equal values the cut that is tried first is taken."""
    n, d = len(cuts.names), cuts.problem.num_devices
    tried = [[Stage(0, n, device)] for device in range(d)] + _equal_cuts(cuts)
    values = [cuts.value_within(cut) for cut in tried]
    alone, reference = min(values[:d]), min(values)
    cut = tried[values.index(reference)]
    if reference == np.inf:
        cut = last_stages_first(cuts)
        reference = cuts.value_within(cut)
    return replace(cuts, alone=alone, reference=reference, reference_cut=tuple(cut))


def _equal_cuts(cuts: CutProblem) -> list[list[Stage]]:
    """Equal cuts over all devices and over those of each kind, for every possible number of rounds."""
    n, most, found = len(cuts.names), cuts.objective.rounds, []
    counts, first = (numbers.tolist() for numbers in counts_and_first(cuts.problem))
    groups = [range(summed(counts)), *(range(k, k + count) for k, count in zip(first, counts, strict=True) if count)]
    for group in groups:
        p = min(len(group), n)
        for rounds in range(1, most + 1):
            stages = p * rounds
            if stages <= n and cuts.tables.peak[rounds, p, 0] >= 0:
                ends = [k * n // stages for k in range(stages + 1)]
                found.append([Stage(ends[k], ends[k + 1], group[k % p]) for k in range(stages)])
    return found


def last_stages_first(cuts: CutProblem) -> list[Stage]:
    """A cut that fits into memory, read off the table of room: the last stages are as long as possible.

    The walk goes from the first stage to the last. Invariant before each step: the blocks from ``start`` on are left,
    and they fit on the last q of p stages, on devices of the set ``members``. The stage takes the first device that
    preserves this.
    """
    tables, n = cuts.tables, len(cuts.names)
    for row, p in enumerate(tables.levels.tolist()):
        members, cut, start = int(tables.free[0]), [], 0
        q = next((q for q in range(p + 1) if tables.room[row, q, members] == 0), None)
        if q is None:
            continue
        used: set[int] = set()
        while q > 0 and start < n:
            if tables.room[row, q - 1, members] <= start:
                q -= 1
                continue
            for d in range(len(tables.capacity)):
                if d in used:
                    continue
                end = int(tables.room[row, q - 1, members - tables.stride[tables.kind[d]]])
                need = tables.size[start, end] + tables.peak[1, p, p - q] * (tables.stash[end] - tables.stash[start])
                if end <= start or (tables.wall[start, d] >= end and need <= tables.capacity[d]):
                    if end > start:
                        cut.append(Stage(start, end, d))
                    used.add(d)
                    members -= int(tables.stride[tables.kind[d]])
                    start = max(start, end)
                    break
            q -= 1
        if start == n:
            return cut
    raise AssertionError("a cut fits, but none was found")
