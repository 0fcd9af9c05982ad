"""Tables of a run as CSV, with all digits, and as LaTeX, as a paper prints them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetgym._text import csv_text, duration, plain
from hetgym.bench.comparison import Against
from hetgym.bench.groups import GroupLine
from hetgym.bench.profiles import Profile
from hetgym.bench.ranks import Ranking
from hetgym.bench.summary import Line

FACTORS = (1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)  # Factors of the table of performance profiles

_TWO, _THREE = "{:.2f}".format, "{:.3f}".format  # numbers with so many digits

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "µ": r"$\mu$",
    "×": r"$\times$",
    "–": "--",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    key: str  # heading in CSV
    heading: str  # heading in LaTeX, as plain text
    show: Callable[[Any], str] = str  # formats a value for LaTeX; never sees None
    # the function that picks the value to set in bold, `min` or `max`; None sets none
    best: Callable[[Iterable[float]], float] | None = None


@dataclass(frozen=True)
class PaperTable:
    """A table to write as CSV and LaTeX."""

    name: str  # stem of its files
    caption: str  # one sentence, as plain text
    columns: tuple[Column, ...]  # its columns; the first is left-aligned
    rows: Sequence[Mapping[str, Any]] = ()  # one mapping from column keys to values for each row; None is an empty cell

    def to_csv(self) -> str:
        """The table as CSV with a header; numbers keep all their digits."""
        keys = [column.key for column in self.columns]
        return csv_text([keys, *([row[key] for key in keys] for row in self.rows)])

    def to_latex(self) -> str:
        """The table as a ``table`` environment, which needs the package booktabs."""
        words = [all(isinstance(row[c.key], str) for row in self.rows) for c in self.columns]
        lines = [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{escape(self.caption)}}}",
            rf"  \label{{tab:{self.name}}}",
            rf"  \begin{{tabular}}{{{''.join('l' if text else 'r' for text in words)}}}",
            r"    \toprule",
            "    " + " & ".join(escape(column.heading) for column in self.columns) + r" \\",
            r"    \midrule",
        ]
        best = {column.key: self._best(column) for column in self.columns}
        for row in self.rows:
            cells = []
            for column in self.columns:
                value = row[column.key]
                text = "--" if value is None else escape(column.show(value))
                bold = value is not None and best[column.key] is not None and text == best[column.key]
                cells.append(rf"\textbf{{{text}}}" if bold else text)
            lines.append("    " + " & ".join(cells) + r" \\")
        return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])

    def _best(self, column: Column) -> str | None:
        """The best value of a column as it is printed, so that what prints alike is bold alike."""
        values = [row[column.key] for row in self.rows if row[column.key] is not None]
        return escape(column.show(column.best(values))) if column.best and len(values) > 1 else None


def escape(text: str) -> str:
    r"""Escape plain text for LaTeX.

    >>> print(escape("50 % of a_b"))
    50 \% of a\_b
    """
    return "".join(_SPECIAL.get(sign, sign) for sign in plain(text))


def summary_tables(lines: Sequence[Line], title: str) -> list[PaperTable]:
    """The summary of each runtime."""
    columns = (
        Column("scheduler", "scheduler"), Column("kind", "kind"),
        Column("gap_to_best", "gap to best [%]", _percent, min),
        Column("gap_to_bound", "gap to bound [%]", _percent, min), Column("slr", "SLR", _THREE, min),
        Column("speedup", "speed-up", _TWO, max), Column("wins", "wins", str, max), Column("problems", "problems"),
        Column("failed", "failed"), Column("schedule_seconds", "time to schedule", duration),
    )  # fmt: skip
    caption = "Schedulers on {title} under the runtime {runtime}: means over problems, the smallest gap first."
    return [
        PaperTable(
            f"summary-{runtime}",
            caption.format(title=title, runtime=runtime),
            columns,
            [line.to_dict() for line in lines if line.runtime == runtime],
        )
        for runtime in dict.fromkeys(line.runtime for line in lines)
    ]


def against_tables(lines: Sequence[Against], title: str) -> list[PaperTable]:
    """The comparisons with the reference of each runtime, the smallest ratio first."""
    columns = (
        Column("scheduler", "scheduler"), Column("ratio", "ratio", _THREE, min), Column("low", "low", _THREE),
        Column("high", "high", _THREE), Column("better", "better"), Column("equal", "equal"), Column("worse", "worse"),
        Column("probability", "probability", _THREE),
    )  # fmt: skip
    able = sorted((line for line in lines if line.comparison), key=lambda line: line.to_dict()["ratio"])
    return [
        PaperTable(
            f"against-{mine[0].reference}-{runtime}",
            f"Makespans over those of {mine[0].reference} on the same problems of {title} under the runtime {runtime}: "
            "geometric mean with its 95 % bootstrap interval, and numbers of problems.",
            columns,
            [line.to_dict() for line in mine],
        )
        for runtime in dict.fromkeys(line.runtime for line in able)
        if (mine := [line for line in able if line.runtime == runtime])
    ]


def group_tables(lines: Sequence[GroupLine], title: str, ranking: Sequence[str]) -> list[PaperTable]:
    """Mean gaps to best, a table for each runtime and property, a column for each group."""
    tables = []
    for runtime in dict.fromkeys(line.runtime for line in lines):
        for by in dict.fromkeys(line.by for line in lines):
            mine = [line for line in lines if (line.by, line.runtime) == (by, runtime)]
            groups = list(dict.fromkeys(line.group for line in mine))
            gaps = {(line.scheduler, line.group): line.gap_to_best for line in mine}
            rows = [
                {"scheduler": name, **{group: gaps.get((name, group)) for group in groups}}
                for name in sorted({line.scheduler for line in mine}, key=_place(ranking))
            ]
            columns = (Column("scheduler", "scheduler"), *(Column(group, group, _percent, min) for group in groups))
            caption = f"Mean gaps to the best makespan [%] by {by} on {title} under the runtime {runtime}."
            tables.append(PaperTable(f"by-{by}-{runtime}", caption, columns, rows))
    return tables


def rank_tables(found: Sequence[Ranking], title: str) -> list[PaperTable]:
    """Mean ranks and tests of all pairs, two tables for each runtime."""
    tables = []
    for ranking in found:
        runtime = ranking.runtime
        where = f"{ranking.problems} problems of {title} under the runtime {runtime}"
        tables.append(
            PaperTable(
                f"ranks-{runtime}",
                f"Mean ranks on {where}. Friedman's test: chi-squared {ranking.statistic:.2f}, p = "
                f"{_probability(ranking.p_value)}; critical difference of Nemenyi's test at the level "
                f"{ranking.alpha:g}: {ranking.critical_difference:.2f}.",
                (Column("scheduler", "scheduler"), Column("mean_rank", "mean rank", _TWO, min)),
                [
                    {"scheduler": name, "mean_rank": value}
                    for name, value in zip(ranking.schedulers, ranking.mean_ranks, strict=True)
                ],
            )
        )
        columns = (
            Column("first", "first"),
            Column("second", "second"),
            Column("ratio", "ratio", _THREE),
            Column("p_value", "p", _probability),
            Column("adjusted", "p (Holm)", _probability),
        )
        caption = f"Wilcoxon's signed-rank tests of pairs of schedulers on {where}, two-sided, corrected by Holm."
        tables.append(PaperTable(f"pairs-{runtime}", caption, columns, [vars(pair) for pair in ranking.pairs]))
    return tables


def profile_tables(found: Sequence[Profile], title: str, ranking: Sequence[str]) -> list[PaperTable]:
    """Performance profiles at :data:`FACTORS`, a table for each runtime."""
    columns = (
        Column("scheduler", "scheduler"),
        *(Column(f"{factor:g}", f"{factor:g}", _TWO, max) for factor in FACTORS),
    )
    return [
        PaperTable(
            f"profiles-{runtime}",
            f"Share of the problems of {title} that a scheduler solves within a factor of the best makespan under the "
            f"runtime {runtime}.",
            columns,
            [
                {"scheduler": p.scheduler, **{f"{factor:g}": p.at(factor) for factor in FACTORS}}
                for p in sorted(found, key=lambda p: _place(ranking)(p.scheduler))
                if p.runtime == runtime
            ],
        )
        for runtime in dict.fromkeys(p.runtime for p in found)
    ]


def _place(ranking: Sequence[str]) -> Callable[[str], tuple[int, str]]:
    places = {name: place for place, name in enumerate(ranking)}
    return lambda name: (places.get(name, len(places)), name)


def _percent(value: float) -> str:
    return f"{100 * value:.2f}" if math.isfinite(value) else "–"


def _probability(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}" if value > 0 else "0"
