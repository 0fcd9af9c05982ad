"""Archives of arrays: every claim of a file is checked against the declaration of its kind before it is used."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetgym._input.artefacts import Array, Kind, load_npz, save_npz
from hetgym.errors import ArtefactError

KIND = Kind(
    ArtefactError,
    lambda header, names, where: {"a": Array("float64", ("n", 2)), "b": Array("int32", ("n",))},
    header_limit=1000,
    limit=1 << 20,
)
ARRAYS = {"a": np.arange(6.0).reshape(3, 2), "b": np.arange(3, dtype=np.int32)}


def write(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def npy(array: Any, version: tuple[int, int] = (1, 0)) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), version=version)
    return file.getvalue()


def header(**fields: Any) -> bytes:
    return npy(np.frombuffer(json.dumps(fields).encode(), np.uint8))


def members(**changes: bytes) -> dict[str, bytes]:
    return {"header.npy": header(x=1), "a.npy": npy(ARRAYS["a"]), "b.npy": npy(ARRAYS["b"])} | changes


def claim(shape: str, dtype: str = "<f8", data: bytes = b"") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def test_round_trip_and_equal_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "1.npz", tmp_path / "2.npz"
    for path in (first, second):
        save_npz(path, {"x": [1, "é"]}, ARRAYS, KIND)
    assert first.read_bytes() == second.read_bytes()
    found, arrays = load_npz(first, KIND)
    assert found == {"x": [1, "é"]}
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype and (arrays[name] == array).all() and arrays[name].flags.writeable
    with first.open("rb") as file:
        assert load_npz(file, KIND)[0] == found


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"b.npy": npy(np.arange(4, dtype=np.int32))}, r"'b' has shape \(4,\), expected \(3\)"),
        ({"a.npy": npy(np.zeros((3, 3)))}, r"'a' has shape \(3, 3\), expected \(any, 2\)"),
        ({"a.npy": claim("(4000000000, 2)")}, "claims shape"),
        ({"a.npy": npy(ARRAYS["a"].astype(np.float32))}, "dtype float32, expected float64"),
        ({"a.npy": npy(ARRAYS["a"], (2, 0))}, "another version"),
        ({"header.npy": header(x="y" * 2000)}, "the header is longer"),
        ({"header.npy": npy(np.frombuffer(b"[" * 800, np.uint8))}, "nested too deeply"),
        ({"header.npy": npy(np.frombuffer(b'{"x": NaN}', np.uint8))}, "NaN is not a JSON number"),
        ({"header.npy": npy(np.frombuffer(b"[]", np.uint8))}, "not a JSON object"),
        ({"a.npy": b"\x93NUMPY"}, "not a readable archive"),
        ({"c.npy": npy(0.0)}, "missing or unexpected arrays 'c'"),
        ({"a.npy": claim("(" * 5000)}, "not a readable archive"),
        ({"a.npy": npy(ARRAYS["a"])[:-8]}, "claims shape"),
        ({"a.npy": npy(ARRAYS["a"]) + b"12345678"}, "claims shape"),
    ],
)
def test_what_is_not_declared_is_refused(tmp_path: Path, changed: dict[str, bytes], words: str) -> None:
    with pytest.raises(ArtefactError, match=words):
        load_npz(write(tmp_path / "x.npz", members(**changed)), KIND)


def test_a_small_file_that_unpacks_to_much_is_not_unpacked(tmp_path: Path) -> None:
    zeros = claim("(200000, 2)", data=bytes(3_200_000))
    path = write(tmp_path / "x.npz", members(**{"a.npy": zeros}))
    assert path.stat().st_size < 10_000
    with pytest.raises(ArtefactError, match="unpacks to more than 1 MiB"):
        load_npz(path, KIND)


def test_a_long_list_of_members_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for k in range(50_000):
            archive.writestr(f"{k:060}.npy", b"")
    with pytest.raises(ArtefactError, match="directory is too long"):
        load_npz(path, KIND)


def test_members_of_one_name_and_rare_compression(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="an unsupported compression"):
        load_npz(write(tmp_path / "x.npz", members(), zipfile.ZIP_LZMA), KIND)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(tmp_path / "y.npz", "w") as archive:
        for name, content in [*members().items(), ("a.npy", members()["a.npy"])]:
            archive.writestr(name, content)
    with pytest.raises(ArtefactError, match="of one name"):
        load_npz(tmp_path / "y.npz", KIND)


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="holds up to"):
        save_npz(tmp_path / "x.npz", {}, {"a": np.zeros((1 << 17, 2)), "b": ARRAYS["b"]}, KIND)
    with pytest.raises(ArtefactError, match="cannot be written"):
        save_npz(tmp_path / "none" / "x.npz", {}, ARRAYS, KIND)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("legal", "number", "fine"),
    [("any", np.nan, True), ("number", np.inf, True), ("number", np.nan, False), ("finite", -np.inf, False)],
)
def test_numbers_are_checked_where_the_kind_says_so(tmp_path: Path, legal: Any, number: float, fine: bool) -> None:
    kind = Kind(ArtefactError, lambda header, names, where: {"a": Array("float64", None, legal)}, 1000, 1 << 20)
    save_npz(tmp_path / "x.npz", {}, {"a": np.array([1.0, number])}, kind)
    if fine:
        np.testing.assert_array_equal(load_npz(tmp_path / "x.npz", kind)[1]["a"], [1.0, number])
    else:
        with pytest.raises(ArtefactError, match="'a' holds entries that are not"):
            load_npz(tmp_path / "x.npz", kind)
