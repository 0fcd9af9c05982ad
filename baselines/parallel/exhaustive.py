"""The best plan of a small training problem: by simulating all plans, and by branch and bound."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray, Int64Array
from hetgym.baselines.parallel.options import Options, in_flight, options
from hetgym.errors import ProblemError, size
from hetgym.parallel import ParallelPlan, Setting, TrainingProblem
from hetgym.search.search import searching

MOST = 1_000_000  # Most plans that are simulated
Piece = tuple[int, int, int]  # A stage, or a chunk of it: first layer, end, option


def every_plan(problem: TrainingProblem) -> Iterator[ParallelPlan]:
    """All plans: settings, cuts, and one option of groups for each stage."""
    for setting in problem.settings():
        found = options(problem, setting)
        if found is None:
            continue
        if setting.chunks == 1:
            yield from _before(problem, found, problem.costs.layers, (), np.zeros(len(problem.cluster.pools), np.int64))
            continue
        for chosen in devices(problem, found):
            for ends in combinations(range(1, problem.costs.layers), len(chosen) * setting.chunks - 1):
                yield found.plan(pieces((0, *ends, problem.costs.layers), chosen))


def exhaustive(problem: TrainingProblem) -> ParallelPlan:
    """The best of all plans; of equals the first.

    Raises:
        ProblemError: no plan fits in memory, or there are more than :data:`MOST`.
    """
    best, least = None, np.inf
    with searching() as stopped:
        for count, plan in enumerate(every_plan(problem)):
            if stopped():
                break
            if count >= MOST:
                raise ProblemError(f"training problem: more than {MOST} plans; take 'exact' or 'search'")
            value = problem.value(plan)
            if value < least:
                best, least = plan, value
        return known(best, problem, stopped())


def exact(problem: TrainingProblem, start: ParallelPlan | None = None) -> ParallelPlan:
    """The best plan, by branch and bound.

    Stages are added from the last one to the first. From the moment that a stage may begin until its last gradient
    leaves it, a replica needs at least M times the stage's forward and backward pass, weight passes left out, and at
    least one of each and the time of the stages behind. The layers before it need at least one of each on the fastest
    option. This holds for all schedules that flush. With several chunks, every group needs M times the passes of its
    chunks, and a micro-batch must pass all of them.

    Raises:
        ProblemError: no plan fits in memory.
    """
    with searching() as stopped:
        return known(branch_and_bound(problem, start, stopped), problem, stopped())


def branch_and_bound(
    problem: TrainingProblem, start: ParallelPlan | None, stopped: Callable[[], bool], most: float = np.inf
) -> ParallelPlan | None:
    """See :func:`exact`; the best plan when ``most`` nodes of the tree were seen, None if none was found."""
    search = _Search(problem, start, stopped, most)
    for setting in problem.settings():
        found = options(problem, setting)
        if found is not None:
            search.run(found)
    return search.best


def known(
    plan: ParallelPlan | None,
    problem: TrainingProblem,
    stopped: bool = False,
    partial: Callable[[], bool] | None = None,
) -> ParallelPlan:
    """The plan.

    Args:
        stopped: True if Ctrl-C ended the search.
        partial: asked if there is no plan; True if the search left out some for the size of the cluster.

    Raises:
        ProblemError: there is none, or none was found.
        KeyboardInterrupt: the search ended before it found one.
    """
    if plan is not None:
        return plan
    if stopped:
        raise KeyboardInterrupt
    if not any(pool.per_node % tensor == 0 for pool in problem.cluster.pools for tensor in problem.tensors):
        nodes = ", ".join(f"{pool.per_node} GPUs of {pool.name!r}" for pool in problem.cluster.pools)
        raise ProblemError(f"training problem: no tensor degree of {list(problem.tensors)} divides a node ({nodes})")
    missing, full = "", False
    for tensor in problem.tensors:
        sizes = problem.costs.sizes(tensor)
        if sizes is not None:
            # However replicas share it out, all GPUs together hold the whole state at least once.
            gpus = problem.cluster.gpus
            state = sizes.held(slice(0, problem.costs.layers)) * tensor * problem.framework.state_bytes
            left = [problem.framework.room(pool.device) for pool in problem.cluster.pools]
            most = max(0.0, *left)
            room = summed(pool.gpus * max(0.0, each) for pool, each in zip(problem.cluster.pools, left, strict=True))
            full = state > room
            missing = (
                f": weights and optimizer state take {size(state, 4)}, on each of {gpus} GPUs {size(state / gpus, 4)} "
                f"at best; a GPU has {size(most, 4)} for them and for activations"
            )
            break
    if not full and partial is not None and partial():
        raise ProblemError(
            "training problem: no plan was found that fits in the memory of the GPUs; the cluster is too large to try "
            f"all{missing}: give fewer GPUs, tensor degrees or stages"
        )
    raise ProblemError(f"training problem: no plan fits in the memory of the GPUs{missing}")


def runs(setting: Setting, stages: int, samples: int) -> bool:
    """True if the schedule of a setting exists for a number of stages."""
    turns = samples // (setting.data * setting.micro_batch)
    return setting.chunks == 1 or (stages > 1 and turns % stages == 0)


def devices(problem: TrainingProblem, found: Options) -> Iterator[tuple[int, ...]]:
    """Options of the stages of all pipelines of several chunks that there are GPUs for."""
    gpus = np.array([pool.gpus for pool in problem.cluster.pools])
    samples = problem.samples(found.data, found.setting.micro_batch)
    most = min(problem.stages, problem.costs.layers // found.setting.chunks)

    def extend(chosen: tuple[int, ...], left: Int64Array) -> Iterator[tuple[int, ...]]:
        if runs(found.setting, len(chosen), samples):
            yield chosen
        if len(chosen) < most:
            for k in np.flatnonzero((found.used <= left).all(axis=1)).tolist():
                yield from extend((*chosen, k), left - found.used[k])

    yield from extend((), gpus)


def pieces(bounds: Sequence[int], chosen: Sequence[int]) -> list[Piece]:
    """Pieces as (first layer, end, option) between bounds, on the options of the stages in turn."""
    spans = zip(bounds, bounds[1:], strict=False)
    return [(first, end, chosen[k % len(chosen)]) for k, (first, end) in enumerate(spans)]


def _before(
    problem: TrainingProblem, found: Options, end: int, behind: tuple[Piece, ...], used: Int64Array
) -> Iterator[ParallelPlan]:
    """Plans whose last stages are ``behind``, which begin at layer ``end`` and take ``used`` GPUs of each pool."""
    if end == 0:
        yield found.plan(behind)
        return
    if len(behind) == problem.stages:
        return
    gpus = np.array([pool.gpus for pool in problem.cluster.pools])
    for k in range(len(found.used)):
        if (used + found.used[k] <= gpus).all():
            for start in range(end):
                yield from _before(problem, found, start, ((start, end, k), *behind), used + found.used[k])


class _Search:
    """Depth-first search with the best plan so far."""

    def __init__(
        self, problem: TrainingProblem, start: ParallelPlan | None, stopped: Callable[[], bool], most: float
    ) -> None:
        self.interrupted, self.left = stopped, most
        self.problem = problem
        self.best = start
        self.least = problem.value(start) if start is not None else np.inf
        self.gpus = np.array([pool.gpus for pool in problem.cluster.pools])

    def run(self, found: Options) -> None:
        """Search all plans of a setting."""
        self.found, self.held = found, found.held()
        self.path = np.append(0.0, np.cumsum(np.diff(found.slot, axis=1).min(axis=0)))
        if found.setting.chunks > 1:
            for chosen in devices(self.problem, found):
                count = len(chosen) * found.setting.chunks
                self.fill(chosen, (0,), count, np.zeros((len(chosen), found.data)), np.zeros(found.data))
            return
        most = min(self.problem.stages, self.problem.costs.layers)
        self.kept = in_flight(found.setting.schedule, most, found.turns)
        self.extend(self.problem.costs.layers, (), np.zeros(len(self.gpus), np.int64), np.zeros(found.data))

    def stopped(self) -> bool:
        """True if the search is to end; counts a node."""
        self.left -= 1
        return self.left < 0 or self.interrupted()

    def consider(self, plan: ParallelPlan) -> None:
        """Keep the plan if it is better."""
        value = self.problem.value(plan)
        if value < self.least:
            self.best, self.least = plan, value

    def fill(
        self, chosen: tuple[int, ...], bounds: tuple[int, ...], left: int, load: FloatArray, path: FloatArray
    ) -> None:
        """Add pieces of a pipeline of several chunks.

        Args:
            chosen: options of its stages.
            bounds: first layers of the pieces so far, and the end of the last.
            left: number of pieces to come.
            load: [p, d] time of a micro-batch in the pieces so far on each group [s].
            path: [d] time of a micro-batch in all of them [s].
        """
        found, layers, at = self.found, self.problem.costs.layers, bounds[-1]
        if self.stopped():
            return
        if left == 0:
            self.consider(found.plan(pieces(bounds, chosen)))
            return
        stage = (len(bounds) - 1) % len(chosen)
        for end in range(at + 1, layers - left + 2) if left > 1 else (layers,):
            slot = (found.slot[:, end] - found.slot[:, at])[found.replicas[chosen[stage]]]
            more = load.copy()
            more[stage] += slot
            ahead = max(found.turns * more.max(), (path + slot).max() + self.path[-1] - self.path[end])
            if ahead * (1 - 1e-9) < self.least:
                self.fill(chosen, (*bounds, end), left - 1, more, path + slot)

    def extend(self, end: int, behind: tuple[Piece, ...], used: Int64Array, bound: FloatArray) -> None:
        """Add stages before layer ``end``.

        Args:
            end: first layer of the stages ``behind``.
            behind: the last stages.
            used: [pools] GPUs that they take.
            bound: [d] least time of each replica from the moment that the first of them may begin until its last
                gradient leaves it [s].
        """
        found = self.found
        if self.stopped():
            return
        if end == 0:
            self.consider(found.plan(behind))
            return
        if len(behind) == min(self.problem.stages, self.problem.costs.layers):
            return
        for k in range(len(found.used)):
            if (used + found.used[k] > self.gpus).any():
                continue
            for start in range(end):
                slot = (found.slot[:, end] - found.slot[:, start])[found.replicas[k]]
                ahead = np.maximum(found.turns * slot, slot + bound)
                if ahead.max() + self.path[start] < self.least and self.kept[len(behind)] <= self.held[k, start, end]:
                    self.extend(start, ((start, end, k), *behind), used + found.used[k], ahead)
