"""Benchmarks: every scheduler on every problem of a suite, as tables, files and a report."""

from hetgym._lazy import lazy

__all__ = [
    "Comparison", "Evaluation", "Job", "Line", "Measured", "Outcome", "Point", "Progress", "Result", "Row", "RunFolder",
    "Sink", "against", "choices", "compare", "execute", "front", "grouped", "load_best_schedule", "mean_intervals",
    "measure", "on_ray", "points", "run", "summarise", "with_gaps",
]  # fmt: skip

__getattr__ = lazy(
    "hetgym.bench",
    {
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
        "hetgym.bench.runner": ("Progress", "Result", "run"),
        "hetgym.bench.significance": ("Comparison", "compare", "mean_intervals"),
        "hetgym.bench.sink": ("Sink",),
        "hetgym.bench.summary": ("Line", "summarise"),
    },
)
