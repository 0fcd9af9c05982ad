"""``hetgym train`` as a user meets it; runs that train are tested with their trainers."""

from __future__ import annotations

from pathlib import Path

from cli.commands import ask, run


def test_train_refuses_in_one_line(tmp_path: Path) -> None:
    done = run("train", "maskable-ppo-shedule", cwd=tmp_path)
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert done.stderr.startswith("hetgym: error: unknown recipe 'maskable-ppo-shedule'; did you mean 'maskable-ppo-")
    assert done.stderr.count("\n") == 1


def test_workers_are_refused_before_a_cluster_starts(tmp_path: Path) -> None:
    done = ask("train", "split-v2", "--ray", "nowhere:1", cwd=tmp_path)
    assert done.returncode == 2 and "split-outcomes trains in one process, without --ray" in done.stderr
