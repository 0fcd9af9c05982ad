"""Paragraphs that the manuals of several environments share; a line ``<<name>>`` of a docstring stands for one."""

from __future__ import annotations

import re
from textwrap import indent

PARTS = {
    "machine": """\
A deep-learning model is a graph of operators; a machine is a set of devices that run them at different speeds, with
links of finite speed between them.""",
    "illegal actions": """\
An illegal action is replaced by a legal one drawn at random, see ``illegal``; ``info["illegal_actions"]`` counts them.
The mask comes as ``obs["action_mask"]`` (int8), ``info["action_mask"]`` and :meth:`action_masks` (bool).""",
    "graph rows": """\
| ``costs`` | [N, D] | run time of each operator on each device; 10 where it cannot run |
| ``edges`` | [2, E] | source and target of each edge |
| ``edge_transfer`` | [E] | mean transfer time of each edge |
| ``links`` | [D, D] | time of an average transfer from device to device |""",
    "narrow": """\
``observation="candidates"`` shows ``candidates``, ``devices`` and ``action_mask``; ``"flat"`` the same as one
vector.""",
    "problem sources": """\
Problems come from one of ``problem`` (a Problem, a path, or a list), ``graph`` and ``platform`` (objects, names or
paths, or lists), ``suite`` (a name or path) or ``generator`` (a family's name or ``callable(rng) -> Problem``). If none
is given, they are a mix of random graphs of 30 to 80 operators on 4 devices.""",
    "problem": """\
problem: a Problem, a path, or a list of these.
<<graph>>
suite: name or path of a suite.
generator: name of a family of random graphs, or ``callable(rng) -> Problem``, which needs the ``max_*`` arguments.
<<pool>>
batch: batch size of graphs given by name; by default the one that a model file fixes, else 1.
costs: cost model of graphs on platforms, or its name.""",
    "graph": """\
graph: a DataflowGraph, a zoo name or a path, or a list of these; needs ``platform``.
platform: a Platform, a preset's name or a path, or a list of these; needs ``graph``.""",
    "pool": """\
pool: number of generated problems from which episodes draw; an episode on one that was drawn before begins many times
    as fast. By default 256 in vector environments, shared out among the lanes, and None in scalar ones: a new problem
    for every episode. The first episode after a reset with a seed has a new problem, too; its seed, the lane and the
    split decide which ones follow.
pool_plays: how many times a problem of the pool is played on average before a new one replaces it: 16 by default, 200
    in HetSplit-v0; None keeps them all.""",
    "common": """\
reward: ``"dense"`` or ``"sparse"``.
<<levels>>""",
    "levels": """\
observation: ``"graph"``, ``"candidates"`` or ``"flat"``.
illegal: replacement of an illegal action: ``"random"``, a legal one drawn at random; ``"worst"`` or ``"eft"``, the
    legal one of the latest or of the earliest estimated finish; or ``"raise"``, an
    :class:`~hetgym.errors.IllegalAction`. The last ``info`` has ``illegal_share``.
split: name of a set of problems, such as ``"train"`` or ``"test"``: generated problems of different splits differ,
    whatever the seeds. None, the default, is a set of its own.""",
    "end": """\
Raises:
    ConfigError, UnknownName: an invalid argument; the message says which ones are valid.
    ProblemError: a problem that exceeds the padding.

## Version history
- v0: first release.""",
    "render mode": """\
render_mode: ``"ansi"`` (text), ``"rgb_array"`` (a Gantt chart) or ``"human"`` (the text, printed after each step).""",
    "padding": """\
max_operators, max_edges, max_devices: padding; by default what the source needs.""",
}
"""Name -> paragraph; a paragraph may contain others."""


def complete(text: str) -> str:
    """A docstring whose lines ``<<name>>`` are replaced, at their own indentation.

    >>> complete("    <<padding>>")
    '    max_operators, max_edges, max_devices: padding; by default what the source needs.'
    """
    return re.sub(r"^( *)<<([\w ]+)>>$", lambda found: indent(complete(PARTS[found[2]]), found[1]), text, flags=re.M)
