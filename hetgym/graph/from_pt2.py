"""Import of programs that ``torch.export.save`` wrote, without PyTorch and without executing anything.

``torch.export.load`` unpickles example inputs and evaluates expressions, so it must not be given a file of others. An
archive also holds its graph as JSON (``models/*.json``): operators by name, and the type of every value. That is all
that this reader looks at, and the table of weights, which says what weights are tied.
"""

import os
import zipfile
from pathlib import Path
from typing import IO, Any

from hetgym._input.files import amount, as_path, decoded, open_file, read_pieces, reason
from hetgym._input.json import parse
from hetgym._input.notes import left_out
from hetgym._text import plain
from hetgym.errors import GraphError, HetgymError, shown
from hetgym.graph.assembly import assemble
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.pt2_nodes import ProgramReader, SavedTensor
from hetgym.graph.torch_types import Walker

DOCUMENT_LIMIT = 64 << 20
"""Longest JSON of a program; an operator takes about 2 KiB of it, most of them for its place in the source [byte]."""

DIRECTORY_LIMIT = 16 << 20  # Longest list of an archive's members, enough for a hundred thousand weights [byte]


def from_pt2(path: str | os.PathLike[str], name: str | None = None, *, strict: bool = False) -> DataflowGraph:
    """Import a saved program, as :func:`~hetgym.graph.from_torch` would import its module.

    A dimension that was exported as dynamic has the size that it had in the example inputs. An operator that changes
    its operand in place gets a result of its own if nothing else reads the operand.

    Args:
        path: a ``.pt2`` file that ``torch.export.save`` of PyTorch 2.8 or later wrote.
        name: name of the graph; that of the file by default.
        strict: refuse operators of unknown kind.

    Raises:
        GraphError: the file is missing, damaged or of another version, it holds more than one program, a shape depends
            on data, or an operator changes in place what others read, too.

    Warns:
        HetgymWarning: one warning for each file, which names all operators of unknown kind.
    """
    file = as_path(path, "a saved program", GraphError)
    program, weights = _documents(file)
    reader = ProgramReader(str(file), program, weights)
    walker = Walker(SavedTensor, reader.nodes(), reader.weights())
    try:
        walker.walk()
        graph = assemble(name or plain(file.stem), walker.values, walker.steps, walker.results)
    except GraphError as error:
        raise GraphError(f"{file}: {error}") from error.__cause__
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as cause:
        raise GraphError(f"{file}: an operator has arguments that PyTorch's does not take ({cause})") from cause
    left_out(str(file), graph.notes, strict, GraphError)
    return graph


def saved_weights(path: str | os.PathLike[str]) -> list[str]:
    """Names of all parameters and buffers of a saved program's module, those that it does not read included.

    Raises:
        GraphError: the file is missing, damaged or of another version, or it holds more than one program.
    """
    file = as_path(path, "a saved program", GraphError)
    return ProgramReader(str(file), *_documents(file)).held()


class _Bounded:
    """A file that refuses to read pieces longer than a limit; the longest that zipfile wants is the directory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes, or the rest of the file."""
        data = self._file.read(DIRECTORY_LIMIT + 1 if size < 0 else min(size, DIRECTORY_LIMIT + 1))
        if len(data) > DIRECTORY_LIMIT:
            raise zipfile.BadZipFile("its directory is too long")
        return data


def _documents(path: Path) -> tuple[Any, Any]:
    """The JSON of the only program in an archive, and of its weights, if it has any."""
    try:
        with open_file(path, GraphError) as file, zipfile.ZipFile(_Bounded(file)) as archive:
            members = {info.filename: info for info in archive.infolist()}
            root = next(iter(members), "").partition("/")[0]
            start = f"{root}/models/"
            programs = [name for name in members if name.startswith(start) and name.endswith(".json")]
            if len(programs) != 1:
                raise GraphError(f"{path}: the archive holds {len(programs)} programs (models/*.json), not one")
            stem = programs[0].removeprefix(start).removesuffix(".json")
            weights = members.get(f"{root}/data/weights/{stem}_weights_config.json")
            program = _document(archive, members[programs[0]], path)
            return program, None if weights is None else _document(archive, weights, path)
    except (HetgymError, MemoryError):
        raise
    except Exception as cause:  # zipfile and zlib raise half a dozen types
        raise GraphError(f"{path}: not a readable archive ({reason(cause) or type(cause).__name__})") from cause


def _document(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Any:
    where = f"{path}: {shown(info.filename)}"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise GraphError(f"{where} uses an unsupported compression; expected stored or deflated")
    with archive.open(info) as file:
        data = read_pieces(file, DOCUMENT_LIMIT)
    if data is None:
        raise GraphError(f"{where} is longer than {amount(DOCUMENT_LIMIT)}")
    return parse(decoded(data, where, GraphError), where, GraphError)
