"""Recipes: read whole or refused in a sentence, without PyTorch."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from hetgym._input.config import read
from hetgym.agents.algorithms import ALGORITHMS
from hetgym.agents.recipe import Recipe, load_recipe, names
from hetgym.errors import ConfigError, UnknownName
from hetgym.workloads import RandomMix
from hetgym.workloads.job_shops import JobShops

LEAST: dict[str, Any] = {"algorithm": "ppo", "env": "HetSchedule-v0", "steps": 10}


def made(**changes: Any) -> Recipe:
    return read(Recipe, LEAST | changes, "mine.yaml")


def shortened(recipe: Recipe) -> Recipe:
    """The recipe with two problems in each part of its curricula; the others are drawn in the same way."""

    def few(arguments: Mapping[str, Any]) -> dict[str, Any]:
        parts = [{**part, "count": min(part["count"], 2)} for part in arguments.get("curriculum", ())]
        return {**arguments, "curriculum": parts} if parts else dict(arguments)

    evaluation = dataclasses.replace(recipe.evaluation, arguments=few(recipe.evaluation.arguments))
    return dataclasses.replace(recipe, arguments=few(recipe.arguments), evaluation=evaluation)


@pytest.mark.parametrize("name", names())
def test_shipped_recipes_are_whole(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.description and recipe.evaluation.must_beat
    assert read(Recipe, recipe.document(), "again") == load_recipe(name, settings=recipe.document()["settings"])
    for evaluation in (False, True):
        gym.make_vec(recipe.env, num_envs=1, **shortened(recipe).environment(evaluation)).close()


def test_there_is_a_recipe_for_each_environment_and_algorithm() -> None:
    recipes = [load_recipe(name) for name in names()]
    assert {r.env for r in recipes} >= {
        "HetSchedule-v0",
        "HetDispatch-v0",
        "HetSplit-v0",
        "HetPipeline-v0",
        "HetImprove-v0",
    }
    assert {r.algorithm for r in recipes} == set(ALGORITHMS)


def test_changes_take_the_place_of_fields() -> None:
    assert load_recipe("ppo-schedule", steps=7, seed=3).seed == 3
    with pytest.raises(ConfigError, match="steps is 0"):
        load_recipe("ppo-schedule", steps=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lane": 3}, "mine.yaml: unknown key 'lane'; did you mean 'lanes'"),
        ({"lanes": 0}, "mine.yaml: lanes is 0; it must be at least 1"),
        ({"algorithm": "pppo"}, "unknown algorithm 'pppo'; did you mean"),
        ({"env": "HetSchedul-v0"}, "did you mean 'HetSchedule-v0'"),
        ({"settings": {"learn_rate": 1}}, "unknown key 'learn_rate'; did you mean 'learning_rate'"),
        ({"settings": {"gamma": 1.5}}, "gamma is 1.5"),
        ({"settings": {"batch_size": "many"}}, "settings: batch_size is 'many', expected a number"),
        ({"network": {"hiden": 3}}, "mine.yaml: network: unknown key 'hiden'; did you mean 'hidden'"),
        ({"network": {"layers": -1}}, "layers is -1"),
        ({"network": {"embedding": 0}}, "embedding is 0"),
        ({"evaluation": {"must_beat": ["donf"]}}, "must_beat names 'donf'"),
        ({"evaluation": {"every": -1}}, "every is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"rule": {"completion": "much"}}, "rule"),
        ({"rule": {"completion": float("nan")}}, "rule.completion is nan"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, UnknownName), match=message):
        made(**changes)


def test_unknown_recipes_and_files(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'ppo-schedule'"):
        load_recipe("ppo-shedule")
    with pytest.raises(ConfigError, match="no such file"):
        load_recipe(tmp_path / "none.yaml")


def test_a_generator_may_be_the_fields_of_a_mix() -> None:
    recipe = made(arguments={"generator": {"operators": [5, 9], "devices": 2}, "max_devices": 3})
    found = recipe.environment()
    assert found["generator"] == RandomMix(operators=(5, 9), devices=2)
    assert (found["max_operators"], found["max_devices"]) == (9, 3)
    with pytest.raises(ConfigError, match="generator: unknown key 'device'; did you mean 'devices'"):
        made(arguments={"generator": {"device": 2}}).environment()
    shops = made(arguments={"generator": {"kind": "job-shops", "jobs": [4, 9], "machines": [2, 3]}}).environment()
    assert shops["generator"] == JobShops(jobs=(4, 9), machines=(2, 3))
    assert [shops[f"max_{size}"] for size in ("operators", "edges", "devices")] == [27, 18, 3]
    with pytest.raises(UnknownName, match="kind of generator 'job-shop'"):
        made(arguments={"generator": {"kind": "job-shop"}}).environment()


def test_problems_may_be_those_of_a_curriculum() -> None:
    parts = [{"kind": "random", "count": 2}, {"kind": "real", "count": 1, "arguments": {"most": 60}}]
    recipe = made(
        arguments={"curriculum": parts, "jobs": 2},
        env="HetDispatch-v0",
        evaluation={"arguments": {"curriculum": parts}},
    )
    problems = recipe.environment()["problem"]
    assert [p.num_operators >= 30 for p in problems[:2]] == [True, True] and "@" in problems[2].name
    assert [p.id for p in recipe.environment()["problem"]] == [p.id for p in problems]
    held_out = recipe.environment(evaluation=True)
    assert held_out["jobs"] == 2 and not {p.id for p in held_out["problem"]} & {p.id for p in problems}
    for wrong, message in (
        ({"kind": "real"}, "expected a list"),
        ([{"kind": "reel", "count": 1}], "random, .*, not 'reel'"),
    ):
        with pytest.raises(ConfigError, match=message):
            made(arguments={"curriculum": wrong}).environment()


def test_evaluation_may_have_other_problems() -> None:
    recipe = made(arguments={"generator": "layered", "runtime": "links"}, evaluation={"arguments": {"suite": "quick"}})
    assert recipe.environment() == {"generator": "layered", "runtime": "links", "split": "train"}
    assert recipe.environment(evaluation=True) == {"suite": "quick", "runtime": "links"}


def test_recipes_are_read_without_pytorch() -> None:
    code = (
        "import sys; from hetgym.cli.catalogue import entries; entries('recipes'); import hetgym.agents.sb3;"
        "assert not {'torch', 'stable_baselines3'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=300)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "move-outcomes", "start": "x.safetensors"}, "move-outcomes does not read start"),
        ({"algorithm": "place-labelling", "rule": {"cost": 1.0}}, "place-labelling does not read rule"),
        ({"algorithm": "split-outcomes", "env": "HetSplit-v0", "threads": 2}, "split-outcomes does not read threads"),
        ({"algorithm": "split-outcomes"}, "split-outcomes trains for HetSplit-v0, not for HetSchedule-v0"),
        ({"algorithm": "place-labelling", "env": "HetSplit-v0"}, "place-labelling trains for HetSchedule-v0"),
        ({"algorithm": "move-outcomes", "env": "HetDispatch-v0"}, "trains for HetSchedule-v0, not for HetDispatch-v0"),
    ],
)
def test_what_an_algorithm_cannot_do_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(**changes)
