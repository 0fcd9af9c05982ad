"""The split policy that searches, and its files."""

from __future__ import annotations

import io
import json
import signal
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
from proposal_tools import weights

import hetgym
from hetgym import simulate, validate
from hetgym._progress import Progress
from hetgym.agents.splits.moves import FEATURES
from hetgym.agents.splits.planner import FILES, SplitPlanner
from hetgym.agents.splits.search import SplitSearch
from hetgym.baselines import eop, get, greedy_split
from hetgym.envs.split.networks import RandomNetworks
from hetgym.errors import ArtefactError, ConfigError
from hetgym.graph.transforms import fuse

ARGUMENTS = {"fused": True, "parts": ["equal", "sixteenths"], "divisible": False, "key_operators": 20}


@pytest.fixture(scope="module")
def planner() -> SplitPlanner:
    return SplitPlanner(weights(len(FEATURES)), {"name": "mine", "recipe": {"arguments": ARGUMENTS}})


@pytest.fixture(scope="module")
def pair():
    return RandomNetworks()(np.random.default_rng(21))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["classic", "links"])
def test_plans_are_valid_and_never_longer_than_without_splits(planner, pair, how):
    plan = planner.plan(*pair, splits=80, runtime=how)
    validate(plan.problem, plan.schedule)
    assert simulate(plan.problem, plan.schedule, how).makespan == plan.makespan
    whole = hetgym.Problem.build(fuse(pair[0]).graph, pair[1])
    assert plan.makespan <= simulate(whole, get("heft")(whole), how).makespan
    assert plan.makespan <= min(eop(*pair, runtime=how).makespan, greedy_split(*pair, runtime=how).makespan)
    assert plan.schedule.scheduler in ("mine+heft", "mine+eop", "mine+greedy-split+heft")
    assert len(plan.graph) > len(whole.operator_names)


def test_an_episode_has_the_makespan_of_the_plan(planner, pair):
    env = gym.make("HetSplit-v0", graph=pair[0], platform=pair[1], **planner.arguments)
    found = hetgym.agents.play(env, planner, seed=0)
    plan = planner.plan(*pair)
    assert plan.schedule.scheduler == "mine+heft" and found.info["makespan"] == plan.makespan
    assert found.info["illegal_actions"] == 0


def test_budgets(planner, pair):
    plans = [planner.plan(*pair, splits=count) for count in (1, 60, 60)]
    assert plans[0].makespan > plans[1].makespan == plans[2].makespan
    whole = hetgym.Problem.build(fuse(pair[0]).graph, pair[1])
    starts = get("heft")(whole).makespan, eop(*pair).makespan, greedy_split(*pair).makespan
    assert plans[0].makespan == min(starts)  # nothing beside the starts is priced
    quick = eop(*pair, sweeps=0).makespan  # what a budget of time begins with does not depend on the time
    assert planner.plan(*pair, "200ms").makespan <= min(starts[0], quick)
    for wrong in ({"splits": -1}, {"splits": 1.5}, {"budget": "soon"}, {"budget": 0.0}):
        with pytest.raises(ConfigError):
            planner.plan(*pair, **wrong)


@pytest.mark.parametrize("where", ["search", "eop", "greedy"])
def test_an_interrupt_ends_the_search_which_returns_its_best(planner, pair, monkeypatch, where):
    place, name, most = {
        "search": (SplitSearch, "advance", 3),
        "eop": (sys.modules["hetgym.baselines.eop"], "_tuned", 1),
        "greedy": (sys.modules["hetgym.baselines.tensor_partition"], "_splits", 1),
    }[where]
    usual, calls = getattr(place, name), []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == most:
            signal.raise_signal(signal.SIGINT)
        return usual(*arguments)

    monkeypatch.setattr(place, name, interrupted)
    plan = planner.plan(*pair)
    assert len(calls) == most or where == "greedy"  # which still looks for other splits, and prices none
    validate(plan.problem, plan.schedule)
    whole = hetgym.Problem.build(fuse(pair[0]).graph, pair[1])
    assert plan.makespan <= get("heft")(whole).makespan
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Heard(Progress):
    """Waits after each change of ``now`` until a line tells of it, so that no phase is too short for one."""

    @property
    def now(self) -> str:
        return self._now

    @now.setter
    def now(self, phase: str) -> None:
        self._now, limit = phase, time.monotonic() + 100
        while self._thread_runs() and phase not in sys.stderr.getvalue() and time.monotonic() < limit:
            time.sleep(1e-4)

    def _thread_runs(self) -> bool:
        return hasattr(self, "_thread") and self._thread.is_alive()


def test_a_plan_that_takes_long_says_so(planner, pair, monkeypatch):
    monkeypatch.setattr("hetgym._progress.PATIENCE", 1e-4)
    monkeypatch.setattr("hetgym._progress.EVERY", 1e-4)
    monkeypatch.setattr("hetgym.agents.splits.planner.Progress", Heard)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    planner.plan(*pair, splits=200)
    said = sys.stderr.getvalue()
    assert all(line.startswith("hetgym: mine: ") for line in said.splitlines())
    phases = ("pricing the splits of", "splitting as EOP does", "splitting greedily", "of 200 plans priced, the best ")
    places = [said.find(phase) for phase in phases]
    assert -1 not in places and places == sorted(places)


def test_refuses_what_it_does_not_know(planner, pair):
    with pytest.raises(ConfigError, match="scheduler"):
        planner.plan(*pair, schedulers="heft")
    with pytest.raises(ConfigError, match="memory"):
        planner.plan(*pair, memory="mask")
    with pytest.raises(ConfigError, match="HetSplit-v0"):
        hetgym.agents.play(gym.make("HetPipeline-v0"), planner, seed=0)


def test_files_give_the_policy_back(tmp_path, pair):
    FILES.save(tmp_path / "p", weights(len(FEATURES)), {"name": "mine", "recipe": {"arguments": ARGUMENTS}})
    found = FILES.load(tmp_path / "p")
    assert found.card["name"] == "mine" and found.arguments == ARGUMENTS
    loaded = hetgym.agents.load(tmp_path / "p.safetensors")
    assert loaded.plan(*pair, splits=40).makespan == found.plan(*pair, splits=40).makespan


def test_refuses_other_weights(tmp_path):
    for wrong in (
        {name: array for name, array in weights(len(FEATURES)).items() if name != "enter.bias"},
        weights(len(FEATURES)) | {"enter.weight": np.zeros((4, 3), np.float32)},
        weights(len(FEATURES)) | {"enter.bias": np.full(4, np.nan, np.float32)},
    ):
        with pytest.raises(ArtefactError, match="split policy"):
            FILES.save(tmp_path / "p", wrong, {})
    FILES.save(tmp_path / "p", weights(len(FEATURES)), {})
    card = json.loads((tmp_path / "p.json").read_text())
    (tmp_path / "p.json").write_text(json.dumps(card | {"format": "hetgym-region-policy"}))
    with pytest.raises(ArtefactError):
        FILES.load(tmp_path / "p")
