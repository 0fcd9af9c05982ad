"""Clusters: pools of equal nodes with equal GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hetgym._input.config import check_number
from hetgym._sums import summed
from hetgym._text import brief
from hetgym.device import Device
from hetgym.errors import PlatformError, check_name
from hetgym.parallel.network import Network

MOST = 1 << 17  # Most GPUs of a pool


@dataclass(frozen=True)
class Pool:
    """Equal nodes with equal GPUs.

    Raises:
        PlatformError: a number out of range.
    """

    device: Device  # one GPU; its name is the pool's
    nodes: int
    per_node: int
    network: Network

    __repr__ = brief

    def __post_init__(self) -> None:
        check_number(self.nodes, f"pool {self.name!r}: nodes", PlatformError, minimum=1)
        check_number(self.per_node, f"pool {self.name!r}: per_node", PlatformError, minimum=1)
        if self.gpus > MOST:
            raise PlatformError(f"pool {self.name!r} has {self.gpus} GPUs; at most {MOST} are supported")

    @property
    def name(self) -> str:
        """Name of the pool."""
        return self.device.name

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return self.nodes * self.per_node

    def groups(self, tensor: int) -> int:
        """Most groups of ``tensor`` GPUs: those that share a node, or as many as take whole nodes, if they are larger.

        >>> from hetgym.parallel import load_cluster
        >>> [load_cluster("dgx-a100-64").pools[0].groups(tensor) for tensor in (2, 3, 8, 16)]
        [256, 128, 64, 32]
        """
        return self.nodes * (self.per_node // tensor) or self.nodes // -(-tensor // self.per_node)

    def holds(self, groups: Mapping[int, int]) -> bool:
        """True if nodes have room for groups, packed largest first.

        Args:
            groups: tensor degree -> number of groups. A group larger than a node takes whole nodes.
        """
        rooms = {self.per_node: self.nodes}  # GPUs that are left in a node -> number of such nodes
        for tensor in sorted(groups, reverse=True):
            left = groups[tensor]
            if tensor > self.per_node:
                rooms[self.per_node] -= left * -(-tensor // self.per_node)
                if rooms[self.per_node] < 0:
                    return False
                continue
            for room in sorted(rooms):
                each = max(1, room // tensor)
                for taken in (each, left % each):
                    nodes = min(rooms[room], left // taken) if taken and room >= tensor else 0
                    rooms[room] -= nodes
                    rooms[room - taken * tensor] = rooms.get(room - taken * tensor, 0) + nodes
                    left -= nodes * taken
            if left:
                return False
        return True


@dataclass(frozen=True)
class Cluster:
    """Pools of GPUs that reach each other. Two pools communicate at the pace of the slower network.

    Raises:
        PlatformError: no pools, or a name used twice.
    """

    name: str
    pools: tuple[Pool, ...]

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "pools", tuple(self.pools))
        if not self.pools:
            raise PlatformError(f"cluster {self.name!r} has no pools of GPUs")
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            raise PlatformError(f"cluster {self.name!r}: the name of a pool is used twice: {names}")

    @cached_property
    def _by_name(self) -> dict[str, Pool]:
        return {pool.name: pool for pool in self.pools}

    def __getitem__(self, name: str) -> Pool:
        """The pool of a given name; UnknownName if there is none."""
        check_name(f"pool of cluster {self.name!r}", name, self._by_name)
        return self._by_name[name]

    @property
    def gpus(self) -> int:
        """Number of GPUs of all pools."""
        return summed(pool.gpus for pool in self.pools)
