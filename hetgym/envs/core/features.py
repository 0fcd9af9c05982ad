"""Feature columns: one enum for each table gives number, name, unit and meaning to kernels, agents and docs."""

from __future__ import annotations

from enum import IntEnum

from hetgym.graph.dataflow import Feature


class Column(IntEnum):
    """A column of a feature table; subclasses list the columns of one table in order.

    A member is the number of its column, in Python and in kernels: ``table[row, DeviceColumn.BUSY]``. Columns are
    numbered from 0 in the order of their definition.

    >>> class Example(Column):
    ...     COST = "s", "run time"
    ...     IS_LAST = "-", "1 if nothing follows"
    >>> int(Example.IS_LAST), Example.IS_LAST.label, Example.IS_LAST.unit
    (1, 'is_last', '-')
    """

    unit: str  # of the values
    meaning: str  # of the values, in a few words

    def __new__(cls, unit: str, meaning: str) -> Column:
        """Number the column after those before it."""
        member = int.__new__(cls, len(cls.__members__))
        member._value_ = len(cls.__members__)
        member.unit, member.meaning = unit, meaning
        return member

    @property
    def label(self) -> str:
        """Name of the column in tables."""
        return self.name.lower()


def features_of(columns: type[Column]) -> tuple[Feature, ...]:
    """The table of an enum of columns."""
    return tuple(Feature(column.label, column.unit, column.meaning) for column in columns)


def feature_table(features: tuple[Feature, ...]) -> str:
    """A feature table as plain text without markup, for docstrings and ``--help`` pages."""
    width = max(len(f.name) for f in features)
    unit = max(len(f.unit) for f in features)
    return "\n".join(f"{k:>2}  {f.name:<{width}}  {f.unit:<{unit}}  {f.meaning}" for k, f in enumerate(features))
