"""The problem of placing what Accelerate can place: whole layers, outside them whole modules, and not on the CPU."""

import numpy as np

from hetgym._sums import summed
from hetgym._types import BoolArray
from hetgym.errors import ConfigError, size
from hetgym.export.device_map import PROGRAM
from hetgym.export.placement import Placement, around
from hetgym.graph import layer_of
from hetgym.planning.layers import merged, tied
from hetgym.problem import Problem


def whole_modules(problem: Problem) -> Problem:
    """Merge the operators of each layer, and those that run where their inputs lie with the operators that they read.

    The latter are operators outside layers that read no weights, or that a module with submodules runs itself. One
    that reads no result of the others goes with the first operator that reads its own.

    Raises:
        ConfigError: the operators are not named after modules, see :meth:`Placement.modules`.
        ProblemError: the groups read from each other in a circle.

    >>> from hetgym import Problem, load_graph, load_platform
    >>> whole_modules(Problem.build(load_graph("gpt2"), load_platform("cpu-gpu")))
    Problem('gpt2@cpu-gpu', 15 operators, 14 edges, 2 devices)
    """
    placement = Placement.of(problem, np.zeros(problem.num_operators, np.int32))
    order, position = problem.topological_order.tolist(), problem.arrays.position.tolist()
    paths = placement.modules(PROGRAM)
    containers = {"", *(above for path in paths for above in around(path)[:-1])}
    name = [layer_of(operator) or operator for operator in problem.operator_names]
    follows = [
        not layer_of(operator) and (path in containers or not weighted)
        for operator, path, weighted in zip(problem.operator_names, paths, placement.weighted.tolist(), strict=True)
    ]
    sources = placement.inputs()
    floating: dict[int, bool] = {}  # operators that follow others, but read from floating ones only
    for i in order:
        fixed = [k for k in sources[i] if not floating[k]]
        floating[i] = follows[i] and not fixed
        if follows[i] and fixed:
            name[i] = name[max(fixed, key=position.__getitem__)]
    reader: dict[int, int] = {}  # the first one of each operator
    for i in reversed(order):
        if floating[i] and i in reader:
            name[i] = name[reader[i]]
        reader |= dict.fromkeys(sources[i], i)
    groups = {own: k for k, own in enumerate(dict.fromkeys(name))}
    return merged(problem, np.array([groups[own] for own in name], np.int32), list(groups))


def on_accelerators(problem: Problem) -> Problem:
    """Forbid what Accelerate would not do beside an accelerator: compute on a CPU, and hold tied weights twice.

    Operators that share a weight of a product get the accelerator on which they take the least time. A problem without
    accelerators is returned unchanged.

    Raises:
        ConfigError: the weights do not fit on the accelerators.
    """
    fast = problem.asynchronous
    if not fast.any():
        return problem
    pools: dict[int, float] = {}
    for k in np.flatnonzero(fast).tolist():
        pool = int(problem.memory_pool[k])
        pools[pool] = max(pools.get(pool, 0.0), float(problem.memory_capacity[k]))
    needed, room = float(problem.weight_bytes.sum() - problem.shared_weights.repeated), summed(pools.values())
    if needed > room:
        raise ConfigError(
            f"{PROGRAM} would copy weights from the CPU to a GPU at each call, since {size(needed)} of weights do not "
            f"fit into {size(room)} of the GPUs; plan a language model by 'hetgym llm --target accelerate', which "
            "counts these copies"
        )
    able: BoolArray = np.any(np.isfinite(problem.cost[:, fast]), axis=1)
    cost = np.where(able[:, None] & ~fast, np.inf, problem.cost)
    for readers in tied(problem):
        sums = cost[list(readers)].sum(axis=0)
        if np.isfinite(sums).any():
            others = np.arange(problem.num_devices) != np.argmin(sums)
            cost[np.ix_(readers, others)] = np.inf
    return problem.replace(cost=cost)
