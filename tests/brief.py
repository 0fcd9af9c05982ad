"""Schedulers for tests that run all of them on many small problems, which do not need the budgets of large ones."""

from __future__ import annotations

import inspect

from hetgym.baselines import get
from hetgym.planning import Baseline


def brief(name: str, budget: int = 20_000) -> Baseline:
    """A scheduler; a search has a budget that all its phases take part of, and the solver has one thread."""
    row = get(name)
    if row.kind == "exact":
        return get(name, workers=1)
    searches = row.kind in ("search", "policy") and "budget" in inspect.signature(row.function).parameters
    return get(name, budget=budget) if searches else row
