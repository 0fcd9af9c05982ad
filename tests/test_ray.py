"""Clusters that cannot be worked on are refused in a sentence, at once; without ``--ray`` Ray stays out of it."""

from __future__ import annotations

import ipaddress
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hetgym import _ray
from hetgym.cli.app import _with_values
from hetgym.errors import ClusterError, MissingExtra


def test_a_missing_ray_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(MissingExtra, match=r'working on a cluster needs ray: pip install "hetgym\[ray\]"'),
        _ray.connect(),
    ):
        pass


@pytest.mark.slow
def test_a_local_cluster_is_not_reached_from_elsewhere() -> None:
    pytest.importorskip("ray")
    psutil = pytest.importorskip("psutil")
    with _ray.connect() as ray:
        this = psutil.Process()
        listeners = [
            ipaddress.ip_address(connection.laddr.ip)
            for process in (this, *this.children(recursive=True))
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert [node["NodeManagerAddress"] for node in ray.nodes()] == ["127.0.0.1"]
    assert len(listeners) >= 4  # head, scheduler, object store, driver
    for address in listeners:
        assert (getattr(address, "ipv4_mapped", None) or address).is_loopback, f"a listener on {address}"


@pytest.mark.slow
def test_sigterm_stays_what_it_was() -> None:
    pytest.importorskip("ray")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _ray.connect(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_without_ray_asked_for_none_is_imported(tmp_path: Path) -> None:
    code = """
import sys
sys.argv = ["hetgym", "bench", "--suite", "quick", "--schedulers", "heft", "--json"]
from hetgym.cli import main
try:
    main()
finally:
    print("RAY", "ray" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.endswith("RAY False\n")


@pytest.mark.parametrize("address", ["cluster", "ray://head:10001", "head:", ":6379", "head:66666", "head:\u00b2"])
def test_what_is_no_address_of_a_head(address: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ClusterError, match="'local', 'auto' or the host:port of its head"), _ray.connect(address):
        pass


def test_nobody_there_is_known_at_once() -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ClusterError, match="no Ray cluster at .* Connection refused"), _ray.connect(address):
            pass


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("bench --ray", "bench --ray=local"),
        ("bench --ray --json", "bench --ray=local --json"),
        ("bench --ray auto --json", "bench --ray auto --json"),
        ("bench --ray=head:6379", "bench --ray=head:6379"),
        ("plan x", "plan x"),
        ("", ""),
    ],
)
def test_the_address_may_be_left_out(words: str, read: str) -> None:
    assert _with_values(words.split()) == read.split()
