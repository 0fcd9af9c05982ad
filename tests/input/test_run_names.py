from __future__ import annotations

import pytest

from hetgym._input.files import check_run_name
from hetgym.errors import ConfigError


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/abs", "a/"])
def test_a_run_name_is_one_word(name: str) -> None:
    with pytest.raises(ConfigError, match="a run's name must be a single word"):
        check_run_name(name)


def test_other_names_are_kept() -> None:
    assert check_run_name("first run.2") == "first run.2"
