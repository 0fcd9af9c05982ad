"""Arrays that would not fit into memory are refused before they are made."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym import ConfigError, ProblemError, _memory
from hetgym.errors import size
from hetgym.workloads import textbook


def test_the_message_has_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_memory, "available", lambda: 2e9)
    _memory.check_memory("a table", 2e9, "take less")
    with pytest.raises(ConfigError, match=r"^a table: 2.5 GB are needed, and 2 GB of memory are available; take less$"):
        _memory.check_memory("a table", 2.5e9, "take less")


def test_the_system_says_what_is_available() -> None:
    assert _memory.available() > 1e7


def test_a_problem_of_absurd_size() -> None:
    cost = np.broadcast_to(1.0, (2**40, 8))  # one number in memory; a table of its own would be 70 TB
    with pytest.raises(ProblemError, match=r"1099511627776 operators and 8 devices: 1.41e\+05 GB are needed"):
        hetgym.Problem.from_arrays(cost, [])


def test_observations_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    made = gym.make("HetSchedule-v0", problem=textbook("topcuoglu"), max_operators=1000).unwrapped
    needed = sum(array.nbytes for array in made.lanes.arrays.values())  # type: ignore[attr-defined]
    monkeypatch.setattr(_memory, "SMALL", 0.0)
    monkeypatch.setattr(_memory, "available", lambda: needed - 1.0)
    with pytest.raises(ConfigError, match=f"observations of 1 episode: {size(needed)} are needed"):
        gym.make("HetSchedule-v0", problem=textbook("topcuoglu"), max_operators=1000)


@pytest.mark.parametrize("name", ["gnn-v1", "place-v1"])
def test_networks_refuse_before_they_allocate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_memory, "SMALL", 0.0)
    monkeypatch.setattr(_memory, "available", lambda: 1e3)
    with pytest.raises(ConfigError, match="the network's inputs for 10 operators on 3 devices: 9.6 kB are needed"):
        hetgym.agents.load(name).plan(textbook("topcuoglu"))
