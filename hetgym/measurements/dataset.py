"""Dataset: a table of measurements with the machine and the device that it was measured on.

``NAME.csv.gz`` is the table, ``NAME.json`` beside it the card::

    {"format": "hetgym-dataset", "version": 1, "notes": "...", "sha256": "<of the table>",
     "machine": {...}, "device": {"name": "cpu", "kind": "cpu", "peak_flops": {"float32": 1.7e11}, ...}}
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

from hetgym._input.config import read
from hetgym._input.files import as_path, read_bytes, read_text, write_bytes
from hetgym._input.json import noun, parse
from hetgym.device import Device
from hetgym.errors import ArtefactError, HetgymError, shown, suggestion
from hetgym.measurements.card import SIZE_LIMIT, MachineCard, asdict_plain
from hetgym.measurements.table import LIMIT_BYTES, Measurements

FOLDER = Path(__file__).parent / "data"  # Folder of the shipped datasets

_FORMAT, _VERSION = "hetgym-dataset", 1


@dataclass(frozen=True)
class Dataset:
    """Measurements with the machine and the device that they belong to."""

    table: Measurements  # the rows
    machine: MachineCard  # the machine that they were measured on
    device: Device  # the device, whose rates cost models use
    notes: str = ""  # a sentence or two on how they were measured

    def save(self, path: str | Path) -> None:
        """Write the table to ``path``, ``NAME.csv.gz``, and its card beside it; ArtefactError if that fails."""
        target = Path(path)
        card = _card_of(target)
        self.table.save(target)
        device = {key: value for key, value in self.device.to_dict().items() if value not in (None, "", {}, math.inf)}
        document = {
            "format": _FORMAT,
            "version": _VERSION,
            "notes": self.notes,
            "sha256": hashlib.sha256(target.read_bytes()).hexdigest(),
            "machine": asdict_plain(self.machine),
            "device": device,
        }
        write_bytes(card, (json.dumps(document, indent=1) + "\n").encode(), ArtefactError)

    @classmethod
    def load(cls, name: str | Path) -> Dataset:
        """Read a dataset.

        Args:
            name: name of a shipped dataset (:func:`names`), or path of a table with its card beside it.

        Raises:
            ArtefactError: no such dataset, a damaged file, or a table that does not match its card.
        """
        path = locate(name)
        card = _card_of(path)
        found = parse(read_text(card, SIZE_LIMIT, ArtefactError), str(card), ArtefactError)
        keys = {"format", "version", "notes", "sha256", "machine", "device"}
        if not isinstance(found, dict) or (found.get("format"), found.get("version")) != (_FORMAT, _VERSION):
            raise ArtefactError(f"{card}: not the card of a dataset of format version {_VERSION}")
        if found.keys() != keys:
            raise ArtefactError(
                f"{card}: missing or unknown fields {', '.join(sorted(map(ascii, found.keys() ^ keys)))}"
            )
        if not isinstance(found["notes"], str):
            raise ArtefactError(f"{card}: the notes are {noun(found['notes'])}, not a string")
        try:
            machine = read(MachineCard, found["machine"], f"{card}: machine")
            device = read(Device, found["device"], f"{card}: device")
        except HetgymError as error:
            raise ArtefactError(str(error)) from error
        if _digest(path) != found["sha256"]:
            raise ArtefactError(f"{path}: not the table that its card describes (the digests differ)")
        return cls(Measurements.load(path), machine, device, found["notes"])


def names() -> list[str]:
    """Names of the shipped datasets, in alphabetical order."""
    return sorted(path.name.removesuffix(".csv.gz") for path in FOLDER.glob("*.csv.gz"))


def locate(name: str | Path) -> Path:
    """The path of a table, by its path or as the name of a shipped dataset; ArtefactError where there is neither."""
    path = as_path(name, "a dataset", ArtefactError)
    if str(name) in names():
        return FOLDER / f"{name}.csv.gz"
    if os.path.isfile(path):  # Path.is_file would raise if the name is too long
        return path
    raise ArtefactError(
        f"no dataset {shown(str(name))}: neither a table nor a shipped one; {suggestion(str(name), names())}"
    )


def _card_of(table: Path) -> Path:
    if not table.name.endswith(".csv.gz"):
        raise ArtefactError(f"{table}: a dataset's table is called NAME.csv.gz")
    return table.with_name(table.name.removesuffix(".csv.gz") + ".json")


def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path, LIMIT_BYTES, ArtefactError)).hexdigest()
