"""Benchmarks: every scheduler on every problem of a suite, as tables, files and a report."""

from hetgym._lazy import lazy

__all__ = ["Job", "Line", "Outcome", "Progress", "Result", "Row", "RunFolder", "Sink", "execute", "run", "summarise"]

__getattr__ = lazy(
    "hetgym.bench",
    {
        "hetgym.bench.folder": ("RunFolder",),
        "hetgym.bench.job": ("Job", "Outcome", "execute"),
        "hetgym.bench.rows": ("Row",),
        "hetgym.bench.runner": ("Progress", "Result", "run"),
        "hetgym.bench.sink": ("Sink",),
        "hetgym.bench.summary": ("Line", "summarise"),
    },
)
