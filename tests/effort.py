"""How many examples a property gets: few in the suite of every day, many in ``.ci/slow``."""

from __future__ import annotations

from hypothesis import settings

USUAL = 50
"""Examples that a property would get if there were no profiles; counts of single properties are relative to it."""


def examples(count: int) -> settings:
    """Settings of a property with its own number of examples, scaled as the profile scales those of others."""
    return settings(max_examples=-(-count * settings().max_examples // USUAL))
