from __future__ import annotations

import inspect

import pytest

import hetgym.envs
from hetgym.envs.core.manual import complete


@pytest.mark.parametrize("name", [name for name in hetgym.envs.__all__ if name.endswith("Env")])
def test_manuals_hold_the_parts_that_they_share(name: str) -> None:
    text = inspect.getdoc(getattr(hetgym.envs, name)) or ""
    assert "<<" not in text
    for part in ('``info["illegal_actions"]``', "    pool_plays: ", "    split: name of a set", "    render_mode: "):
        assert text.count(part) == 1


def test_parts_take_the_margin_of_their_line() -> None:
    text = complete("First.\n\n    <<pool>>\n")
    assert text.startswith("First.\n\n    pool: number of generated problems")
    assert "\n        as fast" in text
    assert "platform: a Platform" in complete("<<problem>>")  # parts within parts


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        complete("<<nothing>>")
