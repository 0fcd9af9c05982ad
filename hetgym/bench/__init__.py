"""Benchmarks: every scheduler on every problem of a suite, as tables, files and a report."""

from hetgym._lazy import lazy

__all__ = [
    "Job", "Line", "Outcome", "Progress", "Result", "Row", "RunFolder", "Sink", "execute", "load_best_schedule",
    "on_ray", "run", "summarise",
]  # fmt: skip

__getattr__ = lazy(
    "hetgym.bench",
    {
        "hetgym.bench.best_schedules": ("load_best_schedule",),
        "hetgym.bench.folder": ("RunFolder",),
        "hetgym.bench.job": ("Job", "Outcome", "execute"),
        "hetgym.bench.ray_executor": ("on_ray",),
        "hetgym.bench.rows": ("Row",),
        "hetgym.bench.runner": ("Progress", "Result", "run"),
        "hetgym.bench.sink": ("Sink",),
        "hetgym.bench.summary": ("Line", "summarise"),
    },
)
