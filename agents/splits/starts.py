"""Plans of other methods, in the entries of a menu, from which the search over splits can begin."""

from __future__ import annotations

from collections.abc import Sequence

from hetgym.envs.split.instance import SplitInstance
from hetgym.envs.split.menu import Choice
from hetgym.graph import DataflowGraph


def in_entries(instance: SplitInstance, menu: Sequence[Choice], graph: DataflowGraph) -> tuple[int, ...]:
    """[k] the splits of a graph in the entries of a menu, for each key operator; 0 leaves one whole.

    A split in two parts is replaced by the entry of the same axis whose smaller part is nearest in length; operators
    without one are left whole.
    """
    found = shares(graph)
    names = [instance.graph.operators[key].name for key in instance.keys]
    return tuple(_nearest(instance, menu, turn, found.get(name)) for turn, name in enumerate(names))


def shares(graph: DataflowGraph) -> dict[str, tuple[int, int]]:
    """For each operator that is split in two: the dimension of its result that is cut, and the smaller length."""
    kinds = {op.name: op for op in graph.operators}
    found = {}
    for name, op in kinds.items():
        whole, _, number = name.rpartition("/")
        other = kinds.get(f"{whole}/1")
        if number == "0" and other is not None:
            pairs = list(zip(op.outputs[0].shape, other.outputs[0].shape, strict=True))
            joint = next((edge.target for edge in graph.edges if graph.operators[edge.source].name == name), None)
            axis = None if joint is None else graph.operators[joint].attributes.get("axis")
            cut = [at for at, (a, b) in enumerate(pairs) if a != b]
            if cut or isinstance(axis, int):
                at = cut[0] if cut else int(str(axis))
                found[whole] = at, min(pairs[at])
    return found


def _nearest(instance: SplitInstance, menu: Sequence[Choice], turn: int, share: tuple[int, int] | None) -> int:
    """The entry of two parts along a dimension whose smaller part is nearest to a length, the first of equals."""
    distances = [
        (abs(min(option.lengths) - share[1]), entry)
        for entry, option in enumerate(instance.options[turn])
        if share is not None and option is not None and menu[entry].ways == 2 and option.result == share[0]
    ]
    return min(distances, default=(0, 0))[1]
