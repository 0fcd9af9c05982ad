"""``hetgym check-agent``: one screen, JSON, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

from cli.commands import ask


def test_one_screen(tmp_path: Path) -> None:
    done = ask("check-agent", "place-v1", "--episodes", "4", cwd=tmp_path)
    assert done.returncode == 0 and "nothing makes these returns doubtful" in done.stdout
    assert all(word in done.stdout for word in ("agent", "random", "greedy:finish", "0% of them drawn in training"))
    assert len(done.stdout.splitlines()) <= 24


def test_findings_are_json_and_an_exit_code(tmp_path: Path) -> None:
    done = ask("check-agent", "dispatch", "--episodes", "2", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["env_id"] == "HetDispatch-v0" and found["scores"]["agent"]["illegal"] == 0.0
    assert done.returncode == (1 if found["findings"] else 0)


def test_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    done = ask("check-agent", "place-v9", cwd=tmp_path)
    assert done.returncode == 2 and "unknown policy 'place-v9'" in done.stderr
