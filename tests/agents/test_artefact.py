"""Shipped policies as two files: weights, and a card beside them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetgym.agents import pretrained
from hetgym.agents.artefact import NETWORK_FORMAT, load_pair, save_pair
from hetgym.agents.candidates import FILES as CANDIDATES
from hetgym.agents.place.planner import FILES
from hetgym.agents.pretrained import FOLDER, names
from hetgym.errors import ArtefactError

HOSTILE = Path(os.environ.get("HETGYM_DATA", "/nonexistent")) / "hostile"
WEIGHTS = {"b": np.arange(4, dtype=np.float32).reshape(2, 2), "a": np.ones(3, np.float32)}


def test_round_trip_and_equal_bytes(tmp_path: Path) -> None:
    for name in ("1", "2"):
        save_pair(tmp_path / name, "own", WEIGHTS, {"x": [1, 2.5]})
    for end in (".safetensors", ".json"):
        assert (tmp_path / f"1{end}").read_bytes() == (tmp_path / f"2{end}").read_bytes()
    card, weights = load_pair(tmp_path / "1", "other", "own")
    assert card == {"x": [1, 2.5], "format": "own", "version": 1}
    assert all((weights[name] == array).all() for name, array in WEIGHTS.items()) and weights.keys() == WEIGHTS.keys()


@pytest.mark.parametrize("name", names())
def test_shipped_files_are_written_again_byte_for_byte(tmp_path: Path, name: str) -> None:
    card, weights = load_pair(FOLDER / name, NETWORK_FORMAT, *(files.form for files in pretrained.FILES))
    save_pair(tmp_path / name, card["format"], weights, card)
    for end in (".safetensors", ".json"):
        assert (tmp_path / f"{name}{end}").read_bytes() == (FOLDER / f"{name}{end}").read_bytes()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[]", "not a own of format version 1"),
        ("null", "not a own of format version 1"),
        ('{"format": "own", "version": 2}', "not a own of format version 1"),
        ("1" * 5000, "not JSON"),
        (" " * (2 << 20), "longer than 1 MiB"),
        ('{"format": "own", "version": 1, "x": NaN}', "NaN is not a JSON number"),
    ],
    ids=range(7),
)
def test_cards_that_are_none(tmp_path: Path, text: str, words: str) -> None:
    save_pair(tmp_path / "p", "own", WEIGHTS, {})
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(ArtefactError, match=words):
        load_pair(tmp_path / "p", "own")


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match=r"none\.json: no such file"):
        load_pair(tmp_path / "none", "own")
    with pytest.raises(ArtefactError, match="cannot be written"):
        save_pair(tmp_path / "none" / "p", "own", WEIGHTS, {})


@pytest.mark.parametrize(
    "change",
    [{"recipe": 3}, {"recipe": {"arguments": []}}, {"network": None}, {"network": {"view": [], "level": "candidates"}}],
)
def test_cards_with_values_of_another_type(tmp_path: Path, change: dict[str, Any]) -> None:
    card, weights = load_pair(FOLDER / "pipeline-v1", "hetgym-candidate-policy")
    save_pair(tmp_path / "p", card["format"], weights, card | change)
    with pytest.raises(ArtefactError):
        CANDIDATES.load(tmp_path / "p")


@pytest.mark.parametrize("search", [3, {"size": "x"}, {"size": 0}, {"odd": 1}, {"size": 10**30}])
def test_place_policies_with_an_odd_search(tmp_path: Path, search: Any) -> None:
    card, weights = load_pair(FOLDER / "place-v1", "hetgym-place-policy")
    save_pair(tmp_path / "p", card["format"], weights, card | {"search": search})
    with pytest.raises(ArtefactError, match="search"):
        FILES.load(tmp_path / "p")


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    card, weights = load_pair(FOLDER / "place-v1", "hetgym-place-policy")
    name = next(iter(weights))
    save_pair(tmp_path / "p", card["format"], weights | {name: weights[name] * np.nan}, card)
    with pytest.raises(ArtefactError, match="not finite"):
        FILES.load(tmp_path / "p")


@pytest.mark.skipif(not HOSTILE.is_dir(), reason="set HETGYM_DATA to a folder that holds hostile/*.safetensors")
def test_hostile_files(tmp_path: Path) -> None:
    for path in sorted(HOSTILE.glob("*.safetensors")):
        for end in (".safetensors", ".json"):
            shutil.copy(path.with_suffix(end), tmp_path / f"p{end}")
        with pytest.raises(ArtefactError, match="has dtype"):
            CANDIDATES.load(tmp_path / "p")
