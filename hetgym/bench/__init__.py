"""Benchmarks: every scheduler on every problem of a suite; run, analyse, report. Independent of any terminal.

Run: ``case``, ``attempt``, ``executor`` (``ray_executor``, ``wire``), ``warming``, ``loop``, ``runner``, ``pareto``,
``job``. Analyse: ``rows``, ``summary``, ``comparison``, ``significance``, ``ranks``, ``profiles``, ``groups``,
``fronts``, ``evaluation``, ``budgets``. Search for problems: ``adversarial``. Report: ``sink``, ``folder``,
``best_schedules``, ``report``, ``encode``, ``pareto_files``, ``pareto_picture``, ``paper``, ``paper_pictures``,
``typeset``, ``plan``, ``formats``.
"""

from hetgym._lazy import lazy

__all__ = [
    "Adversary", "Comparison", "Evaluation", "Job", "Line", "Measured", "Outcome", "Point", "Profile", "Progress",
    "Ranking", "Result", "Row", "RunFolder", "Sink", "adversary", "against", "choices", "compare",
    "critical_difference", "draw_boxes", "draw_profiles", "draw_ranks", "execute", "friedman", "front", "grouped",
    "holm", "load_best_schedule", "mean_intervals", "measure", "on_ray", "points", "profiles", "rankings", "run",
    "summarise", "warm_up", "with_gaps",
]  # fmt: skip

__getattr__ = lazy(
    "hetgym.bench",
    {
        "hetgym.bench.adversarial": ("Adversary", "adversary"),
        "hetgym.bench.best_schedules": ("load_best_schedule",),
        "hetgym.bench.comparison": ("against",),
        "hetgym.bench.evaluation": ("Evaluation",),
        "hetgym.bench.folder": ("RunFolder",),
        "hetgym.bench.fronts": ("Point", "choices", "front", "points"),
        "hetgym.bench.groups": ("grouped",),
        "hetgym.bench.job": ("Job", "Outcome", "execute"),
        "hetgym.bench.paper_pictures": ("draw_boxes", "draw_profiles", "draw_ranks"),
        "hetgym.bench.profiles": ("Profile", "profiles"),
        "hetgym.bench.ranks": ("Ranking", "critical_difference", "friedman", "holm", "rankings"),
        "hetgym.bench.pareto": ("Measured", "measure", "with_gaps"),
        "hetgym.bench.ray_executor": ("on_ray",),
        "hetgym.bench.rows": ("Row",),
        "hetgym.bench.loop": ("Progress",),
        "hetgym.bench.runner": ("Result", "run"),
        "hetgym.bench.significance": ("Comparison", "compare", "mean_intervals"),
        "hetgym.bench.sink": ("Sink",),
        "hetgym.bench.summary": ("Line", "summarise"),
        "hetgym.bench.warming": ("warm_up",),
    },
)
