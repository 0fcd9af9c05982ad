"""Lower bounds on the makespan of any schedule."""

import numpy as np

from hetgym._kernels.jit import lean
from hetgym._types import FloatArray
from hetgym.errors import ConfigError, require
from hetgym.planning.ranks import least_cost_from_entry, least_cost_to_exit
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime

MOST_ROWS = 2000  # Most operators for which the load bound solves the linear program with a row for each
FEW_ROWS = 1000  # Rows of the program for more operators, whose groups are near enough for its weights


def critical_path_bound(problem: Problem) -> float:
    """Longest path when every operator runs on its fastest device and data move for free [s].

    It is also the denominator of the schedule length ratio (SLR).
    """
    n = problem.num_operators
    return longest_free_path(problem.arrays, np.empty(n), np.empty(n))


@lean
def longest_free_path(p: ProblemArrays, fastest: FloatArray, begin: FloatArray) -> float:
    """As :func:`critical_path_bound`, for kernels; ``fastest`` and ``begin``, [n] each, are scratch."""
    n, d = p.cost.shape
    for i in range(n):
        fastest[i], begin[i] = p.cost[i, 0], 0.0
        for a in range(1, d):
            fastest[i] = min(fastest[i], p.cost[i, a])
    longest = 0.0
    for i in p.topological_order:
        end = begin[i] + fastest[i]
        longest = max(longest, end)
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            begin[p.successor[edge]] = max(begin[p.successor[edge]], end)
    return longest


def communication_bound(problem: Problem) -> float:
    """Longest path when every operator and transfer takes its best pair of devices [s]."""
    through = least_cost_from_entry(problem) + problem.cost + least_cost_to_exit(problem)
    return float(through.min(axis=1).max())


def area_bound(problem: Problem) -> float:
    """Sum of all run times, each on its fastest device, divided by the number of devices [s]."""
    return float(problem.cost.min(axis=1).sum() / problem.num_devices)


def load_bound(problem: Problem) -> float:
    """All work spread over the devices as well as it can be, operators being divisible [s].

    The linear program min C, subject to sum_d x[i, d] = 1 and sum_i cost[i, d] x[i, d] <= C. Of the solver's answer
    only the weights of devices are used: any that sum to 1 give a valid bound, whatever the solver's tolerances. Of
    more than :data:`MOST_ROWS` operators, the program has a row for each group of similar ones.

    Raises:
        MissingExtra: SciPy is not installed.
    """
    return _load(problem.cost)


def combined_bound(problem: Problem, thresholds: int = 8) -> float:
    """The load bound of operators in the middle of the graph, plus the least times before and after them [s].

    The largest over thresholds a and b of a + b + :func:`load_bound` of the operators that cannot start before a and
    after whose end at least b must follow. Never less than the load bound.

    Args:
        thresholds: largest number of values tried for each of a and b, spread over those that occur.

    Raises:
        ConfigError: fewer than one threshold.
        MissingExtra: SciPy is not installed.
    """
    if thresholds < 1:
        raise ConfigError(f"combined_bound: thresholds is {thresholds}; it must be 1 or more")
    possible = np.isfinite(problem.cost)
    earliest = np.where(possible, least_cost_from_entry(problem), np.inf).min(axis=1)
    remaining = np.where(possible, least_cost_to_exit(problem), np.inf).min(axis=1)
    whole = best = load_bound(problem)
    for a in _spread(earliest, thresholds):
        for b in _spread(remaining, thresholds):
            inside = (earliest >= a) & (remaining >= b)
            if a + b + whole > best and inside.any():
                best = max(best, a + b + _load(problem.cost[inside]))
    return best


def lower_bound(problem: Problem, linear: bool = False, runtime: str | Runtime = "classic") -> float:
    """The largest of all bounds on the makespan of any schedule under a runtime without noise [s].

    Under a runtime other than ``classic`` operators also take the dispatch time where the device spends it, and the
    transfers between operators that have only one device each fill links or channels. Where devices have several
    streams, an operator uses up its device by its occupancy only.

    Args:
        linear: also the bounds that solve linear programs: tighter where devices are busy, but slower.

    Raises:
        MissingExtra: ``linear`` without SciPy.
    """
    switches = as_runtime(runtime)
    timed = filled = problem
    if switches.dispatch > 0:
        waits = ~problem.asynchronous if switches.order == "fixed" else np.ones(problem.num_devices, np.bool_)
        timed = filled = problem.replace(cost=problem.cost + switches.dispatch * waits)
    if switches.streams > 1:
        filled = problem.replace(cost=problem.cost * problem.occupancy)
    bound = max(communication_bound(timed), critical_path_bound(timed), area_bound(filled))
    bound = max(bound, traffic_bound(problem, switches))
    return max(bound, combined_bound(filled)) if linear else bound


