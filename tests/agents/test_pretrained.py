"""The shipped policies."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import hetgym
from hetgym import UnknownName, baselines
from hetgym.agents import RULES, pretrained, rule
from hetgym.agents.actions import COLUMNS
from hetgym.agents.artefact import NETWORK_FORMAT
from hetgym.agents.play import SCHEDULING
from hetgym.agents.recipe import load_recipe
from hetgym.agents.rules import FORMER
from hetgym.envs.core.kinds import IDS
from hetgym.errors import ConfigError, HetgymError, HetgymWarning
from hetgym.graph import load_graph
from hetgym.pipeline import RandomChains
from hetgym.platform import load_platform
from hetgym.workloads import RandomMix, textbook
from hetgym.workloads.job_shops import JobShops

CARDS = {name: pretrained.card(name) for name in pretrained.names()}
NAMES = [name for name, card in CARDS.items() if card["format"] != NETWORK_FORMAT]
NETWORKS = [name for name in CARDS if name not in NAMES]


def test_there_is_one_of_each_kind_of_decision_that_is_not_about_a_plan_at_hand():
    kinds = {policy.kind for policy in (*map(hetgym.agents.load, NAMES), *map(rule, RULES))}
    assert kinds == set(COLUMNS) - {"improve"}


@pytest.mark.parametrize("name", CARDS)
def test_a_policy_is_what_a_command_makes(name):
    """The recipe that its card names is the present one, apart from the seed."""
    card = CARDS[name]
    words = card["command"].split()
    assert (words[:2], words[3], card["step"] > 0) == (["hetgym", "train"], "--seed", True)
    assert json.loads(json.dumps(load_recipe(words[2], seed=int(words[4])).document())) == card["recipe"]
    assert card["core_seconds"] > 0
    assert {"versions", "evaluation"} <= set(card)
    files = [path for path in pretrained.FOLDER.iterdir() if path.stem == name]
    assert {path.suffix for path in files} == {".safetensors", ".json"}
    assert sum(path.stat().st_size for path in files) < 2_000_000


def test_former_names_are_rules():
    for former, name in FORMER.items():
        with pytest.warns(HetgymWarning, match=f"{former} is a rule: hetgym.agents.rule\\('{name}'\\)"):
            assert hetgym.agents.load(former) is rule(name)
        with pytest.raises(UnknownName, match="unknown rule"):
            rule(former)


KNOWN = {
    "dispatch": {"topcuoglu": 96.0, "arabnejad-barbosa": 129.0},
    "planned-dispatch": {"topcuoglu": 85.0, "arabnejad-barbosa": 125.0},
    "split": {"alexnet on even-pair": 0.028232439735508593, "squeezenet on core-pair": 0.05651730296615184},
}


@pytest.mark.parametrize("name", RULES)
def test_rules_plan_as_the_networks_that_began_as_them(name):
    assert {case: pretrained.replay(rule(name), case) for case in KNOWN[name]} == KNOWN[name]


@pytest.mark.parametrize("name", NAMES)
def test_plans_what_its_card_says(name):
    policy = hetgym.agents.load(name)
    assert set(policy.card["known"]) == set(pretrained.CASES[policy.kind])
    for case, makespan in policy.card["known"].items():
        assert pretrained.replay(policy, case) == makespan


def test_what_schedules_is_a_scheduler_of_its_name():
    """`hetgym bench --schedulers policy` plays all of them."""
    kinds = {environment: kind for kind, environment in IDS.items()}
    plan = [name for name, card in CARDS.items() if kinds[card["env"]] in SCHEDULING]
    assert set(plan) == {name for name in baselines.names("policy") if not name.endswith("-search")}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_method_of_the_field_plans(name):
    """Its schedule for the runtime asked for is one that the simulator accepts, and so is that of its scheduler."""
    pytest.importorskip("torch_geometric")
    assert CARDS[name]["core_seconds"] <= 600 and len(CARDS[name]["seeds"]) >= 3
    shop = "job" in CARDS[name]["recipe"]["arguments"].get("generator", {}).get("kind", "")
    problem = (JobShops((4, 4), (3, 3)) if shop else RandomMix(operators=(8, 10), devices=2))(np.random.default_rng(0))
    plan = hetgym.agents.load(name).plan(problem, runtime="classic" if shop else "links")
    hetgym.validate(problem, plan, memory=False)
    plan = baselines.get(name)(problem)
    hetgym.validate(problem, plan, memory=False)
    assert plan.scheduler == name


@pytest.mark.slow
def test_planning_needs_no_pytorch():
    """In one process, which is asked after each policy."""
    script = (
        f"import sys, hetgym\nfor name in {NAMES!r}:\n    policy = hetgym.agents.load(name)\n"
        "    hetgym.agents.pretrained.replay(policy, next(iter(policy.card['known'])))\n"
        "    assert not {'torch', 'torch_geometric', 'stable_baselines3'} & set(sys.modules), name\n    print(name)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, list(NAMES)), done.stderr


def test_beats_the_heuristics_on_problems_of_other_seeds():
    rng = np.random.default_rng(987)
    problems = [RandomMix()(rng) for _ in range(10)]
    plans = np.array([hetgym.agents.load("place-v1")(problem).makespan for problem in problems])
    for name in baselines.names("list"):
        assert plans.sum() < 0.98 * sum(baselines.get(name)(problem).makespan for problem in problems), name


@pytest.mark.parametrize("wrong", [3, None, [1], "nowhere.json", load_platform("cpu-gpu")], ids=str)
@pytest.mark.parametrize("name", [*NAMES, "cuts"])
def test_problems_that_are_none(name, wrong):
    policy = hetgym.agents.CutPlanner() if name == "cuts" else hetgym.agents.load(name)
    more = {"platform": load_platform("cpu-gpu")} if policy.kind == "split" else {}
    with pytest.raises(HetgymError, match="expected a|no such file|give both"):
        policy.plan(wrong, **more)
    other = textbook("topcuoglu") if policy.kind in ("split", "pipeline") else RandomChains()(np.random.default_rng(0))
    with pytest.raises(ConfigError, match="expected a hetgym"):
        policy.plan(other, **more)


def test_platforms_that_are_none():
    for policy in (hetgym.agents.rule("split"), hetgym.agents.load("split-v2")):
        for wrong in (None, 7):
            with pytest.raises(ConfigError, match=r"expected a hetgym\.Platform"):
                policy.plan(load_graph("alexnet"), wrong)


def test_unknown():
    with pytest.raises(UnknownName, match="place-v1"):
        hetgym.agents.load("place-v0")
