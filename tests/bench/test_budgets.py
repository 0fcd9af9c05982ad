from __future__ import annotations

import pytest

from hetgym._input.times import parse_time
from hetgym.bench.budgets import BUDGETS, fitting, parse_budgets
from hetgym.errors import ConfigError


def test_times_and_budgets() -> None:
    assert [parse_time(text) for text in ("1ms", "2.5 s", "500us", "15min", "2h")] == [1e-3, 2.5, 5e-4, 900.0, 7200.0]
    assert parse_budgets(" 1s, 10ms,1ms,10ms ") == (0.001, 0.01, 1.0)


@pytest.mark.parametrize("text", ["", "ten", "10", "0s", "-1s", "1 day", "1e3s", "9999h"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a positive number with a unit"):
        parse_time(text)


def test_no_budgets() -> None:
    with pytest.raises(ConfigError, match="no budget is given"):
        parse_budgets(" , ")


def test_the_longest_budgets_are_left_out_until_the_rest_fits() -> None:
    plan = fitting(BUDGETS, 900.0, searches=8, problems=60)
    assert plan.budgets == BUDGETS[:8] and plan.left_out == (5.0, 10.0)
    assert plan.most_s == pytest.approx(8 * 60 * 1.668) and plan.whole_s == pytest.approx(8 * 60 * 16.668)
    assert fitting(BUDGETS, 900.0, searches=8, problems=3).left_out == ()


def test_exact_solvers_take_the_longest_budget_alone() -> None:
    assert fitting((1.0, 10.0), 100.0, searches=0, problems=5, exact=2).most_s == 100.0
    assert fitting((1.0, 10.0), 99.0, searches=0, problems=5, exact=2).budgets == (1.0,)


def test_without_searches_there_is_nothing_to_wait_for() -> None:
    assert fitting(BUDGETS, 1.0, searches=0, problems=60).budgets == ()


def test_a_limit_that_nothing_fits_into() -> None:
    with pytest.raises(ConfigError, match="10 s for each search on each of 60 problems is 20 min, more than the limit"):
        fitting((10.0,), 900.0, searches=2, problems=60)
