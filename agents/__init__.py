"""Agents: decision makers for environments, and functions to play, train and load them.

An agent is any function from an observation and an info to an action. :func:`play` runs one through an environment;
:func:`as_scheduler` turns it into a scheduler, which can be compared with the heuristics. A :class:`Policy` is a
trained agent that can also plan; :func:`load` loads a shipped one by name, or any other from its file. :func:`rule`
gives a rule made by hand in the same form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy
from hetgym.agents import trainers  # noqa: F401  enters hetgym's algorithms into the table

if TYPE_CHECKING:
    from hetgym.agents.algorithms import ALGORITHMS as ALGORITHMS
    from hetgym.agents.algorithms import Algorithm as Algorithm
    from hetgym.agents.audit import Audit as Audit
    from hetgym.agents.audit import audit as audit
    from hetgym.agents.candidates import CandidatePolicy as CandidatePolicy
    from hetgym.agents.checkpoint import Checkpoint as Checkpoint
    from hetgym.agents.clusters import ClusterPlanner as ClusterPlanner
    from hetgym.agents.cuts import CutPlanner as CutPlanner
    from hetgym.agents.hub import write_hub_folder as write_hub_folder
    from hetgym.agents.lists.dispatcher import ListDispatcher as ListDispatcher
    from hetgym.agents.lists.planner import ListPlanner as ListPlanner
    from hetgym.agents.network_policy import NetworkPolicy as NetworkPolicy
    from hetgym.agents.place.planner import PlacePlanner as PlacePlanner
    from hetgym.agents.play import Agent as Agent
    from hetgym.agents.play import Policy as Policy
    from hetgym.agents.play import Result as Result
    from hetgym.agents.play import as_scheduler as as_scheduler
    from hetgym.agents.play import play as play
    from hetgym.agents.play import trained_for as trained_for
    from hetgym.agents.pretrained import load as load
    from hetgym.agents.pretrained import names as names
    from hetgym.agents.recipe import Recipe as Recipe
    from hetgym.agents.recipe import load_recipe as load_recipe
    from hetgym.agents.reference import greedy as greedy
    from hetgym.agents.reference import in_turn as in_turn
    from hetgym.agents.reference import uniform as uniform
    from hetgym.agents.regions.planner import RegionPlanner as RegionPlanner
    from hetgym.agents.rules import RULES as RULES
    from hetgym.agents.rules import rule as rule
    from hetgym.agents.run import TrainingRun as TrainingRun
    from hetgym.agents.splits.planner import SplitPlanner as SplitPlanner

lazy(__name__)
