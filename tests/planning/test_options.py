"""Options of schedulers are checked by the annotations of their functions."""

from __future__ import annotations

import pytest

from hetgym import ConfigError
from hetgym.planning.options import check_options, read_options


def scheduler(problem: object, size: int = 1, share: float | None = None) -> None:
    """Only its parameters matter."""


@pytest.mark.parametrize("evaluated", [False, True])
def test_annotations_count_whether_or_not_a_module_evaluates_them(evaluated: bool) -> None:
    kinds = {"size": int, "share": float | None} if evaluated else {"size": "int", "share": "float | None"}
    scheduler.__annotations__ = kinds
    assert read_options("mine", scheduler, ["share=none", "size=3"]) == {"size": 3, "share": None}
    assert read_options("mine", scheduler, ["share=0.5"]) == {"share": 0.5}
    with pytest.raises(ConfigError, match="size is 1.5; it must be a whole number"):
        check_options("mine", scheduler, {"size": 1.5})
    with pytest.raises(ConfigError, match="share is 'x'; it must be a finite number or None"):
        read_options("mine", scheduler, ["share=x"])
