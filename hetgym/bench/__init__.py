"""Benchmarks: every scheduler on every problem of a suite; run, analyse, report. Independent of any terminal.

Run: ``case``, ``attempt``, ``executor`` (``ray_executor``, ``wire``), ``warming``, ``loop``, ``runner``, ``pareto``,
``job``. Analyse: ``rows``, ``summary``, ``comparison``, ``significance``, ``groups``, ``fronts``, ``evaluation``.
Search for problems: ``adversarial``. Report: ``folder``, ``report``, ``encode``, ``pareto_files``, ``pareto_picture``,
``plan``, ``formats``.
"""

from hetgym._lazy import lazy

__all__ = [
    "Adversary", "Comparison", "Evaluation", "Job", "Line", "Measured", "Outcome", "Point", "Progress", "Result", "Row",
    "RunFolder", "Sink", "adversary", "against", "choices", "compare", "execute", "front", "grouped",
    "load_best_schedule", "mean_intervals", "measure", "on_ray", "points", "run", "summarise", "warm_up", "with_gaps",
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
