"""Agents: what decides in an environment, and how to let it.

An agent is any function from an observation and an info to an action. :func:`play` runs one through
an environment; :func:`as_scheduler` makes a scheduler of it, so that it stands in the same tables as
the heuristics. :func:`load` gives a pretrained policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy
from hetgym.agents.play import Agent, Result, as_scheduler, play
from hetgym.agents.reference import greedy, uniform

if TYPE_CHECKING:
    from hetgym.agents.candidates import CandidatePolicy
    from hetgym.agents.place.planner import PlacePlanner
    from hetgym.agents.pretrained import load, names

_HOME = {
    "hetgym.agents.candidates": ("CandidatePolicy",),
    "hetgym.agents.place.planner": ("PlacePlanner",),
    "hetgym.agents.pretrained": ("load", "names"),
}

__all__ = [
    "Agent",
    "CandidatePolicy",
    "PlacePlanner",
    "Result",
    "as_scheduler",
    "greedy",
    "load",
    "names",
    "play",
    "uniform",
]

__getattr__ = lazy(__name__, _HOME)
