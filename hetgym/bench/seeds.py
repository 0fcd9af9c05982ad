"""Several runs of a recipe that differ in their seed: their evaluations as means with intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hetgym.bench.significance import mean_intervals
from hetgym.errors import ConfigError, shown

MOST = 1000
"""Most seeds of one command."""


def seeds_of(text: str) -> list[int]:
    """Seeds from words such as ``0-4`` or ``1,5,8-9``, in their order.

    Raises:
        ConfigError: another word, a seed that occurs twice, or more than :data:`MOST`.

    >>> seeds_of("7,0-2")
    [7, 0, 1, 2]
    """
    found: list[int] = []
    for word in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", word)
        if ends is None:
            raise ConfigError(f"seeds are {shown(text)}; write numbers and ranges, such as 0-4 or 1,5,8-9")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first or last - first >= MOST or len(found) > MOST:
            raise ConfigError(f"seeds are {shown(text)}; a range goes upwards, and there are at most {MOST} seeds")
        found += range(first, last + 1)
    if len(set(found)) < len(found):
        raise ConfigError(f"seeds are {shown(text)}; one of them occurs twice")
    return found


def over_seeds(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Evaluations of runs that differ in their seed alone, as JSON values.

    Args:
        results: of each run, as :meth:`~hetgym.agents.run.TrainingRun.results` gives them.

    Returns:
        The seeds; ``history``, for each step at which all runs were evaluated the ``mean`` of every value over the
        runs, with ``low`` and ``high``, the ends of a 95 % bootstrap interval over the seeds (None for one run);
        ``beaten``, for each baseline of the recipe's ``must_beat`` whether its mean ratio ends below 1; and the runs'
        files.
    """
    runs = [{entry["step"]: entry for entry in run["history"]} for run in results]
    steps = sorted(set.intersection(*(set(run) for run in runs)))
    names = [name for name in results[0]["final"] if name == "return" or name.startswith("ratio_")]
    history: list[dict[str, Any]] = []
    for step in steps:
        found = mean_intervals([[run[step][name] for run in runs] for name in names], np.random.default_rng(0))
        history.append({"step": step} | {name: vars(each) for name, each in zip(names, found, strict=True)})
    last = history[-1]
    return {
        "format": "hetgym-training-seeds",
        "version": 1,
        "seeds": [run["recipe"]["seed"] for run in results],
        "history": history,
        "beaten": {name: last[f"ratio_{name}"]["mean"] < 1.0 for name in results[0]["beaten"]},
        "files": [run["files"]["results"] for run in results],
    }
