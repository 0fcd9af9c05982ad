"""Plans of training steps: their rules, and their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetgym.errors import ConfigError, UnknownName
from hetgym.parallel import Group, ParallelPlan, Stage, load_plan, uniform

ONE = (Group("gpu"),)


def test_plans_survive_their_file(tmp_path: Path) -> None:
    plan = ParallelPlan((Stage(0, 3, (Group("a", 2),)), Stage(4, 8, (Group("b", 4),))), 2, 16, "gpipe")
    plan.save(tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json") == plan
    assert (plan.layers, plan.gpus, plan.replicas, plan.used()) == (9, 6, 1, {"a": 2, "b": 4})


def test_a_uniform_plan_gives_what_remains_to_the_first_stages() -> None:
    plan = uniform(10, 4, ONE * 2, 1, 8)
    assert [stage.last - stage.first + 1 for stage in plan.stages] == [3, 3, 2, 2]
    assert plan.micro_batches == 4


@pytest.mark.parametrize(
    ("stages", "batches", "words"),
    [
        ((), (1, 8), "no stages"),
        ((Stage(1, 2, ONE),), (1, 8), "begins at layer 1"),
        ((Stage(0, 1, ONE), Stage(3, 4, ONE)), (1, 8), "not at layer 2"),
        ((Stage(0, 1, ONE), Stage(2, 4, ONE * 2)), (1, 8), "2 replicas"),
        ((Stage(0, 1, ONE * 3),), (1, 8), "multiple of 3 replicas"),
        ((Stage(0, 1, ONE),), (0, 8), "micro_batch is 0"),
        ((Stage(0, 1, ONE),), (1, True), "global_batch is True"),
    ],
)
def test_bad_plans_are_refused(stages: tuple[Stage, ...], batches: tuple[int, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ParallelPlan(stages, *batches)


def test_pieces_of_an_interleaved_plan_lie_on_the_same_groups() -> None:
    a, b = (Group("a"),), (Group("b"),)
    stages = (Stage(0, 0, a), Stage(1, 1, b), Stage(2, 2, a), Stage(3, 3, b))
    plan = ParallelPlan(stages, 1, 4, "interleaved", 2)
    assert (plan.depth, plan.gpus) == (2, 2)
    with pytest.raises(ConfigError, match="chunks on equal groups"):
        ParallelPlan((*stages[:3], Stage(3, 3, a)), 1, 4, "interleaved", 2)
    with pytest.raises(ConfigError, match="one chunk a stage"):
        ParallelPlan(stages, 1, 4, "1f1b", 2)
    with pytest.raises(UnknownName, match="did you mean"):
        ParallelPlan(stages, 1, 4, "1f1")


@pytest.mark.parametrize(
    "text",
    ['{"format": "other", "stages": [], "micro_batch": 1, "global_batch": 1}', "[]", "{", '{"stages": 1}', '{"a": 1}'],
)
def test_files_that_hold_no_plan_are_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(ConfigError, match=r"plan\.json"):
        load_plan(tmp_path / "plan.json")


def test_chunks_of_a_group_count_its_gpus_once() -> None:
    pieces = tuple(Stage(k, k, (Group("b" if k % 2 else "a", 2),)) for k in range(4))
    plan = ParallelPlan(pieces, 1, 2, "interleaved", 2)
    assert (plan.gpus, plan.used(), plan.depth) == (4, {"a": 2, "b": 2}, 2)
