"""by_layers: the problem of placing whole layers, or other groups, instead of single operators."""

from collections.abc import Sequence

import numpy as np

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.errors import ProblemError
from hetgym.graph.layers import layer_of
from hetgym.problem import Problem

LAYER = "Layer"  # Kind of an operator that stands for a layer

_PRODUCTS = ("Gemm", "MatMul")  # Kinds of operators


def layers_of(problem: Problem) -> tuple[IntArray, list[str]]:
    """[n] layers by their first operators, and names by :func:`hetgym.graph.layer_of`, else the operator's own."""
    names: dict[str, int] = {}
    number = np.array([names.setdefault(layer_of(name) or name, len(names)) for name in problem.operator_names])
    return number.astype(np.int32), list(names)


def whole_layers(problem: Problem) -> tuple[IntArray, BoolArray, int]:
    """The layer with which each operator goes if layers stay whole, for operators outside layers, too.

    One outside goes with the last layer that it reads from, directly or through others outside; one that reads from
    none, such as the table of words or a mask, with the first layer that reads from it. What
    :func:`~hetgym.graph.transforms.training` adds goes with the operator that it is named after.

    Returns:
        [n] layers, numbered by their first operators; [n] true for operators that come before the layers, which read
        from none of them; and the number of layers, which may be 0.
    """
    found = [layer_of(name) for name in problem.operator_names]
    numbers = {name: k for k, name in enumerate(dict.fromkeys(filter(None, found)))}
    last = [numbers.get(name, -1) for name in found]  # that an operator reads from or is in
    first = last.copy()  # that reads from it or that it is in
    sources, readers = _neighbours(problem)
    order, model = problem.topological_order.tolist(), _named_after(problem)
    outside = [i for i in order if not found[i]]
    for i in outside:
        last[i] = last[model[i]] if model[i] != i else max((last[k] for k in sources[i]), default=-1)
    for i in reversed(outside):
        first[i] = min((first[k] for k in readers[i] if first[k] >= 0), default=-1)
    early = np.array(last) < 0
    chosen = [max(0, first[model[i]]) if early[i] else last[i] for i in range(len(last))]
    return np.array(chosen, np.int32), early, len(numbers)


def tied(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """The readers of each shared weight that is most of what a product reads, as that of a head and a table of words.

    Masks, rotary tables and caches, which operators share as well, are not.
    """
    pointer, reader, size = problem.shared_weights[:3]
    found = []
    for k, bytes in enumerate(size.tolist()):
        readers = reader[pointer[k] : pointer[k + 1]].tolist()
        if any(problem.operator_kinds[i] in _PRODUCTS and bytes > problem.weight_bytes[i] / 2 for i in readers):
            found.append(tuple(readers))
    return tuple(found)


def _neighbours(problem: Problem) -> tuple[list[list[int]], list[list[int]]]:
    """For each operator those that it reads from, and those that read from it."""
    sources: list[list[int]] = [[] for _ in problem.operator_names]
    readers: list[list[int]] = [[] for _ in problem.operator_names]
    for a, b in zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True):
        sources[b].append(a)
        readers[a].append(b)
    return sources, readers


def _named_after(problem: Problem) -> list[int]:
    """For each operator the one that it is named after, as norm/backward and norm.weight/update after norm, or itself.

    Only operators that come earlier in the topological order are looked up.
    """
    at, position = {name: i for i, name in enumerate(problem.operator_names)}, problem.arrays.position
    found = []
    for i, name in enumerate(problem.operator_names):
        stem = name.partition("/")[0]
        other = at.get(stem, at.get(stem.rpartition(".")[0], i)) if stem != name else i
        found.append(other if position[other] < position[i] else i)
    return found


def by_layers(problem: Problem) -> Problem:
    """Merge the operators of each layer into one, so that plans place whole layers.

    Operators outside layers are kept; see :func:`merged`.

    Args:
        problem: a problem whose operators are named by layers, see :func:`hetgym.graph.layer_of`.

    Raises:
        ProblemError: no operator is named by a layer, or the layers read from each other in a circle.

    >>> from hetgym import Problem, load_graph, load_platform
    >>> by_layers(Problem.build(load_graph("gpt2"), load_platform("cpu-gpu")))
    Problem('gpt2@cpu-gpu', 18 operators, 17 edges, 2 devices)
    """
    if not any(map(layer_of, problem.operator_names)):
        raise ProblemError(
            f"problem {problem.name!r}: no operators are named after layers, as in layers.3.self_attn.q_proj; "
            "plan its operators one by one"
        )
    return merged(problem, *layers_of(problem))


def merged(problem: Problem, layer: IntArray, names: Sequence[str]) -> Problem:
    """Merge the operators of each group into one.

    A merged operator takes the sum of the run times, needs the weights of its operators, each once, and writes the
    results that other groups read; what is only used inside a group takes no memory here. Results that several groups
    read keep their tensor.

    Args:
        problem: the problem.
        layer: [n] group of each operator, from 0.
        names: name of each group: a layer's name, or that of one of its operators, whose kind it gets.

    Raises:
        ProblemError: the groups read from each other in a circle.
    """
    m = len(names)
    source, target = layer[problem.edge_source], layer[problem.edge_target]
    outside = np.flatnonzero(source != target)
    outside = outside[np.argsort(-problem.edge_bytes[outside], kind="stable")]  # of one tensor's edges the largest
    _, first = np.unique(np.stack([source, target, problem.edge_tensor])[:, outside], axis=1, return_index=True)
    edges = outside[first]
    written: dict[int, tuple[int, float]] = {}
    for edge in edges.tolist():
        tensor, size = int(problem.edge_tensor[edge]), float(problem.edge_bytes[edge])
        written[tensor] = (int(source[edge]), max(size, written.get(tensor, (0, 0.0))[1]))
    output = np.zeros(m)
    for producer, size in written.values():
        output[producer] += size
    ends = ~np.isin(np.arange(problem.num_operators), problem.edge_source)
    np.add.at(output, layer[ends], problem.output_bytes[ends])
    cost = np.zeros((m, problem.num_devices))
    np.add.at(cost, layer, problem.cost)
    occupancy = np.zeros((m, problem.num_devices))
    np.maximum.at(occupancy, layer, problem.occupancy)
    kind = dict(zip(problem.operator_names, problem.operator_kinds, strict=True))
    weights: FloatArray = np.zeros(m)
    np.add.at(weights, layer, problem.weight_bytes)
    weights -= problem.shared_weights.spared(layer, m)
    try:
        return problem.replace(
            cost=cost,
            edge_source=source[edges],
            edge_target=target[edges],
            edge_bytes=problem.edge_bytes[edges],
            edge_tensor=problem.edge_tensor[edges],
            weight_bytes=weights,
            output_bytes=output,
            operator_names=names,
            operator_kinds=[LAYER if layer_of(name) == name else kind[name] for name in names],
            occupancy=occupancy,
            shared_weights=problem.shared_weights.grouped(layer, m),
        )
    except ProblemError as error:
        raise ProblemError(f"its layers cannot be placed as wholes: {error}") from error
