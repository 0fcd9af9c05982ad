"""``hetgym train --ray`` ends with the weights of the local run, whatever happens to its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_tools import place_labelling

ray = pytest.importorskip("ray")
pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")
pytest.importorskip("torch_geometric")
pytest.importorskip("tensorboard")

from hetgym._input.config import read  # noqa: E402
from hetgym.agents.distributed.crew import Crew, RayCluster, join  # noqa: E402
from hetgym.agents.recipe import Recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402
from hetgym.errors import ClusterError, ConfigError  # noqa: E402

RECIPES: dict[str, dict[str, Any]] = {
    "maskable-ppo": {
        "algorithm": "maskable-ppo",
        "env": "HetSchedule-v0",
        "arguments": {"observation": "candidates", "generator": {"operators": [5, 8], "devices": 3}},
        "lanes": 5,
        "steps": 480,
        "checkpoint_every": 160,
        "network": {"hidden": 8, "embedding": 8, "layers": 1},
        "settings": {"n_steps": 16, "batch_size": 40, "n_epochs": 2, "learning_rate": 3e-3, "anneal_lr": True},
        "evaluation": {"every": 160, "episodes": 4, "baselines": ["reference"]},
    },
    "place-labelling": place_labelling(6),
}
COMMAND = [sys.executable, "-W", "error", "-c", "from hetgym.cli import main; main()", "train"]


def recipe(name: str, **changes: Any) -> Recipe:
    found: Recipe = read(Recipe, {**RECIPES[name], **changes}, "here")
    return found


def policy(folder: Path) -> bytes:
    return (folder / "policy.safetensors").read_bytes()


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with join(workers=2) as cluster:
        yield cluster


class Stop(Exception):
    pass


def stopped(name: str, folder: Path, at: int, cluster: RayCluster | None) -> None:
    """Begin a run that stops early."""

    def watch(step: int, judged: dict[str, float] | None) -> None:
        if step > at:
            raise Stop

    with pytest.raises(Stop):
        TrainingRun(recipe(name), folder, watch=watch, cluster=cluster).train()


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_killed_workers_change_nothing(
    name: str, cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``kill -9`` in the midst of roll-outs, between calls and during one, of one worker and of all."""
    TrainingRun(recipe(name), tmp_path / "local").train()
    TrainingRun(recipe(name), tmp_path / "ray", cluster=cluster).train()
    assert policy(tmp_path / "ray") == policy(tmp_path / "local")
    killed: list[int] = []

    def kill(crew: Crew, all_of_them: bool) -> None:
        for process in crew.processes()[None if all_of_them else 1 :]:
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    method = "all" if name == "maskable-ppo" else "each"
    call, calls = getattr(Crew, method), 0

    def disturbed(self: Crew, of: str, tasks: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (3, 30):
            kill(self, all_of_them=calls == 30)
        if calls == 5:
            thread = threading.Thread(target=kill, args=(self, True))
            thread.start()
        found = call(self, of, tasks)
        if calls == 5:
            thread.join()
        return found

    monkeypatch.setattr(Crew, method, disturbed)
    TrainingRun(recipe(name), tmp_path / "killed", cluster=cluster).train()
    assert len(killed) == len(set(killed)) == (5 if name == "maskable-ppo" else 3)
    assert not any(Path(f"/proc/{process}/environ").exists() for process in killed)
    assert policy(tmp_path / "killed") == policy(tmp_path / "local")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "at"), [("maskable-ppo", 160), ("place-labelling", 2)])
def test_a_run_changes_places(name: str, at: int, cluster: RayCluster, tmp_path: Path) -> None:
    TrainingRun(recipe(name), tmp_path / "local").train()
    for first, then, folder in ((None, cluster, tmp_path / "out"), (cluster, None, tmp_path / "home")):
        stopped(name, folder, at, first)
        run = TrainingRun(recipe(name), folder, cluster=then)
        assert run.checkpoint is not None and run.checkpoint.step == at
        run.train()
        assert policy(folder) == policy(tmp_path / "local")


@pytest.mark.slow
def test_what_the_environment_refuses_is_said_as_in_a_local_run(cluster: RayCluster, tmp_path: Path) -> None:
    from hetgym.agents.distributed.lanes import RayLanes

    with pytest.raises(
        ConfigError, match="^HetSchedule-v0 got an unexpected keyword argument 'observatoin'; did you mean"
    ):
        RayLanes(RayCluster(cluster.ray, 1), recipe("maskable-ppo", arguments={"observatoin": "graph"}))
    with pytest.raises(ClusterError, match=r"has \d+ cores, too few for 1000 workers"), join(workers=1000):
        pass


def workers_of(process: int) -> list[int]:
    """Ray's workers among the descendants of a process."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
    found = []
    for number, name in names.items():
        above = number
        while above > 1 and above != process:
            above = parents.get(above, 0)
        if above == process and name.startswith(b"ray::_Worker"):
            found.append(number)
    return sorted(found)


@pytest.mark.slow
def test_the_command_goes_on_when_a_worker_is_killed_and_stops_at_a_signal(tmp_path: Path) -> None:
    """On a Ray cluster of its own: a worker is killed, the run is interrupted, and finished without Ray."""
    evaluation = {**RECIPES["maskable-ppo"]["evaluation"], "every": 3_200}
    changes = {"steps": 6_400, "checkpoint_every": 400, "evaluation": evaluation}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump({**RECIPES["maskable-ppo"], **changes}))
    words = ["r.yaml", "--out", "."]
    env = {**os.environ, "COLUMNS": "200"}
    run = subprocess.Popen(
        [*COMMAND, *words, "--name", "x", "--ray", "--workers", "2"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    kept = tmp_path / "x" / "checkpoint.safetensors"
    killed = 0
    for stage in ("kill", "interrupt"):
        before = kept.stat().st_mtime_ns if kept.exists() else 0
        while run.poll() is None and (not kept.exists() or kept.stat().st_mtime_ns == before):
            time.sleep(0.05)
        if stage == "kill":
            there = workers_of(run.pid)
            assert len(there) == 2
            killed = there[0]
            os.kill(killed, signal.SIGKILL)
            time.sleep(3.0)
    after = workers_of(run.pid)
    assert len(after) == 2 and killed not in after
    run.send_signal(signal.SIGTERM)
    out, said = run.communicate(timeout=300)
    assert (run.returncode, out) == (130, "")
    told = "compiling kernels once", "x: beginning ("
    lines = [line for line in said.splitlines() if not any(words in line for words in told)]
    assert lines[0].endswith("on 1 node: 2 workers")
    assert all("steps/s" in line for line in lines[1:-1]), said
    assert lines[-1] == "interrupted: the same command resumes from the last checkpoint"
    for name in ("x", "whole"):
        done = subprocess.run([*COMMAND, *words, "--name", name, "--json"], cwd=tmp_path, env=env, capture_output=True)
        assert done.returncode == 0
    assert policy(tmp_path / "x") == policy(tmp_path / "whole")
