"""Textbook examples, small enough to be checked by hand."""

from hetgym.errors import unknown_name
from hetgym.problem import Problem

_TEXTBOOK: dict[str, tuple[str, str]] = {
    # Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, figure 2: ten tasks, three processors.
    "topcuoglu": (
        "14 16 9, 13 19 18, 11 13 19, 13 8 17, 12 13 10, 13 16 9, 7 15 11, 5 11 14, 18 12 20, 21 7 16",
        "1-2:18 1-3:12 1-4:9 1-5:11 1-6:14 2-8:19 2-9:16 3-7:23 4-8:27 4-9:23 5-9:13 6-8:15 7-10:17 8-10:11 9-10:13",
    ),
    # Arabnejad, Barbosa, IEEE TPDS 25(3), 2014, figure 1: ten tasks, three processors.
    "arabnejad-barbosa": (
        "22 21 36, 22 18 18, 32 27 43, 7 10 4, 29 27 35, 26 17 24, 14 25 30, 29 23 36, 15 21 8, 13 16 33",
        "1-2:17 1-3:31 1-4:29 1-5:13 1-6:7 2-8:3 2-9:30 3-7:16 4-8:11 4-9:7 5-9:57 6-8:5 7-10:9 8-10:42 9-10:7",
    ),
}


def textbook(name: str) -> Problem:
    """A published example: ``"topcuoglu"`` or ``"arabnejad-barbosa"``, in seconds, at 1 byte/s.

    Raises:
        UnknownName: no such example.

    >>> textbook("topcuoglu")
    Problem('topcuoglu', 10 operators, 15 edges, 3 devices)
    """
    if name not in _TEXTBOOK:
        raise unknown_name("textbook problem", name, _TEXTBOOK)
    costs, edges = _TEXTBOOK[name]
    triples = []
    for edge in edges.split():
        ends, _, size = edge.partition(":")
        source, _, target = ends.partition("-")
        triples.append((int(source) - 1, int(target) - 1, float(size)))
    table = [[float(cost) for cost in row.split()] for row in costs.split(",")]
    names = [f"T{i + 1}" for i in range(len(table))]
    processors = [f"P{i + 1}" for i in range(len(table[0]))]
    return Problem.from_arrays(table, triples, operator_names=names, device_names=processors, name=name)
