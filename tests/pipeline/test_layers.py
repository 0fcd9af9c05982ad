"""Tables of layers: units, repetitions, devices, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hetgym import Device, Link, Platform, ProblemError
from hetgym.pipeline import Stage, load_layers

CPU = Device("host", "cpu", {"float32": 1e12}, 8e10, memory_capacity=64e9)
CARDS = [Device(f"card{k}", "gpu", {"float32": 3e13}, 9e11, memory_capacity=8e9) for k in range(2)]
MACHINE = Platform(
    "machine",
    (CPU, *CARDS),
    tuple(
        Link(a, b, latency=1e-5, bandwidth=1e10)
        for a in ("host", "card0", "card1")
        for b in ("host", "card0", "card1")
        if a != b
    ),
)


def written(folder: Path, *lines: str) -> Path:
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return folder / "t.csv"


def test_units_repetitions_and_names(tmp_path: Path) -> None:
    path = written(tmp_path, "layer,count,time [ms],size [MiB]", "words,1,0.5,2", ",2,3,", "", "head,1,,1")
    table = load_layers(path, devices=3)
    assert table.problem.operator_names == ("words", "layer1.0", "layer1.1", "head")
    assert table.problem.cost[:, 0].tolist() == [0.5e-3, 3e-3, 3e-3, 0.0]
    assert table.problem.size.tolist() == [2.0**21, 0.0, 0.0, 2.0**20]
    assert table.problem.num_devices == 3 and table.timed and table.unit == "B"
    sizes = load_layers(written(tmp_path, "size [parameters]", "10", "20"))
    assert (sizes.timed, sizes.unit, sizes.problem.size.tolist()) == (False, "parameters", [10.0, 20.0])


def test_tables_as_spreadsheets_save_them(tmp_path: Path) -> None:
    """A byte-order mark, capitals, semicolons with decimal commas, and tabs."""
    plain = load_layers(written(tmp_path, "layer,count,time [ms]", "a,2,1.5", "b,1,2"), devices=2).problem
    for name, text in (
        ("mark.csv", "\ufeffLayer,Count,Time [ms]\na,2,1.5\nb,1,2\n"),
        ("semi.csv", "layer;count;time [ms]\na;2;1,5\nb;1;2\n"),
        ("tabs.tsv", "layer\tcount\ttime [ms]\na\t2\t1.5\nb\t1\t2\n"),
    ):
        (tmp_path / name).write_text(text)
        found = load_layers(tmp_path / name, devices=2).problem
        assert found.digest == plain.digest and found.operator_names == plain.operator_names
        assert found.name == name[:4]


def test_devices_take_the_times_of_their_name_or_kind_and_pay_for_outputs(tmp_path: Path) -> None:
    path = written(tmp_path, "time cpu [s],time gpu [s],time card1 [s],output [MB]", "8,2,1,100", "4,inf,3,0")
    problem = load_layers(path, MACHINE).problem
    assert [(kind.name, kind.count, kind.memory) for kind in problem.kinds] == [
        ("host", 1, 64e9),
        ("card0", 1, 8e9),
        ("card1", 1, 8e9),
    ]
    assert problem.cost.tolist() == [[8.0, 2.0, 1.0], [4.0, np.inf, 3.0]]
    assert problem.transfer.tolist() == pytest.approx([1e-5 + 1e8 / 1e10, 1e-5])
    alike = load_layers(written(tmp_path, "time [s],transfer [ms]", "1,5", "1,0"), MACHINE).problem
    assert [kind.count for kind in alike.kinds] == [1, 2] and alike.transfer.tolist() == [5e-3, 0.0]


def test_shared_weights_are_held_once_on_each_device(tmp_path: Path) -> None:
    """GPT-2: words and head share 154 MB; seven layers with the words, five with the head."""
    path = written(
        tmp_path, "layer,count,size [MB],shared-with", "words,1,157.5,", "layers,12,28.35,", "head,1,154.4,words"
    )
    table = load_layers(path, devices=2)
    first, second = Stage(0, 8, 0), Stage(8, 14, 1)
    assert [table.chain.held(s) for s in (first, second)] == pytest.approx([355.95e6, 296.15e6])
    assert table.chain.held(Stage(0, 14, 0)) == pytest.approx(497.7e6)
    assert table.problem.held(np.repeat([0, 1], [8, 6]).astype(np.int32)) == pytest.approx([355.95e6, 296.15e6])
    small = table.chain.sizes()
    assert small[0, 8] == pytest.approx(355.95e6) and small[0, 14] == pytest.approx(497.7e6)


def test_links_and_caches_of_a_chain(tmp_path: Path) -> None:
    path = written(tmp_path, "layer,count,time [s],output [MB]", "words,1,1,5", "layers,3,1,10", "head,1,1,0")
    chain = load_layers(path, MACHINE).chain
    assert chain.cache.tolist() == [0, 1, 1, 1, 0] and not chain.per_token
    assert chain.hop(1, 1, 2) == pytest.approx(1e-5 + 5e6 / 1e10)
    stages = [Stage(0, 2, 1), Stage(2, 5, 2)]
    assert chain.loads(stages).tolist() == pytest.approx([2 + 1e-5 + 1e-3, 3 + 1e-5 + 1e-3])
    assert chain.latency_of(stages) == pytest.approx(5 + 1e-5 + 1e-3)
    assert chain.room(stages) == 8e9 / 2
    path = written(tmp_path, "time [s],cache [kB],transfer [ms]", "1,2,5", "1,0,5")
    chain = load_layers(path, MACHINE).chain
    assert chain.cache.tolist() == [2000, 0] and chain.per_token and chain.hop(1, 0, 1) == 5e-3


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((), "expected a line of headings"),
        (("time [ms]",), "expected a line of headings"),
        (("layer,count", "a,1"), "expected a column of times or sizes"),
        (("time", "1"), "column 'time' has no known unit; write one of time [us], time [ms], time [s]"),
        (("time [min]", "1"), "has no known unit"),
        (("count [ms],time [s]", "1,1"), "write count, without a unit"),
        (("tme [ms]", "1"), "unknown column 'tme [ms]'; did you mean 'time'"),
        (("size gpu [MB]", "1"), "unknown column 'size gpu [MB]'"),
        (("time [s],time [s]", "1,1"), "a heading occurs twice"),
        (("time cpu [s],time gpu [ms]", "1,1"), "columns of time have the units s and ms"),
        (("time [s],size [B]", "1"), "line 2: 1 fields for 2 columns"),
        (("time [s]", "1", "-1"), "line 3: time is '-1'; expected a non-negative number"),
        (("time [s]", "nan"), "line 2: time is 'nan'"),
        (("size [GB]", "1e999"), "line 2: size is '1e999'"),
        (("time [s],count", "1,0"), "count is '0'; expected a whole number of at least 1"),
        (("time [s],count", "1,999999"), "999999 layers are more than 10000"),
        (("time gpu [s]", "1"), "no times without a platform; add a column time [ms]"),
        (("time [s],output [MB]", "1,1"), "the time of an output depends on links"),
        (('time [s]"', "1"), "t.csv"),
        (("layer,size [B],shared-with", "a,1,b"), "layer 'a' is shared-with 'b'; expected the name of another layer"),
        (("layer,size [B],shared-with", "a,1,a"), "expected the name of another layer"),
        (("layer,size [B],shared-with", "a,1,b", "b,1,c", "c,1,"), "share with 'b', which itself is shared-with 'c'"),
    ],
)
def test_bad_tables_are_refused_in_a_sentence(tmp_path: Path, lines: tuple[str, ...], words: str) -> None:
    with pytest.raises(ProblemError) as caught:
        load_layers(written(tmp_path, *lines), devices=2)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_what_a_platform_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="no times for device 'host'; add a column time host"):
        load_layers(written(tmp_path, "time gpu [ms]", "1"), MACHINE)
    with pytest.raises(ProblemError, match="sizes in parameters"):
        load_layers(written(tmp_path, "size [parameters]", "1"), MACHINE)
    with pytest.raises(ProblemError, match="gone.csv"):
        load_layers(tmp_path / "gone.csv")
