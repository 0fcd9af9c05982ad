"""Mutations: of bytes, of text, and of what JSON, YAML, protobuf, archives and safetensors hold."""

from __future__ import annotations

import copy
import io
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import yaml

from tests.fuzz.draws import NUMBERS, Rng, pick
from tests.fuzz.onnx_mutations import in_onnx

VALUES: tuple[Any, ...] = (
    *NUMBERS, None, True, False, "", "x", "a" * 5000, "\x00", "\ud800", "é\n\x1b[31m", "nan", "1e400", "../../etc",
    "/dev/zero", [], {}, [[]], [0], {"": 0}, [None], "batch", "float32", "cpu",
)  # fmt: skip
TOKENS: tuple[bytes, ...] = (
    b"-1", b"0", b"1e400", b"NaN", b"Infinity", b"9" * 400, b"9" * 5000, b"null", b"true", b"[" * 300, b"{" * 100,
    b'"', b"'", b",", b"\n", b"\x00", b"\xff\xfe", b"\\ud800", b"1:00:00:00:00", b"2020-13-45", b".inf", b"*a", b"&a ",
    b"<<: *a\n", b"<<: [*a, *a, *a]\n", b"&a [*a]", b"!!python/object:os.system x", b"!!binary x", b"!!set {a}",
    b"? [a]: b\n", b"- - - - x\n", b"\t", b"%YAML 9.9\n", b"---\n", b"1" + b":59" * 300, b"0x" + b"f" * 300, b"**/*",
)  # fmt: skip


STATEMENTS = (
    b"for i in x:", b"while True:", b"x = (x, x)", b"x = [x, x, x]", b"import os", b"x += x", b"x[:, 0] = x",
    b"x.add_(x)",
    b"x = x[..., None]", b"x = x.reshape(-1)", b"x = " + b"(" * 150 + b"1" + b")" * 150, b"x = " + b"-" * 2000 + b"1",
    b"x = 9 ** 9 ** 9", b"x = x @ x", b"x = torch.zeros(1 << 40)", b"x = x.unbind(0)", b"x = x.expand(4, -1, -1, -1)",
    b"x = x.T", b"x = x.permute(*x)", b"x = [i for i in x]", b"x = x.split(1)", b"return x", b"x = x.repeat(99999999)",
    b"x = torch.cat([x] * 9)", b"x = x[x]", b"x = x if x else x", b"x: int = 3", b"del x", b"x, y = x, x",
    b"x = x.item()",
)  # fmt: skip
"""Statements that a program may get."""


def mutated(data: bytes, form: str, others: Sequence[bytes], rng: Rng) -> bytes:
    """A mutation of an input.

    Args:
        data: the input.
        form: of the input, see :class:`tests.fuzz.loaders.Loader`.
        others: inputs to splice with.
        rng: of all draws.
    """
    with np.errstate(all="ignore"):
        for _ in range(int(rng.integers(1, 4))):
            data = _once(data, form, others, rng)
    return data


def _once(data: bytes, form: str, others: Sequence[bytes], rng: Rng) -> bytes:
    inside = FORMS.get(form)
    if inside is not None and rng.random() < 0.65:
        try:
            return inside(data, rng)
        except Exception:  # what was mutated before is not of that form any more
            pass
    return pick((flip, put, cut, double, splice, token), rng)(data, others, rng)


def flip(data: bytes, others: Sequence[bytes], rng: Rng) -> bytes:
    """Flip some bits."""
    found = bytearray(data or b"\x00")
    for at in rng.integers(len(found), size=int(rng.integers(1, 9))):
        found[at] ^= 1 << int(rng.integers(8))
    return bytes(found)


def put(data: bytes, others: Sequence[bytes], rng: Rng) -> bytes:
    """Overwrite some bytes."""
    at, size = int(rng.integers(len(data) + 1)), int(rng.integers(1, 9))
    new = pick((b"\x00" * size, b"\xff" * size, rng.bytes(size), b"\x80" * size, b"\x7f" * size), rng)
    return data[:at] + new + data[at + size :]


def cut(data: bytes, others: Sequence[bytes], rng: Rng) -> bytes:
    """Truncate, or take out a piece."""
    at = int(rng.integers(len(data) + 1))
    return data[:at] if rng.random() < 0.5 else data[:at] + data[at + int(rng.integers(1, 200)) :]


def double(data: bytes, others: Sequence[bytes], rng: Rng) -> bytes:
    """Repeat a piece."""
    at, size = int(rng.integers(len(data) + 1)), int(rng.integers(1, 300))
    return data[: at + size] + data[at : at + size] * int(rng.integers(1, 5)) + data[at + size :]


