"""Platforms from what describes a machine: a line, or what programs such as ``nvidia-smi`` and ``lstopo`` print.

:func:`find_platform` takes any of them, :func:`import_platform` recognises the file. Lines and files name devices and
links; their rates are those of data sheets, :class:`Board`. What neither states, such as latencies, is an assumption,
and the platform says so.
"""

from hetgym.topology.boards import Board, load_boards
from hetgym.topology.importing import find_platform, import_platform

__all__ = ["Board", "find_platform", "import_platform", "load_boards"]