def traffic_bound(problem: Problem, runtime: str | Runtime) -> float:
    """Time that the busiest link or channel needs for the transfers that no placement avoids [s].

    These are the transfers between operators that can run on one device only, and not on the same; 0 if transfers never
    wait.
    """
    switches = as_runtime(runtime)
    if switches.communication == "free":
        return 0.0
    possible = np.isfinite(problem.cost)
    home = np.where(possible.sum(axis=1) == 1, possible.argmax(axis=1), -1)
    a, b = home[problem.edge_source], home[problem.edge_target]
    forced = np.flatnonzero((a >= 0) & (b >= 0) & (a != b))
    if len(forced) == 0:
        return 0.0
    messages: dict[tuple[int, ...], float] = {}
    for k in forced.tolist():
        source, size = int(problem.edge_source[k]), float(problem.edge_bytes[k])
        pair = int(a[k]), int(b[k])
        if switches.transfers == "cached":
            key: tuple[int, ...] = (*pair, source, int(problem.edge_tensor[k]))
            messages[key] = max(messages.get(key, 0.0), size)
        else:
            key = (*pair, int(problem.edge_target[k])) if switches.transfers == "aggregated" else (*pair, source, k)
            messages[key] = messages.get(key, 0.0) + size
    channels = problem.num_devices
    load = np.zeros(2 * channels if switches.communication == "endpoint" else len(problem.link_bandwidth))
    for (sender, receiver, *_), size in messages.items():
        if switches.communication == "endpoint":
            crossed = [sender, channels + receiver]
        else:
            pointer = sender * channels + receiver
            crossed = problem.route_link[problem.route_pointer[pointer] : problem.route_pointer[pointer + 1]].tolist()
        if switches.communication == "fair":  # latencies pass beside each other
            load[crossed] += size / problem.link_bandwidth[crossed]
        else:
            load[crossed] += problem.latency[sender, receiver] + size / problem.bandwidth[sender, receiver]
    return float(load.max())


def _spread(values: FloatArray, count: int) -> list[float]:
    """At most ``count`` of the distinct values, evenly by rank, the smallest among them."""
    distinct = np.unique(values)
    if len(distinct) <= count:
        return [float(value) for value in distinct]
    return [float(distinct[k * len(distinct) // count]) for k in range(count)]


def _load(cost: FloatArray) -> float:
    """The load bound of some operators, from the duals of the linear program."""
    if float(cost.min(axis=1).max()) == 0.0:
        return 0.0
    weight = _device_weights(cost if len(cost) <= MOST_ROWS else _merged(cost))
    weighted = np.where(np.isfinite(cost), np.where(np.isfinite(cost), cost, 0.0) * weight, np.inf)
    return float(weighted.min(axis=1).sum())


# The linear program takes time beyond all proportion to its rows. Operators that cost nearly the same on each device,
# relative to their least cost, become one row of their sum. The steps of the comparison widen until few rows are left.
def _merged(cost: FloatArray) -> FloatArray:
    """[rows, d] costs of groups of operators: at most :data:`FEW_ROWS`, one for each set of possible devices at least.

    Operators without cost are left out.
    """
    least = cost.min(axis=1)
    cost, least = cost[least > 0], least[least > 0]
    relative = np.log2(cost / least[:, None])
    step = 2.0**-10
    while True:
        keys = np.where(np.isfinite(relative), np.rint(np.where(np.isfinite(relative), relative, 0.0) / step), -1.0)
        _, group = np.unique(keys, axis=0, return_inverse=True)
        count = int(group.max()) + 1
        if count <= FEW_ROWS or not keys.max() > 0:
            break
        step *= 2
    rows = np.zeros((count, cost.shape[1]))
    np.add.at(rows, group.reshape(-1), cost)
    return rows


def _device_weights(cost: FloatArray) -> FloatArray:
    """[d] weights of devices, of sum 1, from the duals of the linear program; equal ones if it is not solved."""
    optimize = require("scipy.optimize", "exact", "the load bound")
    sparse = require("scipy.sparse", "exact", "the load bound")
    n, d = cost.shape
    scale = float(cost.min(axis=1).max())
    operator, device = np.nonzero(np.isfinite(cost))
    count = len(operator)
    column = np.arange(count)
    entries = np.concatenate([cost[operator, device] / scale, np.full(d, -1.0)])
    place = np.concatenate([device, np.arange(d)]), np.concatenate([column, np.full(d, count)])
    loads = sparse.csr_matrix((entries, place), shape=(d, count + 1))
    shares = sparse.csr_matrix((np.ones(count), (operator, column)), shape=(n, count + 1))
    objective = np.zeros(count + 1)
    objective[count] = 1.0
    answer = optimize.linprog(
        objective, A_ub=loads, b_ub=np.zeros(d), A_eq=shares, b_eq=np.ones(n), bounds=(0, None), method="highs"
    )
    weight = np.ones(d)
    if answer.status == 0:
        weight = np.maximum(-np.asarray(answer.ineqlin.marginals, np.float64), 0.0)
    return weight / weight.sum() if weight.sum() > 0 else np.full(d, 1 / d)
