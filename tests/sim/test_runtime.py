"""Runtime: presets, names, and what is refused."""

from __future__ import annotations

import dataclasses
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym import ConfigError, Problem, Runtime, Schedule, UnknownName, evaluate, simulate
from hetgym.planning import place_by_priority, ranks
from hetgym.sim import PRESETS, runtime
from hetgym.sim.kernel import keeps_order
from hetgym.sim.run import setting
from hetgym.sim.runtime import runtime_name


def test_presets() -> None:
    assert runtime("classic") == Runtime() == PRESETS["classic"]
    assert runtime("links") == Runtime(communication="fifo")


PROMISES = {
    "classic": ("is_classic", "plans_as_classic", "keeps_order"),
    "links": ("keeps_order",),
    "donf": ("keeps_order", "needs_clock"),
    "fair": ("keeps_order", "needs_clock"),
    "ready": ("plans_as_classic", "needs_clock"),
    "framework": ("needs_clock",),
}


@pytest.mark.parametrize("name", PRESETS)
def test_the_promises_of_presets(name: str) -> None:
    every = {word for words in PROMISES.values() for word in words}
    assert {word for word in every if getattr(PRESETS[name], word)} == set(PROMISES[name])


@given(switches=strategies.runtimes(communication="free", transfers="per_edge", dispatch=0.0), data=st.data())
def test_list_schedulers_place_as_under_classic_where_nothing_is_booked(switches: Runtime, data: st.DataObject) -> None:
    problem = data.draw(strategies.problems())
    assert switches.plans_as_classic
    rank = ranks.upward_rank(problem)
    placed = [place_by_priority(problem, rank, runtime=under).assignment for under in (Runtime(), switches)]
    assert placed[0].tolist() == placed[1].tolist()


@given(problem=strategies.machines(), switches=strategies.runtimes())
def test_kernels_know_who_keeps_the_order(problem: Problem, switches: Runtime) -> None:
    assert callable_step(keeps_order)(setting(problem, switches).switches) == switches.keeps_order
    assert setting(problem, switches).clock or not switches.needs_clock


def test_every_short_cut_asks_a_property() -> None:
    """Code that compares whole runtimes would miss a switch whose default is harmless."""
    root, asked = Path(__file__).parents[2], re.compile(r"[=!]= (PRESETS\[|Runtime\(\))")
    files = [f for room in ("hetgym", "agents", "baselines") for f in (root / room).rglob("*.py")]
    assert len(files) > 300
    assert [f.name for f in files if asked.search(f.read_text("utf-8"))] == ["runtime.py"]


@pytest.mark.parametrize("name", PRESETS)
def test_names_round_trip(name: str) -> None:
    assert runtime_name(runtime(name)) == name


def test_a_runtime_is_a_frozen_value() -> None:
    assert hash(Runtime()) == hash(Runtime())
    assert runtime(PRESETS["links"]) is PRESETS["links"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Runtime().communication = "fifo"  # type: ignore[misc]


def test_unknown_values_and_keys_are_refused() -> None:
    with pytest.raises(ConfigError, match="communication cannot be 'fife'; did you mean 'fifo'"):
        Runtime(communication="fife")
    with pytest.raises(TypeError, match="comunication"):
        Runtime(comunication="fifo")  # type: ignore[call-arg]


def test_unknown_preset() -> None:
    problem = Problem.from_arrays([[1.0]], [])
    with pytest.raises(UnknownName, match="unknown runtime 'clasic'; did you mean 'classic'"):
        simulate(problem, Schedule([0], order=[[0]]), "clasic")
    with pytest.raises(UnknownName, match="unknown runtime"):
        evaluate(problem, [[0]], "clasic")


def test_a_runtime_can_be_given_instead_of_a_name() -> None:
    problem = Problem.from_arrays([[1.0, 1.0]] * 3, [(0, 1, 2.0), (0, 2, 2.0)])
    schedule = Schedule([0, 1, 1], order=[[0], [1, 2]])
    by_value = simulate(problem, schedule, Runtime(communication="fifo"))
    assert by_value.runtime == "links"
    assert by_value.makespan == simulate(problem, schedule, "links").makespan == 6.0
    assert evaluate(problem, [[0, 1, 1]], Runtime(communication="fifo")).tolist() == [6.0]


@pytest.mark.parametrize(
    ("switch", "value", "message"),
    [
        ("communication", None, "communication cannot be None; known: endpoint, fair, fifo, free"),
        ("transfers", "push", "transfers cannot be 'push'"),
        ("memory", "on", "memory cannot be 'on'"),
        ("order", ["fixed"], r"order cannot be \['fixed'\]"),
        ("dispatch", -1e-6, "dispatch is -1e-06; it must be a finite number, not negative"),
        ("dispatch", float("inf"), "dispatch is inf"),
        ("dispatch", "5us", "dispatch is '5us'"),
        ("overlap", float("nan"), "overlap is nan"),
        ("overlap", True, "overlap is True"),
        ("noise", -0.1, "noise is -0.1"),
        ("noise", 11, "noise is 11.0; beyond 10 run times overflow"),
        ("streams", 0, "streams is 0; it must be a whole number of at least 1"),
        ("streams", 2.0, "streams is 2.0"),
        ("streams", True, "streams is True"),
        ("seed", -1, "seed is -1; it must be a whole number of at least 0"),
        ("seed", None, "seed is None"),
    ],
)
def test_bad_values_are_one_sentence(switch: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Runtime(**{switch: value})
    assert str(caught.value).startswith("runtime: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", [None, 3, {}, ["classic"]])
def test_what_is_not_a_name_is_unknown(source: Any) -> None:
    with pytest.raises(UnknownName, match="unknown runtime"):
        runtime(source)


@given(one=strategies.runtimes(), other=strategies.runtimes())
def test_text_tells_runtimes_apart(one: Runtime, other: Runtime) -> None:
    assert eval(repr(one)) == one  # the text is the constructor's call
    assert (repr(one) == repr(other)) == (runtime_name(one) == runtime_name(other)) == (one == other)
    assert pickle.loads(pickle.dumps(one)) == one


def test_numbers_of_numpy_become_plain_ones() -> None:
    given = Runtime(dispatch=np.float64(1e-6), streams=np.int64(2))  # type: ignore[arg-type]
    assert repr(given) == "Runtime(dispatch=1e-06, streams=2)"
    assert given == Runtime(dispatch=1e-6, streams=2)
    assert runtime_name(Runtime(dispatch=1)) == runtime_name(Runtime(dispatch=1.0)) == "dispatch=1.0"


def test_wildest_noise_stays_finite() -> None:
    problem = Problem.from_arrays([[0.0], [1.0]] * 50, [])
    assert np.isfinite(simulate(problem, Schedule([0] * 100, priority=[0.0] * 100), Runtime(noise=10)).finish).all()


@pytest.mark.parametrize("switch", [field.name for field in dataclasses.fields(Runtime)])
def test_an_odd_value_is_taken_or_refused_in_one_sentence(switch: str) -> None:
    refused = 0
    for value in ("x", -1, float("nan"), float("inf"), 10**400, [1], {}, object(), 1.5, None, True, b"x"):
        try:
            Runtime(**{switch: value})
        except ConfigError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused >= 10
