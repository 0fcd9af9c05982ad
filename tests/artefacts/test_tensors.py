"""Safetensors files: the table of offsets is checked before a tensor is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from hetgym._input.artefacts import Array, Kind, load_tensors, save_tensors
from hetgym.errors import ArtefactError

DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")
KIND = Kind(
    ArtefactError, lambda card, names, where: {name: Array(DTYPES, legal="finite") for name in names}, 4096, 1 << 20
)
ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.array(2.5),
    "none": np.zeros((0, 4), np.int64),
    "flags": np.array([True, False]),
    "bytes": np.arange(3, dtype=np.uint8),
}


def rewrite(path: Path, table: Any, content: bytes = bytes(24)) -> Path:
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)
    return path


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} | changes


def test_round_trip_equal_bytes_and_the_common_format(tmp_path: Path) -> None:
    for name in ("1", "2"):
        save_tensors(tmp_path / name, ARRAYS, ArtefactError, {"é": [1.5, None]})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    card, found = load_tensors(tmp_path / "1", KIND)
    assert card == {"é": [1.5, None]}
    common = load_file(tmp_path / "1")
    for name, array in ARRAYS.items():
        for other in (found[name], common[name]):
            assert other.dtype == array.dtype and other.shape == array.shape and (other == array).all()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"w": entry(dtype="BF16", shape=[12])}, "has dtype 'BF16'; hetgym keeps"),
        ({"w": entry(dtype="F8_E4M3", shape=[24])}, "has dtype 'F8_E4M3'"),
        ({"w": entry(dtype="F4", shape=[48])}, "has dtype 'F4'"),
        ({"w": entry(dtype=["F32"])}, "has dtype"),
        ({"w": entry(shape=[2, 4])}, "claims shape"),
        ({"w": entry(shape=[1 << 61, 1 << 61])}, "claims shape"),
        ({"w": entry(shape=[-2, -3])}, "an invalid shape or place"),
        ({"w": entry(shape=[True, 6])}, "an invalid shape or place"),
        ({"w": entry(data_offsets=[8, 32])}, "do not fill it"),
        ({"w": entry(), "v": entry()}, "do not fill it"),
        ({"w": entry(shape=[1] * 9 + [6])}, "impossible shape"),
        ({"w": entry(extra=1)}, "no dtype, shape or place"),
        ({"w": None}, "no dtype, shape or place"),
        ({}, "do not fill it"),
        ([], "is a list, not a JSON object"),
        (b"[" * 1000, "nested too deeply"),
        (b"\xff" * 10, "not UTF-8"),
        (b" " * 5000, "cut off, or too long"),
    ],
)
def test_tables_that_lie_are_refused(tmp_path: Path, table: Any, words: str) -> None:
    with pytest.raises(ArtefactError, match=words):
        load_tensors(rewrite(tmp_path / "x", table), KIND)


def test_damage_anywhere_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "x"
    save_tensors(path, ARRAYS, ArtefactError, {"a": 1})
    content = path.read_bytes()
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(ArtefactError, match="x: "):
            load_tensors(path, KIND)
    nan = np.float32(np.nan).tobytes()
    path.write_bytes(content.replace(ARRAYS["w"].tobytes()[:4] + ARRAYS["w"].tobytes()[4:8], nan + nan))
    with pytest.raises(ArtefactError, match="'w' holds entries that are not finite"):
        load_tensors(path, KIND)


def test_a_card_that_is_none(tmp_path: Path) -> None:
    table = {"__metadata__": {"card": "["}, "w": entry()}
    with pytest.raises(ArtefactError, match="not JSON"):
        load_tensors(rewrite(tmp_path / "x", table), KIND)
    assert load_tensors(rewrite(tmp_path / "x", {"w": entry()}), KIND)[0] == {}
