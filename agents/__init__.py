"""Agents: decision makers for environments, and functions to play, train and load them.

An agent is any function from an observation and an info to an action. :func:`play` runs one through an environment;
:func:`as_scheduler` turns it into a scheduler, which can be compared with the heuristics. A :class:`Policy` is a
trained agent that can also plan; :func:`load` loads a shipped one by name, or any other from its file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy
from hetgym.agents import trainers  # noqa: F401  enters hetgym's algorithms into the table

if TYPE_CHECKING:
    from hetgym.agents.algorithms import ALGORITHMS, Algorithm
    from hetgym.agents.candidates import CandidatePolicy
    from hetgym.agents.checkpoint import Checkpoint
    from hetgym.agents.clusters import ClusterPlanner
    from hetgym.agents.cuts import CutPlanner
    from hetgym.agents.hub import write_hub_folder
    from hetgym.agents.network_policy import NetworkPolicy
    from hetgym.agents.place.planner import PlacePlanner
    from hetgym.agents.play import Agent, Policy, Result, as_scheduler, play, trained_for
    from hetgym.agents.pretrained import load, names
    from hetgym.agents.recipe import Recipe, load_recipe
    from hetgym.agents.reference import greedy, uniform
    from hetgym.agents.regions.planner import RegionPlanner
    from hetgym.agents.run import TrainingRun
    from hetgym.agents.splits.planner import SplitPlanner

_HOME = {
    "hetgym.agents.algorithms": ("ALGORITHMS", "Algorithm"),
    "hetgym.agents.candidates": ("CandidatePolicy",),
    "hetgym.agents.checkpoint": ("Checkpoint",),
    "hetgym.agents.clusters": ("ClusterPlanner",),
    "hetgym.agents.cuts": ("CutPlanner",),
    "hetgym.agents.hub": ("write_hub_folder",),
    "hetgym.agents.network_policy": ("NetworkPolicy",),
    "hetgym.agents.place.planner": ("PlacePlanner",),
    "hetgym.agents.play": ("Agent", "Policy", "Result", "as_scheduler", "play", "trained_for"),
    "hetgym.agents.pretrained": ("load", "names"),
    "hetgym.agents.recipe": ("Recipe", "load_recipe"),
    "hetgym.agents.reference": ("greedy", "uniform"),
    "hetgym.agents.regions.planner": ("RegionPlanner",),
    "hetgym.agents.run": ("TrainingRun",),
    "hetgym.agents.splits.planner": ("SplitPlanner",),
}

__all__ = [
    "ALGORITHMS",
    "Agent",
    "Algorithm",
    "CandidatePolicy",
    "Checkpoint",
    "ClusterPlanner",
    "CutPlanner",
    "NetworkPolicy",
    "PlacePlanner",
    "Policy",
    "Recipe",
    "RegionPlanner",
    "Result",
    "SplitPlanner",
    "TrainingRun",
    "as_scheduler",
    "greedy",
    "load",
    "load_recipe",
    "names",
    "play",
    "trained_for",
    "uniform",
    "write_hub_folder",
]

__getattr__ = lazy(__name__, _HOME)
