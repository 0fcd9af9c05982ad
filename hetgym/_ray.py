"""Connections to Ray clusters: join or start one without output, and leave it as it was."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from hetgym.errors import ClusterError, require

LOCAL = "local"  # Address that starts a new Ray cluster on this machine; the cluster ends with the connection

RETRIES = 3  # Number of times that a task is run again whose process or node was lost

_PACKAGES = ("hetgym", "numpy", "numba")
"""Packages whose versions must agree on all nodes; Ray itself compares its own version and Python's."""

_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": "3"}
"""Ray's settings, unless the environment sets them: by default Ray retries a task that runs out of memory for ever."""

_TIMEOUT = 120.0  # Time for every node of a Ray cluster to start a process and import hetgym [s]


class OnRay:
    """The common part of executors on a cluster.

    Args:
        ray: the module, connected.
        work: the function that a task runs.
    """

    def __init__(self, ray: ModuleType, work: Callable[..., Any]) -> None:
        self.ray = ray
        self.task = ray.remote(num_cpus=1, max_retries=RETRIES)(work)

    @property
    def description(self) -> str:
        """The size of the cluster, for messages."""
        return describe(self.ray)


@contextmanager
def connect(address: str = LOCAL) -> Iterator[ModuleType]:
    """Connect to a Ray cluster for the duration of a ``with`` statement.

    If this process is already connected to a cluster, that connection is used and kept, whatever the address.

    Args:
        address: ``"local"`` starts a Ray cluster of this machine's cores, which no other machine can reach; ``"auto"``
            joins the cluster that runs on this machine, ``"host:port"`` one elsewhere.

    Yields:
        The module ``ray``. Ray's messages are kept off the terminal; its exceptions reach the caller.

    Raises:
        MissingExtra: Ray is not installed.
        ClusterError: no cluster answers at the address, or versions on its nodes differ from those of this process.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    ray = require("ray", "ray", "working on a cluster")
    if ray.is_initialized():
        yield ray
        return
    if address not in (LOCAL, "auto"):
        _knock(address)
    with _quiet(ray), _loopback(ray, address == LOCAL or _hidden(ray, address)):
        try:
            own = {"include_dashboard": False} if address == LOCAL else {}
            with _own_sigterm():
                ray.init(address, logging_level=logging.CRITICAL, log_to_driver=False, **own)
        except (OSError, RuntimeError, ValueError) as error:
            tokens = address in (LOCAL, "auto") or "RAY_AUTH_MODE" in os.environ
            hint = "" if tokens else "; if it wants a token, set RAY_AUTH_MODE=token"
            raise ClusterError(f"no Ray cluster at {address!r} can be joined: {last_line(error)}{hint}") from error
        try:
            _check_nodes(ray)
            yield ray
        finally:
            ray.shutdown()


def describe(ray: ModuleType) -> str:
    """The size of the cluster in one clause, for messages."""
    counts = {"core": cores(ray), "node": len(_nodes(ray))}
    return "Ray, " + " on ".join(f"{count} {noun}{'s' * (count != 1)}" for noun, count in counts.items())


def cores(ray: ModuleType) -> int:
    """Number of processor cores that the cluster gives to tasks."""
    return int(ray.cluster_resources().get("CPU", 0))


def _knock(address: str) -> None:
    """ClusterError if nothing listens at an address, or none can be there; Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in address or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ClusterError(f"a Ray cluster's address is 'local', 'auto' or the host:port of its head, not {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except OSError as error:
        raise ClusterError(f"no Ray cluster at {address!r} can be joined: {error.strerror or error}") from error


def _hidden(ray: ModuleType, address: str) -> bool:
    """Whether a cluster listens on the loopback interface only; Ray would look for it at a network interface."""
    host, _, port = address.rpartition(":")
    if host not in ("127.0.0.1", "localhost", "[::1]"):
        return False
    try:
        socket.create_connection((ray.util.get_node_ip_address(), int(port)), timeout=5.0).close()
    except OSError:
        return True
    return False


@contextmanager
def _quiet(ray: ModuleType) -> Iterator[None]:
    """Keep Ray's messages off stdout, where results go: Ray's driver reports every lost process there."""
    worker = getattr(getattr(ray, "_private", None), "worker", None)
    name = "_worker_logs_enabled"
    before = getattr(worker, name, None)
    if before is not None:
        setattr(worker, name, False)
    try:
        yield
    finally:
        if before is not None:
            setattr(worker, name, before)


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep what SIGTERM does to this process: Ray would end it with code 15, past what the command makes of it."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():  # elsewhere Ray changes nothing
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _loopback(ray: ModuleType, local: bool) -> Iterator[None]:
    """Use the loopback interface: a ``local`` cluster listens there only, as who reaches a cluster runs code.

    Ray replaces a loopback address by that of a network interface. On macOS and Windows it uses the loopback
    interface by default; the switch behind that default is read on import and works on Linux too.
    """
    constants = getattr(getattr(ray, "_private", None), "ray_constants", None)
    name = "ENABLE_RAY_CLUSTER"
    before = getattr(constants, name, None)
    if local and before is not None:
        setattr(constants, name, False)
    try:
        yield
    finally:
        if local and before is not None:
            setattr(constants, name, before)


def _check_nodes(ray: ModuleType) -> None:
    """Import hetgym on every node; ClusterError if one cannot, or has other versions."""
    here = _versions()
    pin = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    task = ray.remote(_versions)
    asked = {
        node["NodeManagerAddress"]: task.options(scheduling_strategy=pin(node["NodeID"], soft=False)).remote()
        for node in _nodes(ray)
    }
    if not asked:
        raise ClusterError("the Ray cluster has no node with a processor core to work on")
    for node, answer in asked.items():
        try:
            there = ray.get(answer, timeout=_TIMEOUT)
        except Exception as error:  # an import can fail with any type
            why = f"node {node} of the Ray cluster cannot import hetgym ({last_line(error)})"
            raise ClusterError(f"{why}; install there what is installed here") from error
        for package, version in here.items():
            if there[package] != version:
                words = f"node {node} of the Ray cluster has {package} {there[package]}, this process {version}"
                raise ClusterError(f"{words}; results may differ, so install the same version")


def _nodes(ray: ModuleType) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]


def _versions() -> dict[str, str]:
    return {name: str(import_module(name).__version__) for name in _PACKAGES}


def last_line(error: BaseException) -> str:
    """The last line of an error's message, which in Ray's errors names the cause; its type if the message is empty."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
