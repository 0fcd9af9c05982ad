"""Platforms from what describes a machine: ``nvidia-smi topo``, ``lstopo``, NCCL's topology, ``hetgym profile``.

:func:`import_platform` recognises the file. Such files name devices and links; their rates are those of data sheets,
:class:`Board`. What neither states, such as latencies, is an assumption, and the platform says so.
"""

from hetgym.topology.boards import Board, load_boards
from hetgym.topology.importing import find_platform, import_platform

__all__ = ["Board", "find_platform", "import_platform", "load_boards"]
