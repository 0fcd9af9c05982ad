"""The table of measurements: what it keeps, and what it refuses."""

import gzip
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym.errors import ArtefactError
from hetgym.graph import Operator, Tensor
from hetgym.measurements import Journal, Measurement, Measurements
from hetgym.measurements.table import COLUMNS, read_rows

CONV = Operator(
    "conv",
    "Conv",
    (Tensor((1, 3, 8, 8)), Tensor((4, 3, 3, 3), constant=True, name="w")),
    (Tensor((1, 4, 6, 6)),),
    {"kernel_shape": (3, 3), "group": 1, "auto_pad": "VALID", "alpha": 0.5},
)
ROWS = (
    Measurement(CONV, 1.2345e-4, 1.1e-4, 1.5e-4, 20, source="design"),
    Measurement(Operator("r", "Relu", (Tensor((2,)),), (Tensor((2,)),)), 3e-6, 2e-6, 4e-6, 9, context="graph", count=7),
    Measurement(CONV, math.nan, math.nan, math.nan, 0, direction="backward", status="timeout"),
)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_what_is_saved_is_loaded(tmp_path, name):
    Measurements(ROWS).save(tmp_path / name)
    table = Measurements.load(tmp_path / name)
    assert [row.row() for row in table] == [row.row() for row in ROWS]
    op = table.rows[0].operator
    assert (op.kind, op.inputs[1].constant, dict(op.attributes)) == ("Conv", True, dict(CONV.attributes))
    assert op.flops == CONV.flops
    assert len(table.timed()) == 2
    first = (tmp_path / name).read_bytes()
    table.save(tmp_path / name)
    assert (tmp_path / name).read_bytes() == first


def test_a_journal_survives_a_torn_line(tmp_path):
    path = tmp_path / "j.csv"
    journal = Journal.open(path)
    journal.add(ROWS[:1])
    journal.add(ROWS[1:])
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    again = Journal.open(path)
    assert [row.row() for row in again.rows] == [row.row() for row in ROWS[:2]]
    again.add(ROWS[2:])
    assert path.read_bytes() == whole


HEAD = ",".join(COLUMNS)
GOOD = "Relu,float32(2),float32(2),,forward,graph,net,1,1e-5,1e-5,1e-5,9,ok"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "its first line must be"),
        ("kind,seconds\n", "its first line must be"),
        (f"{HEAD}\nRelu,x\n", "line 2: 2 fields"),
        (f"{HEAD}\n{GOOD.replace('forward', 'sideways')}\n", "direction is 'sideways'"),
        (f"{HEAD}\n{GOOD.replace('float32(2),', 'float32(2;3),')}\n", "is not a tensor"),
        (f"{HEAD}\n{GOOD.replace('float32(2),', 'complex7(2),')}\n", "is not a tensor"),
        (f"{HEAD}\n{GOOD.replace('1e-5', 'nan', 1)}\n", "seconds is 'nan'"),
        (f"{HEAD}\n{GOOD.replace('1e-5', '-1', 1)}\n", "seconds is '-1'"),
        (f"{HEAD}\n{GOOD.replace(',,', ',[1],', 1)}\n", "not a JSON object"),
        (f"{HEAD}\n" + GOOD.replace(",,", ',"{""a"":{}}",', 1) + "\n", "attribute 'a'"),
        (f"{HEAD}\n" + GOOD.replace(",,", ',"{",', 1) + "\n", "not JSON"),
        (f'{HEAD}\n"Relu', "not a CSV file"),
        (f"{HEAD}\n{GOOD.replace('Relu', 'Conv')}\n", "line 2: operator 'net' is not a valid Conv"),
        (f"{HEAD}\n{GOOD.replace('Relu', 'Attention')}\n", "line 2: operator 'net' is not a valid Attention"),
        (f"{HEAD}\n,{GOOD.partition(',')[2]}\n", "the kind is empty"),
    ],
)
def test_bad_tables_are_refused_in_a_sentence(text, words):
    with pytest.raises(ArtefactError, match="(?s)" + words.replace("(", r"\(")):
        list(read_rows(text, "file"))


def test_a_name_that_is_too_long_for_a_file(tmp_path):
    with pytest.raises(ArtefactError, match="cannot be written"):
        Journal.open(tmp_path / f"{'n' * 300}.csv")


def test_bad_files_are_refused(tmp_path):
    packed = gzip.compress(b"x" * 4000)
    for name, data in {"torn.csv.gz": packed[:40], "binary.csv": b"\xff\xfe\x00", "empty.csv": b""}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ArtefactError, match=name):
            Measurements.load(tmp_path / name)
    with pytest.raises(ArtefactError, match="no such file"):
        Measurements.load(tmp_path / "none.csv")
    with pytest.raises(ArtefactError, match="cannot be written"):
        Measurements(ROWS).save(tmp_path / "nowhere" / "t.csv")


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    try:
        rows = list(read_rows(f"{HEAD}\n{text}", "file"))
    except ArtefactError:
        return
    assert all(row.operator.kind for row in rows)


@pytest.mark.parametrize("shape", ["999999999999999999", "99999999,99999999", ",".join(["1"] * 99)])
def test_tensors_that_cannot_be(tmp_path, shape):
    path = tmp_path / "t.csv"
    path.write_text(f'{",".join(COLUMNS)}\nRelu,"float32({shape})",float32(2),,forward,isolated,x,1,1,1,1,1,ok\n')
    with pytest.raises(ArtefactError, match="line 2: "):
        Measurements.load(path)
