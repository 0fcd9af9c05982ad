"""Agents: what decides in an environment, and how to let it.

An agent is any function from an observation and an info to an action. :func:`play` runs one through
an environment; :func:`as_scheduler` makes a scheduler of it, so that it stands in the same tables as
the heuristics.
"""

from hetgym.agents.play import Agent, Result, as_scheduler, play
from hetgym.agents.reference import greedy, uniform

__all__ = ["Agent", "Result", "as_scheduler", "greedy", "play", "uniform"]
