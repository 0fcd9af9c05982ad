"""Addresses that cannot be joined: an error of one line each. A file of its own, as other tests stay connected."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")
pytest.importorskip("tensorboard")

from hetgym.cli import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ray", "127.0.0.1:1"], "no Ray cluster at '127.0.0.1:1' can be joined: Connection refused"),
        (["--ray", "nowhere"], "a Ray cluster's address is 'local', 'auto' or the host:port of its head"),
        (["--workers", "2"], "--workers needs --ray"),
    ],
)
def test_bad_addresses_are_one_line(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hetgym", "train", "ppo-schedule", "--out", str(tmp_path), *words])
    with pytest.raises(SystemExit) as end:
        main()
    out, errors = capsys.readouterr()
    assert (end.value.code, out) == (2, "") and said in errors and errors.count("\n") == 1
    assert not list(tmp_path.iterdir())
