"""Benchmarks: every scheduler on every problem of a suite; run, analyse, report. Independent of any terminal.

Run: ``case``, ``attempt``, ``executor`` (``ray_executor``, ``wire``), ``warming``, ``loop``, ``runner``, ``pareto``,
``job``. Analyse: ``rows``, ``summary``, ``comparison``, ``significance``, ``ranks``, ``profiles``, ``groups``,
``fronts``, ``evaluation``, ``budgets``. Search for problems: ``adversarial``. Report: ``sink``, ``folder``,
``best_schedules``, ``report``, ``encode``, ``pareto_files``, ``pareto_picture``, ``paper``, ``paper_pictures``,
``typeset``, ``plan``, ``formats``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.bench.adversarial import Adversary as Adversary
    from hetgym.bench.adversarial import adversary as adversary
    from hetgym.bench.best_schedules import load_best_schedule as load_best_schedule
    from hetgym.bench.comparison import against as against
    from hetgym.bench.evaluation import Evaluation as Evaluation
    from hetgym.bench.folder import RunFolder as RunFolder
    from hetgym.bench.fronts import Point as Point
    from hetgym.bench.fronts import choices as choices
    from hetgym.bench.fronts import front as front
    from hetgym.bench.fronts import points as points
    from hetgym.bench.groups import grouped as grouped
    from hetgym.bench.job import Job as Job
    from hetgym.bench.job import Outcome as Outcome
    from hetgym.bench.job import execute as execute
    from hetgym.bench.loop import Progress as Progress
    from hetgym.bench.paper_pictures import draw_boxes as draw_boxes
    from hetgym.bench.paper_pictures import draw_profiles as draw_profiles
    from hetgym.bench.paper_pictures import draw_ranks as draw_ranks
    from hetgym.bench.pareto import measure as measure
    from hetgym.bench.pareto import with_gaps as with_gaps
    from hetgym.bench.profiles import Profile as Profile
    from hetgym.bench.profiles import profiles as profiles
    from hetgym.bench.ranks import Ranking as Ranking
    from hetgym.bench.ranks import critical_difference as critical_difference
    from hetgym.bench.ranks import friedman as friedman
    from hetgym.bench.ranks import holm as holm
    from hetgym.bench.ranks import rankings as rankings
    from hetgym.bench.ray_executor import on_ray as on_ray
    from hetgym.bench.rows import Measured as Measured
    from hetgym.bench.rows import Row as Row
    from hetgym.bench.runner import Result as Result
    from hetgym.bench.runner import run as run
    from hetgym.bench.significance import Comparison as Comparison
    from hetgym.bench.significance import compare as compare
    from hetgym.bench.significance import mean_intervals as mean_intervals
    from hetgym.bench.sink import Sink as Sink
    from hetgym.bench.summary import Line as Line
    from hetgym.bench.summary import summarise as summarise
    from hetgym.bench.warming import warm_up as warm_up

lazy(__name__)
