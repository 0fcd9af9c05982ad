"""Artefacts: files of a JSON header and plain arrays, read without trusting them.

Two containers hold all of them: ``.npz`` (problems, cost models, schedules) and safetensors (policies, checkpoints).
Whatever the container, a file is read in the same steps, each before the next allocates or runs anything: the header,
up to a limit; the arrays that a header of this :class:`Kind` declares; the name, dtype and shape of every array in the
file, which must be those; the bytes that they take together; only then the arrays. Nothing is unpickled. Equal content
is written as equal bytes.
"""

from hetgym._input.artefacts.kind import Array, Arrays, Kind, check_format
from hetgym._input.artefacts.npz import file_name, load_npz, save_npz
from hetgym._input.artefacts.tensors import load_tensors, save_tensors

__all__ = [
    "Array", "Arrays", "Kind", "check_format", "file_name", "load_npz", "load_tensors", "save_npz", "save_tensors",
]  # fmt: skip
