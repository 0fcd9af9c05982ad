"""hetgym's own schedulers: the tables of agents and baselines, and the portfolio, which runs several of them.

Everything is data: a function is named, and imported when it is first used.
"""

from hetgym.agents.table import ROWS as POLICIES
from hetgym.baselines.table import ROWS as BASELINES
from hetgym.planning.baseline import Baseline

PORTFOLIO = Baseline(
    "portfolio",
    "search",
    "hetgym.portfolio:portfolio",
    "hetgym: what it knows, one after the other",
    "O(trials (e + n)), less where trials end early",
)

ROWS: tuple[Baseline, ...] = (*BASELINES, *POLICIES, PORTFOLIO)  # A row for each scheduler

FILES = {".safetensors": "hetgym.agents.schedulers:of_file"}
"""Ending of the names that are paths -> function that makes a row of such a file."""
