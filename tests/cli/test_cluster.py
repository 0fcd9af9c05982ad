"""``hetgym cluster`` as a user meets it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from cli.commands import ask

from hetgym._input.config import LARGEST_BATCH
from hetgym.baselines.parallel import PLANNERS
from hetgym.cli.cluster import plan_step
from hetgym.cli.exports import Exports
from hetgym.cli.options import Output
from hetgym.parallel import (
    FRAMEWORKS,
    SIZES,
    ParallelPlan,
    TrainingProblem,
    TransformerLayers,
    load_cluster,
    load_plan,
    training_step,
)
from hetgym.search.search import searching

CLUSTER = """
name: two-nodes
pools:
  - nodes: 2
    per_node: 4
    links: nvlink3
    device: {name: a100, kind: gpu, costs: gpu-gemm-bf16-a100, peak_flops: {float16: 312e12, bfloat16: 312e12},
             memory_bandwidth: 2039e9, memory_capacity: 80e9}
  - nodes: 1
    per_node: 4
    links: pcie3
    device: {name: v100, kind: gpu, peak_flops: {float32: 15.7e12, float16: 125e12}, memory_bandwidth: 900e9,
             memory_capacity: 32e9}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a cluster file and a planned step."""
    path = tmp_path_factory.mktemp("training")
    (path / "mine.yaml").write_text(CLUSTER)
    return path


TIGHT = ("cluster", "gpt-1.7b", "--platform", "tight.yaml", "--global-batch", "8")
WORDS = ("cluster", "gpt-1.7b", "--platform", "mine.yaml", "--global-batch", "32")


def test_a_step_is_planned_and_its_plan_can_be_read_back(folder: Path) -> None:
    done = ask(*WORDS, "--name", "one", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    plan = load_plan(folder / "results" / "one" / "plan.json")
    assert plan.to_dict() == document["plan"]
    cluster, framework = load_cluster(folder / "mine.yaml"), FRAMEWORKS["megatron"]
    step = training_step(plan, TransformerLayers(SIZES["gpt-1.7b"], cluster, framework), cluster, framework)
    assert step.seconds == document["step"]["seconds"]
    assert step.fits


def test_the_planner_chooses_switches_where_memory_needs_them(folder: Path) -> None:
    one = CLUSTER.replace("nodes: 2", "nodes: 1").replace("80e9", "7.8e9").replace("32e9", "1e8")
    (folder / "tight.yaml").write_text(one)
    done = ask(*TIGHT, "--name", "tight", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "chose ZeRO and sequence parallelism" in done.stderr
    plan = load_plan(folder / "results" / "tight" / "plan.json")
    assert plan.sequence and ", sequence parallelism\n" in done.stdout
    asked = ask(*WORDS, "--framework", "megatron,zero=any", "--name", "any", "--json", cwd=folder)
    assert asked.returncode == 0 and asked.stderr == ""
    free = json.loads(asked.stdout)
    assert free["plan"]["zero"] == free["step"]["zero"] and "sequence" not in free["plan"]
    fixed = json.loads(ask(*WORDS, "--name", "fixed", "--json", cwd=folder).stdout)
    assert free["step"]["seconds"] < fixed["step"]["seconds"]


def test_all_planners_side_by_side_and_what_limits_the_step(folder: Path) -> None:
    done = ask(*WORDS, "--planner", "all", "--name", "words", cwd=folder)
    assert done.returncode == 0, done.stderr
    for word in ("a step on", "tokens/s", "bubble", "limited by", "stage", "memory", "uniform-grid", "harp", "search"):
        assert word in done.stdout
    values = json.loads(ask(*WORDS, "--planner", "all", "--name", "all", "--json", cwd=folder).stdout)["planners"]
    assert values["search"] == min(values.values())


def test_the_peak_is_that_of_the_dtype_that_a_gpu_computes_in(folder: Path) -> None:
    """V100s have no bfloat16 and compute Llama in float32."""
    lines = CLUSTER.splitlines(keepends=True)
    (folder / "v100.yaml").write_text("".join([*lines[:3], *lines[8:]]))
    done = ask("cluster", "llama-7b", "--platform", "v100.yaml", *WORDS[4:], "--name", "v", "--json", cwd=folder)
    document = json.loads(done.stdout)
    step = document["step"]
    assert step["model_flops_utilisation"] == pytest.approx(step["flops_per_gpu"] / 15.7e12)


def test_help_states_the_range_of_global_batches(folder: Path) -> None:
    assert f"x<={LARGEST_BATCH}" in "".join(ask("cluster", "--help", cwd=folder).stdout.split())


def test_an_interrupt_shows_and_writes_the_best_plan_so_far(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(problem: TrainingProblem) -> ParallelPlan:
        plan = PLANNERS["uniform-grid"](problem)
        with searching() as stopped:
            signal.raise_signal(signal.SIGINT)
            assert stopped()
        if problem.global_batch == 16:
            raise KeyboardInterrupt
        return plan

    monkeypatch.chdir(folder)
    monkeypatch.setitem(PLANNERS, "search", interrupted)
    for batch, words in ((8, "the plan is the best"), (16, "before a plan was found")):
        path = Path(f"interrupted-{batch}")
        output, exports = Output(path, "one", False, False), Exports(())
        code = plan_step("gpt-1.7b", "mine.yaml", batch, "megatron", "search", "1f1b", output, exports)
        assert code == 130 and words in capsys.readouterr().err
        assert (path / "one" / "plan.json").exists() == (batch == 8)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cluster", "gpt-1.7", *WORDS[2:]), "did you mean 'gpt-1.7b'"),
        ((*WORDS, "--planner", "serch"), "did you mean 'search'"),
        ((*WORDS, "--framework", "megatrn"), "did you mean 'megatron'"),
        ((*WORDS, "--framework", "megatron,zeros=1"), "did you mean 'zero'"),
        ((*WORDS, "--framework", "megatron,zero=4"), "it must be 0, 1, 2 or 3"),
        ((*WORDS, "--framework", "megatron,sequence=maybe"), "it must be True or False"),
        ((*WORDS, "--batch", "3"), "No such option: --batch"),
        (("plan", "gpt2", "--platform", "mine.yaml"), "mine.yaml is a cluster; hetgym cluster plans training steps"),
        ((*WORDS, "--schedule", "1f1b,interleave"), "did you mean 'interleaved'"),
        (("cluster", "gpt-1.7b", "--platform", "mine.yaml"), "--global-batch"),
        (("cluster", "gpt-175b", *WORDS[2:]), "no plan fits in the memory"),
        ((*WORDS[:3], "nowhere.yaml", *WORDS[4:]), "nowhere.yaml"),
    ],
)
def test_bad_input_gets_one_clear_line(folder: Path, words: tuple[str, ...], message: str) -> None:
    done = ask(*words, "--name", "bad", cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
