"""Datasets: a table and its card belong together."""

import json

import pytest

from hetgym.device import Device
from hetgym.errors import ArtefactError
from hetgym.graph import Operator, Tensor
from hetgym.measurements import Dataset, MachineCard, Measurement, Measurements
from hetgym.measurements.dataset import names

ROW = Measurement(Operator("r", "Relu", (Tensor((2,)),), (Tensor((2,)),)), 3e-6, 2e-6, 4e-6, 9)
DEVICE = Device("cpu", "cpu", {"float32": 1e11}, 1e10, launch_overhead=1e-6, processors=1, cache_bytes=2e6)
CARD = MachineCard("Some CPU", cores=2, cores_used=(0,), memory=1 << 30, load=(0.5, 0.5, 0.5))


@pytest.fixture
def path(tmp_path):
    Dataset(Measurements((ROW,)), CARD, DEVICE, "made by hand").save(tmp_path / "d.csv.gz")
    return tmp_path / "d.csv.gz"


def test_what_is_saved_is_loaded(path):
    found = Dataset.load(path)
    assert found.machine == CARD
    assert found.device == DEVICE
    assert found.notes == "made by hand"
    assert [row.row() for row in found.table] == [ROW.row()]


def test_a_table_that_is_not_the_cards_is_refused(path):
    Measurements((ROW, ROW)).save(path)
    with pytest.raises(ArtefactError, match="digests differ"):
        Dataset.load(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 7}, "format version 1"),
        ({"extra": 1}, "unknown fields 'extra'"),
        ({"device": {"name": "x"}}, "is missing"),
        (
            {"device": {**{"name": "c", "kind": "cpu", "peak_flops": {"float32": -1}}, "memory_bandwidth": 1}},
            "peak_flops",
        ),
        ({"machine": {"cpu": 3}}, "machine"),
    ],
)
def test_bad_cards_are_refused(path, change, words):
    card = path.with_name("d.json")
    card.write_text(json.dumps(json.loads(card.read_text()) | change))
    with pytest.raises(ArtefactError, match=words):
        Dataset.load(path)


def test_damaged_and_missing_cards_are_refused(path):
    card = path.with_name("d.json")
    card.write_text("{")
    with pytest.raises(ArtefactError, match="not JSON"):
        Dataset.load(path)
    card.unlink()
    with pytest.raises(ArtefactError, match="d.json: no such file"):
        Dataset.load(path)
    with pytest.raises(ArtefactError, match="neither a table nor a shipped one"):
        Dataset.load("nothing")
    with pytest.raises(ArtefactError, match="NAME.csv.gz"):
        Dataset(Measurements((ROW,)), CARD, DEVICE).save(path.with_name("d.txt"))


@pytest.mark.parametrize("name", names())
def test_shipped_datasets_load(name):
    found = Dataset.load(name)
    assert len(found.table.timed()) > 1000
    assert "/" not in found.notes and found.machine.cpu