def splice(data: bytes, others: Sequence[bytes], rng: Rng) -> bytes:
    """Go on as another input does."""
    other = pick(others, rng)
    return data[: int(rng.integers(len(data) + 1))] + other[int(rng.integers(len(other) + 1)) :]


def token(data: bytes, others: Sequence[bytes], rng: Rng) -> bytes:
    """Put a word that parsers trip over in the place of another, or between."""
    words = list(re.finditer(rb"[\w.+-]+", data[:100_000]))
    new = pick(TOKENS, rng)
    if words and rng.random() < 0.7:
        word = pick(words, rng)
        return data[: word.start()] + new + data[word.end() :]
    at = int(rng.integers(len(data) + 1))
    return data[:at] + new + data[at:]


def change(document: Any, rng: Rng) -> Any:
    """A document of mappings, lists and values with one place of it changed."""
    document = copy.deepcopy(document)
    places: list[tuple[Any, Any]] = []
    _collect(document, places)
    if not places:
        return pick(VALUES, rng)
    holder, key = pick(places, rng)
    what = int(rng.integers(8))
    if what < 4:
        holder[key] = copy.deepcopy(pick(VALUES, rng))
    elif what == 4:
        del holder[key]
    elif what == 5:
        other, place = pick(places, rng)
        if _size(other[place]) < 2000:
            holder[key] = copy.deepcopy(other[place])
    elif what == 6:
        for _ in range(int(pick((1, 3, 70, 400), rng))):
            holder[key] = [holder[key]] if rng.random() < 0.5 else {"a": holder[key]}
    elif isinstance(holder, list):
        holder[:] = holder + holder[: int(rng.integers(1, 50))]
    else:
        holder[pick(("", "x", "name", "a" * 500, "\x00"), rng)] = copy.deepcopy(pick(VALUES, rng))
    return document


def _collect(document: Any, places: list[tuple[Any, Any]]) -> None:
    """Places of a document: containers and keys, not more than some thousands."""
    pending = [document]
    while pending and len(places) < 5000:
        found = pending.pop()
        entries = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
        for key, value in entries:
            places.append((found, key))
            if isinstance(value, dict | list):
                pending.append(value)


def _size(value: Any) -> int:
    places: list[tuple[Any, Any]] = []
    _collect(value, places)
    return len(places)


def _dumped(document: Any) -> bytes:
    return json.dumps(document).encode("utf-8", "surrogatepass")


def in_json(data: bytes, rng: Rng) -> bytes:
    """Change a place of a JSON document; now and then a field appears twice."""
    text = _dumped(change(json.loads(data), rng))
    return text.replace(b'": ', b'": 0, "a": ', 1) if rng.random() < 0.02 else text


def in_yaml(data: bytes, rng: Rng) -> bytes:
    """Change a place of a YAML document, in what it holds or in its lines."""
    if b"*" not in data and rng.random() < 0.5:  # aliases may unfold without end
        return yaml.safe_dump(change(yaml.safe_load(data), rng), sort_keys=False).encode("utf-8", "surrogatepass")
    lines = data.split(b"\n")
    at, other = (int(k) for k in rng.integers(len(lines), size=2))
    what = int(rng.integers(4))
    if what == 0:
        lines[at] = lines[other]
    elif what == 1:
        lines.insert(at, lines[other])
    elif what == 2:
        lines[at] = b"  " * int(rng.integers(3)) + lines[at].lstrip()
    else:
        lines[at] = lines[at].partition(b":")[0] + b": " + pick(TOKENS, rng)
    return b"\n".join(lines)


def in_csv(data: bytes, rng: Rng) -> bytes:
    """Change a field of a table, or a row."""
    lines = [line.split(b",") for line in data.split(b"\n")]
    row = lines[int(rng.integers(len(lines)))]
    at = int(rng.integers(len(row)))
    what = int(rng.integers(4))
    if what == 0:
        row[at] = pick(TOKENS, rng)
    elif what == 1:
        row[at] = str(pick(NUMBERS, rng)).encode()
    elif what == 2:
        row[at] = re.sub(rb"\d+", lambda _: str(pick(NUMBERS, rng)).encode(), row[at], count=1)
    else:
        row.insert(at, row[at])
    return b"\n".join(b",".join(fields) for fields in lines)


