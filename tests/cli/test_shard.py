"""``hetgym shard`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import ask

import hetgym
from hetgym.sharding import Mesh, build, evaluate
from tests.sharding.documents import document

WORDS = ("shard", "alexnet", "--batch", "16", "--mesh", "2x2", "--budget", "1s")


def test_the_plan_is_what_the_evaluator_says(tmp_path: Path) -> None:
    done = ask(*WORDS, "--memory", "10GB", "--optimizer", "sgd", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    sharded = build(hetgym.load_graph("alexnet", batch=16), Mesh((2, 2)), optimizer="sgd", memory=10e9)
    labels = found["strategies"]
    choice = [next(k for k, s in enumerate(node.strategies) if labels.get(node.name, s.label) == s.label)
              for node in sharded.nodes]  # fmt: skip
    report = evaluate(sharded.problem, choice)
    assert report.cost * 1e-9 == pytest.approx(found["seconds"])
    assert (report.peak, report.peak_time) == (found["peak_bytes"], found["peak_time"])
    assert sum(found["parts"].values()) == pytest.approx(found["seconds"])
    assert found["owners"] == sorted(found["owners"], key=lambda owner: -owner["bytes"])
    fitting = [plan["seconds"] for plan in found["classical"].values() if plan["fits"] and plan["seconds"]]
    assert found["seconds"] <= min(fitting)
    assert found["bound_s"] <= found["seconds"]


def test_meshes_side_by_side(tmp_path: Path) -> None:
    done = ask("shard", "alexnet", "--mesh", "auto:4", "--budget", "500ms", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("compute", "resharding", "reduction", "peak memory", "data-parallel", "megatron", " 4 ", "2x2"):
        assert word in done.stdout


def test_a_problem_of_the_contest(tmp_path: Path) -> None:
    (tmp_path / "example.json").write_text(json.dumps(document()))
    done = ask("shard", "example.json", "--budget", "1s", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["cost"], found["choice"], found["peak"]) == (445, [0, 0, 2, 1, 0], 50)
    assert "cost 445" in ask("shard", "example.json", "--budget", "1s", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("alexnet", "--mesh", "2xa"), "--mesh 2xa: expected ranks along each axis, as in 2x4, or auto:8"),
        (("alexnet", "--mesh", "0x2"), "--mesh 0x2: expected ranks"),
        (("alexnet", "--mesh", "auto:1"), "a mesh of 1 ranks has nothing to shard"),
        (("alexnet", "--mesh", "auto:4", "--links", "network"), "--links belongs to one mesh, not to auto"),
        (("alexnet", "--mesh", "2x2", "--links", "network"), "2 axes need one each"),
        (("alexnet", "--mesh", "2", "--links", "wifi"), "unknown link 'wifi'"),
        (("alexnet", "--mesh", "2", "--board", "A10000"), "A10000"),
        (("alexnet", "--mesh", "2", "--memory", "much"), "Invalid size 'much'"),
        (("alexnet", "--mesh", "2", "--memory", "1kB"), "every choice takes at least"),
        (("alexnet", "--mesh", "2", "--optimizer", "adm"), "did you mean 'adam'"),
        (("alexnet", "--mesh", "2", "--solver", "tree"), "did you mean 'trees'"),
        (("alexnet", "--mesh", "2", "--budget", "soon"), "invalid duration 'soon'"),
        (("alexnet", "--optimizer", "adam"), "--mesh is missing"),
        (("nothing.json",), "nothing.json: no such file"),
    ],
)
def test_mistakes(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = ask("shard", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
