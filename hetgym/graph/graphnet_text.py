"""The text of a GraphNet model, statement by statement, without executing it and without parsing all of it at once.

A syntax tree takes some hundred times the memory of its text. The files of GraphNet are printed by a program, one
statement after the other at the same indentation, so each is cut out by its indentation and parsed alone.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from hetgym.errors import GraphError, shown

LONGEST_STATEMENT = 1 << 16
"""Most characters of a statement; the longest of GraphNet, a concatenation, has some thousand."""

_FEW = 4  # Most lines of a list of numbers that is read; longer ones hold the elements of a larger tensor

_HEAD = "class GraphModule(torch.nn.Module):"
_IMPORT = re.compile(r"(import torch|from torch import \w+(, \w+)*)$")
_ARGUMENT = re.compile(r"\s*(\w+)\s*(?::\s*([\w.]+))?\s*")
_CLASS = re.compile(r"class \w+:")


class Argument(NamedTuple):
    """An argument of ``forward``."""

    name: str
    kind: str  # its annotation, such as `torch.Tensor`; empty if there is none


class Statement(NamedTuple):
    """A statement of ``forward``."""

    line: int  # counted from 1
    text: str  # its text, with that of others on the same line
    tree: ast.stmt


class Chunk(NamedTuple):
    """Lines of a text that belong together."""

    line: int  # number of the first line, counted from 1
    lines: list[str]

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)


def forward_of(text: str, where: str) -> tuple[list[Argument], Iterator[Statement]]:
    """The arguments of ``GraphModule.forward``, and its statements, which are parsed one by one.

    Raises:
        GraphError: the text is not a model of GraphNet, or, while it is read, a statement is not Python.
    """
    tops = list(_chunks(text.split("\n"), 1, 0))
    heads = [chunk for chunk in tops if chunk.lines[0].rstrip() == _HEAD]
    others = [chunk for chunk in tops if chunk.lines[0].rstrip() != _HEAD]
    if any(chunk.lines[0].startswith("import paddle") for chunk in others):
        raise GraphError(f"{where}: this is a Paddle model of GraphNet; hetgym reads those of PyTorch")
    if len(heads) != 1:
        raise GraphError(
            f"{where}: not a GraphNet model, which has one class GraphModule(torch.nn.Module) whose forward is a list "
            "of PyTorch calls"
        )
    for chunk in others:
        if not _IMPORT.match(chunk.text.strip()):
            raise GraphError(
                f"{where}: line {chunk.line}: {shown(chunk.lines[0].strip())}; a GraphNet model only imports torch "
                "beside its class GraphModule"
            )
    methods = list(_chunks(heads[0].lines[1:], heads[0].line + 1, 4))
    if len(methods) != 1 or not methods[0].lines[0].startswith("    def forward("):
        raise GraphError(f"{where}: line {heads[0].line}: GraphModule must have one method, forward, and nothing else")
    return _split(methods[0], where)


def _split(method: Chunk, where: str) -> tuple[list[Argument], Iterator[Statement]]:
    """The arguments and the statements of a method."""
    for end, line in enumerate(method.lines):
        if line.rstrip().endswith(":") and (end == 0 or line.startswith("    )")):
            break
    else:
        raise GraphError(f"{where}: line {method.line}: the arguments of forward do not end")
    head = "\n".join(method.lines[: end + 1]).strip().removeprefix("def forward(")
    inside, _, _ = head.rpartition(")")
    arguments = []
    for part in inside.rstrip().removesuffix(",").split(","):
        match = _ARGUMENT.fullmatch(part)
        if match is None:
            raise GraphError(f"{where}: line {method.line}: {shown(part.strip())} is not an argument with a plain type")
        arguments.append(Argument(match[1], match[2] or ""))
    if not arguments or arguments[0].name != "self":
        raise GraphError(f"{where}: line {method.line}: the first argument of forward must be self")
    return arguments[1:], _statements(_chunks(method.lines[end + 1 :], method.line + end + 1, 8), where)


def _statements(chunks: Iterator[Chunk], where: str) -> Iterator[Statement]:
    for chunk in chunks:
        for tree in _parsed(chunk, where):
            yield Statement(chunk.line + tree.lineno - 1, chunk.text.strip(), tree)


def _parsed(chunk: Chunk, where: str) -> list[ast.stmt]:
    """The statements of a chunk, which is one or some that semicolons part."""
    text = chunk.text.strip()
    if len(text) > LONGEST_STATEMENT:
        raise GraphError(f"{where}: line {chunk.line}: a statement is longer than {LONGEST_STATEMENT} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes and comparisons
            return ast.parse(text).body
    except SyntaxError as cause:
        raise GraphError(f"{where}: line {chunk.line + (cause.lineno or 1) - 1}: not Python ({cause.msg})") from cause
    except (RecursionError, MemoryError) as cause:
        raise GraphError(f"{where}: line {chunk.line}: a statement is nested too deeply") from cause
    except ValueError as cause:  # a null character
        raise GraphError(f"{where}: line {chunk.line}: not Python ({cause})") from cause


def _chunks(lines: list[str], first: int, indent: int) -> Iterator[Chunk]:
    """Pieces of a text that start at an indentation; deeper lines and closing brackets belong to the piece before."""
    found: list[str] = []
    start = first
    for number, line in enumerate(lines, first):
        bare = line.lstrip()
        if bare.startswith("#"):
            bare = line = ""
        if bare and found and len(line) - len(bare) <= indent and bare[0] not in ")]}":
            yield Chunk(start, found)
            found = []
        if not found:
            start = number
        if found or bare:
            found.append(line)
    if found:
        yield Chunk(start, found)


class Meta(NamedTuple):
    """What ``weight_meta.py`` says of an argument."""

    shape: tuple[int, ...]
    dtype: str  # such as `float32`
    number: int | float | None  # its only element, where it is stated


def metas_of(text: str, where: str) -> dict[str, Meta]:
    """Name of an argument -> its type, from a text of classes that assign literals.

    Raises:
        GraphError: a class is malformed.
    """
    found: dict[str, Meta] = {}
    for chunk in _chunks(text.split("\n"), 1, 0):
        here = f"{where}: line {chunk.line}"
        if not _CLASS.fullmatch(chunk.lines[0].rstrip()):
            raise GraphError(f"{here}: {shown(chunk.lines[0])} does not begin a class with the type of an argument")
        fields = {}
        for part in _chunks(chunk.lines[1:], chunk.line + 1, 4):
            key = part.lines[0].partition("=")[0].strip()
            if key in ("name", "shape", "dtype") or (key == "data" and len(part.lines) <= _FEW):
                fields[key] = _literal(_parsed(part, where))
        name, shape, dtype = fields.get("name"), fields.get("shape"), fields.get("dtype")
        if not isinstance(name, str) or not isinstance(dtype, str) or not isinstance(shape, list | tuple):
            raise GraphError(f"{here}: a class of an argument needs the fields name, shape and dtype")
        if not all(type(size) is int for size in shape):
            raise GraphError(f"{here}: shape is {shown(shape)}, not a list of sizes")
        data = fields.get("data")
        number = data[0] if isinstance(data, list) and len(data) == 1 and isinstance(data[0], int | float) else None
        found[name] = Meta(tuple(shape), dtype.removeprefix("torch."), number)
    return found


def _literal(trees: list[ast.stmt]) -> object:
    """The value that a statement assigns; None if it is not a literal."""
    if len(trees) != 1 or not isinstance(trees[0], ast.Assign):
        return None
    try:
        return ast.literal_eval(trees[0].value)
    except (ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
        return None