def in_npz(data: bytes, rng: Rng) -> bytes:
    """Change the header of an archive, what an array says of itself, its numbers, or its name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, what = pick(sorted(members), rng), int(rng.integers(6))
    if what < 2:
        text = np.load(io.BytesIO(members["header.npy"])).tobytes()
        members["header.npy"] = _npy(np.frombuffer(_dumped(change(json.loads(text), rng)), np.uint8))
    elif what == 2:
        members[name] = _claim(members[name], rng)
    elif what == 3:
        array = np.load(io.BytesIO(members[name])).copy()
        if array.size:
            value = pick([n for n in NUMBERS if abs(n) < 2**31 or array.dtype.kind == "f"], rng)
            array.flat[int(rng.integers(array.size))] = np.float64(min(value, 1e308)).astype(array.dtype)
        members[name] = _npy(array)
    elif what == 4:
        array = np.load(io.BytesIO(members[name]))
        shape = tuple(int(k) for k in rng.integers(0, 6, size=int(rng.integers(0, 4))))
        members[name] = _npy(np.resize(array, shape) if rng.random() < 0.7 else array.astype(pick("fdilB?", rng)))
    else:
        members[pick((name + "x", name.replace(".npy", ""), "../a.npy"), rng)] = members.pop(name)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", int(pick((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED), rng))) as archive:
        for key, content in members.items():
            archive.writestr(key, content)
    return file.getvalue()


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), version=(1, 0))
    return file.getvalue()


def _claim(member: bytes, rng: Rng) -> bytes:
    """Another dtype or shape in front of the same numbers."""
    size = int.from_bytes(member[8:10], "little")
    words = {
        "descr": pick(("<f8", "<i4", ">f8", "|O", "<U9999", "|b1", "<f4", "[('a','<f8')]"), rng),
        "shape": pick(("(-1,)", "(2**60,)", "()", "(1099511627776, 1099511627776)", "(0, 0)", "(" * 90, "(3,)"), rng),
    }
    text = member[10 : 10 + size].decode("latin1")
    key = pick(sorted(words), rng)
    text = re.sub(
        rf"'{key}': ('[^']*'|\([^)]*\))",
        f"'{key}': {words[key]!r}" if key == "descr" else f"'{key}': {words[key]}",
        text,
    )
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin1") + member[10 + size :]


def in_tensors(data: bytes, rng: Rng) -> bytes:
    """Change the table of a safetensors file, its card, or its numbers."""
    size = int.from_bytes(data[:8], "little")
    table, content = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    what = int(rng.integers(4))
    if what == 0 and content:
        at = 4 * int(rng.integers(len(content) // 4))
        content[at : at + 4] = np.float32(pick((np.nan, np.inf, 1e38, 0.0, -1.0), rng)).tobytes()
    elif what == 1 and "card" in table.get("__metadata__", {}):
        card = change(json.loads(table["__metadata__"]["card"]), rng)
        table["__metadata__"]["card"] = json.dumps(card)
    elif what == 2:
        name = pick(sorted(set(table) - {"__metadata__"}), rng)
        table[pick(("optimizer.x.y", "optimizer.999.step", "network.", "generator", "é", name + "x"), rng)] = table.pop(
            name
        )
    else:
        table = change(table, rng)
    text = _dumped(table)
    return len(text).to_bytes(8, "little") + text + bytes(content)


def in_text(data: bytes, rng: Rng) -> bytes:
    """Change a line of a program: another line, another indentation, a number, a name, or a loop and the like."""
    lines = data.split(b"\n")
    at, other = (int(k) for k in rng.integers(len(lines), size=2))
    what = int(rng.integers(6))
    if what == 0:
        lines[at] = lines[other]
    elif what == 1:
        lines[at] = b"    " * int(rng.integers(4)) + lines[at].lstrip()
    elif what == 2:
        lines[at] = re.sub(rb"\d+", lambda _: str(pick(NUMBERS, rng)).encode(), lines[at], count=1)
    elif what == 3:
        names = re.findall(rb"[A-Za-z_][\w.]*", data[:100_000])
        words = list(re.finditer(rb"[A-Za-z_][\w.]*", lines[at]))
        if words:
            word = pick(words, rng)
            lines[at] = lines[at][: word.start()] + pick(names, rng) + lines[at][word.end() :]
    elif what == 4:
        lines.insert(at, b"        " + pick(STATEMENTS, rng))
    else:
        lines.insert(at, lines[other])
    return b"\n".join(lines)


FORMS: dict[str, Callable[[bytes, Rng], bytes]] = {
    "json": in_json,
    "yaml": in_yaml,
    "csv": in_csv,
    "npz": in_npz,
    "tensors": in_tensors,
    "text": in_text,
    "onnx": in_onnx,
}
"""Form -> mutation of what such a file holds."""
