"""A small profile of this machine, which tests of several commands read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli.commands import run


@pytest.fixture(scope="session")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which ``hetgym profile mine`` has run."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("profile")
    words = "--designs relu,gemm --share 0.05 --networks 1 --models squeezenet --passes 1 --cores"
    done = run("profile", "mine", *words.split(), str(min(os.sched_getaffinity(0))), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "measurements/mine.csv.gz" in done.stdout
    return folder
