"""Clusters from YAML files."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hetgym._input.config import read
from hetgym._input.files import as_path
from hetgym._input.parts import part
from hetgym._input.yaml import load_yaml
from hetgym._text import plain
from hetgym.costs.collectives import LINKS
from hetgym.device import Device
from hetgym.errors import PlatformError, check_name
from hetgym.parallel.cluster import Cluster, Pool
from hetgym.parallel.network import Nccl

_PRESETS = part("configs") / "clusters"


@dataclass(frozen=True)
class _Pool:
    """A pool in a file."""

    device: Device
    nodes: int
    per_node: int
    links: str
    network: float | None = None


@dataclass(frozen=True)
class _Document:
    """A cluster file."""

    name: str
    pools: tuple[_Pool, ...]
    description: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)


def cluster_names() -> list[str]:
    """Names of the presets that :func:`load_cluster` knows.

    >>> "dgx-a100-64" in cluster_names()
    True
    """
    return sorted(file.stem for file in _PRESETS.glob("*.yaml"))


def load_cluster(cluster: str | Path) -> Cluster:
    """Load a preset by name, or a cluster from a YAML file.

    A pool has a ``device`` with the fields of :class:`~hetgym.device.Device`, numbers of ``nodes`` and of GPUs
    ``per_node``, and the generation of its ``links``, one of :data:`~hetgym.costs.collectives.LINKS`. ``network`` is
    the bytes a second that a GPU can send to other nodes, by default those of the generation.

    Args:
        cluster: one of :func:`cluster_names`, or a path that ends in ``.yaml`` or ``.yml``.

    Raises:
        UnknownName: no preset, or no generation of links, has that name.
        ConfigError: the file is missing, is not YAML, or has an unknown key or a value of the wrong type.
        PlatformError: the cluster is malformed.
    """
    file = as_path(cluster, "a cluster", PlatformError)
    if file.suffix not in (".yaml", ".yml"):
        check_name("cluster", str(cluster), cluster_names())
        file = _PRESETS / f"{cluster}.yaml"
    document = read(_Document, {"name": plain(file.stem), **load_yaml(file)}, str(cluster))
    try:
        return Cluster(document.name, _pools(document, cluster))
    except PlatformError as error:
        raise PlatformError(f"{cluster}: {error}") from error


def _pools(document: _Document, cluster: str | Path) -> tuple[Pool, ...]:
    """The pools of a file."""
    pools = []
    for pool in document.pools:
        check_name(f"{cluster}: links of pool {pool.device.name!r}", pool.links, LINKS)
        links = LINKS[pool.links]
        if pool.network is not None:
            links = replace(links, network=pool.network)
        pools.append(Pool(pool.device, pool.nodes, pool.per_node, Nccl(links)))
    return tuple(pools)
