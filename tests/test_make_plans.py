"""The corpus of plans: files give the problems and plans back, and an interrupted call goes on."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetgym

SCRIPTS = Path(__file__).parents[1] / "scripts"


def make(folder: Path, *options: str) -> list[str]:
    command = [sys.executable, str(SCRIPTS / "make_plans.py"), str(folder), "--workers", "1", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout.split()


@pytest.mark.slow
def test_plans_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    plans: Any = import_module("make_plans")
    made = [Path(name) for name in make(tmp_path, "--count", "4", "--each", "2")]
    assert [path.name for path in made] == ["plans-0000000.npz", "plans-0000002.npz"]
    for path in made:
        with np.load(path, allow_pickle=False) as file:
            makespans, references = file["makespan"], file["reference"]
        assert (makespans <= references).all() and (makespans < references).any()
        for makespan, (problem, runtime, schedule) in zip(makespans, plans.read(path), strict=True):
            assert hetgym.validate(problem, schedule)
            assert hetgym.simulate(problem, schedule, runtime).makespan == pytest.approx(makespan, rel=1e-12)
    first = made[0].read_bytes()
    made[0].unlink()
    assert make(tmp_path, "--count", "4", "--each", "2") == [str(made[0])]
    assert made[0].read_bytes() == first
