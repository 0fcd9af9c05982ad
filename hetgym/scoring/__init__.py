"""Scores of programs that write schedulers: untrusted code runs in a limited process, its schedules are judged here."""

from hetgym.scoring.fresh import fresh_problems
from hetgym.scoring.limits import Limits
from hetgym.scoring.program import Answer, Program
from hetgym.scoring.score import REFERENCE, score

__all__ = ["REFERENCE", "Answer", "Limits", "Program", "fresh_problems", "score"]
