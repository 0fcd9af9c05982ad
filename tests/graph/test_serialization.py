from __future__ import annotations

import copy
import gzip
import json
import tracemalloc

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym.errors import GraphError
from hetgym.graph import DataflowGraph, Operator, Tensor, from_json, serialization, to_json, zoo
from hetgym.graph.assembly import MAX_ELEMENTS
from hetgym.graph.ops import DTYPE_BYTES
from hetgym.graph.parametric import parametric
from hetgym.graph.serialization import to_document

X, Y, W = Tensor((1, 3, 8, 8)), Tensor((1, 4, 6, 6)), Tensor((4, 3, 3, 3), constant=True, name="w")


def tiny():
    conv = Operator("conv", "Conv", (X, W), (Y,), {"kernel_shape": (3, 3), "auto_pad": "VALID", "group": 1})
    relu = Operator("relu", "Relu", (Y,), (Y,))
    return DataflowGraph([conv, relu], [(0, 0, 1)], "tiny")


NAMES = st.text(min_size=1, max_size=8)
TENSORS = st.builds(
    Tensor,
    st.lists(st.integers(0, 50), max_size=4).map(tuple),
    st.sampled_from(sorted(DTYPE_BYTES)),
    st.booleans(),
    st.text(max_size=3),
)
ATTRIBUTES = st.dictionaries(
    NAMES,
    st.one_of(
        st.integers(1 - 2**63, 2**63 - 1),
        st.floats(-1e18, 1e18),
        st.text(max_size=5),
        st.lists(st.integers(-9, 9), max_size=4).map(tuple),
    ),
    max_size=3,
)


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 12))
    names = draw(st.lists(NAMES, min_size=n, max_size=n, unique=True))
    operators = []
    for name in names:
        kind = draw(st.sampled_from(["Relu", "Add", "Softmax", "Reshape", "odd kind"]))
        inputs, outputs = draw(st.lists(TENSORS, max_size=3)), draw(st.lists(TENSORS, min_size=1, max_size=3))
        operators.append(Operator(name, kind, tuple(inputs), tuple(outputs), draw(ATTRIBUTES)))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20))
    edges = [(u, draw(st.integers(0, len(operators[u].outputs) - 1)), v) for u, v in pairs if u < v]
    return DataflowGraph(operators, edges, draw(st.text(max_size=8)))


@given(graphs())
def test_a_graph_survives_the_way_there_and_back(graph):
    text = to_json(graph)
    again = from_json(text)
    assert again == graph and again.name == graph.name
    assert to_json(again) == text
    kinds = [type(value) for op in graph.operators for _, value in sorted(op.attributes.items())]
    assert [type(value) for op in again.operators for _, value in sorted(op.attributes.items())] == kinds


@pytest.mark.parametrize("name", ["g.json", "g.json.gz"])
def test_files(tmp_path, name):
    path = tmp_path / name
    text = to_json(tiny(), path)
    first = path.read_bytes()
    assert from_json(path) == tiny() == from_json(str(path))
    assert (gzip.decompress(first) if name.endswith("gz") else first) == text.encode()
    to_json(tiny(), path)
    assert path.read_bytes() == first  # nothing of the moment is in it


def test_documents_and_numpy_sizes():
    assert from_json(to_document(tiny())) == tiny()
    shape = tuple(np.array([2, 3]))
    graph = DataflowGraph([Operator("a", "Relu", (Tensor(shape),), (Tensor(shape),))], [])
    assert from_json(to_json(graph)) == graph


def test_each_tensor_type_is_written_once():
    document = to_document(tiny())
    assert document["tensors"] == [
        {"shape": [1, 3, 8, 8], "dtype": "float32"},
        {"shape": [4, 3, 3, 3], "dtype": "float32", "constant": True, "name": "w"},
        {"shape": [1, 4, 6, 6], "dtype": "float32"},
    ]
    assert document["operators"][1] == {"name": "relu", "kind": "Relu", "inputs": [2], "outputs": [2]}


# Batch


def sized(batch, extra=0):
    x, y = Tensor((batch, 3, 4)), Tensor((12 * batch + extra, 1))
    return DataflowGraph([Operator("r", "Reshape", (x,), (y,)), Operator("a", "Relu", (y,), (y,))], [(0, 0, 1)], "s")


def ranked(batch):
    x = Tensor((1,) * batch)
    return DataflowGraph([Operator("a", "Relu", (x,), (x,))], [], "s")


@given(batch=st.integers(1, 1 << 20))
def test_a_parametric_document_gives_the_graph_at_every_batch(batch):
    document = parametric(sized)
    assert [row["shape"] for row in document["tensors"]] == [["batch", 3, 4], ["12*batch", 1]]
    assert from_json(document, batch=batch) == sized(batch)


@pytest.mark.parametrize(
    ("importer", "sentence"),
    [
        (lambda b: sized(b, extra=1), "operator 'r': dimension 13 becomes 25, which is not a multiple"),
        (lambda b: sized(min(b, 2)), "at batch 3 differs from what its batches 1 and 2 predict"),
        (lambda b: tiny() if b == 1 else sized(b), "changes its structure"),
        (lambda b: ranked(b), r"operator 'a': the rank of \(1,\) changes"),
        (lambda b: DataflowGraph(sized(b).operators[:b], [], "s"), "changes its structure"),
    ],
)
def test_models_that_no_single_document_describes(importer, sentence):
    with pytest.raises(GraphError, match=sentence):
        parametric(importer)


@pytest.mark.parametrize("batch", [0, -1, True, 2.0, "2", None, 1 << 30])
def test_bad_batches(batch):
    with pytest.raises(GraphError, match="batch must be a whole number from 1 to"):
        from_json(to_json(tiny()), batch=batch)


# Bad input: a path into the document, what to put there, and what the sentence says

BAD = [
    ((), [], "the document is a list, not an object"),
    (("format",), "other", "format is 'other', not 'hetgym-graph'"),
    (("version",), 2, "version is 2; this hetgym reads version 1"),
    (("version",), True, "version is True"),
    (("version",), None, "version is null"),
    (("nmae",), "x", "the document has an unknown field 'nmae'; did you mean 'name'"),
    (("name",), 3, "name is a number, not a string"),
    (("tensors",), {}, "tensors is an object, not a list"),
    (("tensors", 0), 1, r"tensors\[0\] is a number, not an object"),
    (("tensors", 0), {"shape": []}, r"tensors\[0\] has no 'dtype'"),
    (("tensors", 0, "dtype"), "float31", r"tensors\[0\]: unknown dtype 'float31'"),
    (("tensors", 0, "dtype"), ["float32"], r"tensors\[0\].dtype is a list, not a string"),
    (("tensors", 0, "shape"), 4, r"tensors\[0\].shape is a number, not a list"),
    (("tensors", 0, "shape", 1), -1, r"tensors\[0\].shape\[1\] is -1, not a non-negative whole number"),
    (("tensors", 0, "shape", 1), 1.5, "is 1.5, not a non-negative whole number"),
    (("tensors", 0, "shape", 1), True, "is True, not a non-negative whole number"),
    (("tensors", 0, "shape", 1), MAX_ELEMENTS + 1, "out of range"),
    (("tensors", 0, "shape"), [1 << 20] * 3, "out of range"),
    (("tensors", 0, "shape", 1), 10**30, "is a huge number, not a non-negative whole number"),
    (("tensors", 0, "shape", 0), "2*seq", "is '2.seq'; a dimension is a whole number, 'batch' or 'k.batch'"),
    (("tensors", 0, "shape", 0), "0*batch", "a dimension is"),
    (("tensors", 0, "shape", 0), "batch*batch", "a dimension is"),
    (("tensors", 0, "shape", 0), "999999999999999999*batch", "out of range"),
    (("tensors", 1, "constant"), 1, r"tensors\[1\].constant is 1, not true or false"),
    (("tensors", 1, "name"), None, r"tensors\[1\].name is null, not a string"),
    (("operators",), [], "has no operators"),
    (("operators", 1), "relu", r"operators\[1\] is a string, not an object"),
    (("operators", 1, "kind"), "", "has an empty name or kind"),
    (("operators", 1, "name"), "conv", "operators 0 and 1 are both named 'conv'"),
    (("operators", 1, "input"), [], r"operators\[1\] has an unknown field 'input'; did you mean 'inputs'"),
    (("operators", 1, "inputs"), [3], r"operators\[1\].inputs names tensor 3, but there are 3"),
    (("operators", 1, "inputs"), ["x"], "is 'x', not a non-negative whole number"),
    (("operators", 1, "outputs"), [], "outputs is empty"),
    (("operators", 0, "inputs"), [0], "operator 'conv' is not a valid Conv"),
    (("operators", 0, "attributes"), [], "attributes is a list, not an object"),
    (("operators", 0, "attributes", "group"), None, "'group'. is null, not a number"),
    (("operators", 0, "attributes", "group"), True, "'group'. is True, not a number"),
    (("operators", 0, "attributes", "kernel_shape"), [1.5], "'kernel_shape'. is 1.5"),
    (("operators", 0, "attributes", "kernel_shape"), [[1]], "'kernel_shape'. is a list"),
    (("operators", 1), {"name": "t", "kind": "Task", "inputs": [], "outputs": [0], "attributes": {"flops": -1.0}},
     "'t' .Task. has a negative or infinite cost"),
    (("operators", 1), {"name": "p", "kind": "MaxPool", "inputs": [0], "outputs": [0],
                        "attributes": {"kernel_shape": "x"}}, "'p' is not a valid MaxPool"),
    (("edges", 0), [0, 0], r"edges\[0\] has 2 numbers, not three"),
    (("edges", 0), [0, 0, "1"], r"edges\[0\] is '1', not a non-negative whole number"),
    (("edges", 0), [0, 1, 1], "reads output 1 of 'conv', which has 1"),
    (("edges", 0), [0, 0, 2], "edge 0 -> 2 is outside the range 0..1"),
    (("edges", 0), [0, 0, 1 << 40], "is outside the range"),
    (("edges",), [[0, 0, 1], [1, 0, 0]], "has a cycle: "),
]  # fmt: skip


def changed(document, where, value):
    if not where:
        return value
    document = copy.deepcopy(document)
    *way, last = where
    place = document
    for key in way:
        place = place[key]
    place[last] = value
    return document


@pytest.mark.parametrize(("where", "value", "sentence"), BAD)
def test_bad_documents(tmp_path, where, value, sentence):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(changed(to_document(tiny()), where, value)))
    with pytest.raises(GraphError, match=sentence) as caught:
        from_json(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["format", "version", "name", "tensors", "operators", "edges"])
def test_missing_fields(field):
    document = {key: value for key, value in to_document(tiny()).items() if key != field}
    with pytest.raises(GraphError, match=field):
        from_json(document)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"format"', "not JSON"),
        ('{"name": "a", "name": "b"}', "field 'name' appears twice"),
        ('{"version": NaN}', "NaN is not a JSON number"),
        ('{"version": -Infinity}', "-Infinity is not a JSON number"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"version": ' + "9" * 10_000 + "}", "not JSON"),
        ('{"version": 1e999, "format": "hetgym-graph"}', "version is inf"),
    ],
)
def test_bad_text(text, sentence):
    with pytest.raises(GraphError, match=sentence) as caught:
        from_json(text)
    assert "\n" not in str(caught.value)


def test_bad_files(tmp_path, monkeypatch):
    good = gzip.compress(to_json(tiny()).encode())
    path = tmp_path / "g.json.gz"

    def refused(data, sentence):
        path.write_bytes(data)
        with pytest.raises(GraphError, match=sentence) as caught:
            from_json(path)
        assert str(path) in str(caught.value)

    refused(good[: len(good) // 2], "damaged gzip file")
    refused(good[:-6] + b"\0\0\0\0\0\0", "damaged gzip file")
    refused(b"\x1f\x8b", "damaged gzip file")
    refused(good[:20] + b"\xff" * 20 + good[40:], "damaged gzip file")
    refused(b"", "not JSON")
    refused(b"\x80abc", "not UTF-8")
    refused(gzip.compress(b"\x80abc"), "not UTF-8")
    refused(b"PK\x03\x04", "not JSON")
    with pytest.raises(GraphError, match="no such file"):
        from_json(tmp_path / "none.json")
    with pytest.raises(GraphError, match="cannot be read"):
        from_json(tmp_path)
    with pytest.raises(GraphError, match="cannot be read"):
        from_json("a\0b.json")
    with pytest.raises(GraphError, match="from a path, JSON text or a dictionary, not int"):
        from_json(3)
    with pytest.raises(GraphError, match="cannot be written"):
        to_json(tiny(), tmp_path / "none" / "g.json")
    monkeypatch.setattr(serialization, "LIMIT_BYTES", 1 << 20)
    refused(b" " * ((1 << 20) + 1), "longer than 1 MiB")


def test_a_gzip_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(serialization, "LIMIT_BYTES", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(bytes(64 << 20)))
    tracemalloc.start()
    with pytest.raises(GraphError, match="longer than 1 MiB"):
        from_json(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


# Fuzz

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6), st.just("3*batch")),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=8,
)


def places(value, where=()):
    yield where
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*where, key))


DOCUMENT = to_document(tiny())
PLACES = list(places(DOCUMENT))


@given(st.lists(st.tuples(st.sampled_from(PLACES), JSON), min_size=1, max_size=2))
@examples(400)
def test_any_document_gives_a_graph_or_one_sentence(changes):
    document = DOCUMENT
    for where, value in changes:
        try:
            document = changed(document, where, value)
        except (KeyError, IndexError, TypeError):  # an earlier change removed the place
            continue
    try:
        graph = from_json(document)
    except GraphError as error:
        assert str(error)
    else:
        assert from_json(to_json(graph)) == graph


@given(seed=st.integers(0, 2**32 - 1), packed=st.booleans())
@examples(200)
def test_any_bytes_give_a_graph_or_one_sentence(seed, packed, tmp_path_factory):
    rng = np.random.default_rng(seed)
    text = (zoo.FOLDER / "zfnet512.json.gz").read_bytes()
    data = bytearray(text if packed else gzip.decompress(text))
    for at in rng.integers(0, len(data), rng.integers(1, 5)):
        data[at] = rng.integers(256)
    path = tmp_path_factory.getbasetemp() / "fuzz.json.gz"
    path.write_bytes(data[: rng.integers(1, len(data))] if rng.random() < 0.2 else data)
    try:
        graph = from_json(path, batch=2)
    except GraphError as error:
        assert str(path) in str(error)
    else:
        assert len(graph) > 0


def test_a_batch_for_fixed_sizes_is_refused(tmp_path):
    path = tmp_path / "tiny.json"
    text = to_json(tiny(), path)
    assert from_json(path, batch=1) == tiny()
    for source in (path, text):
        with pytest.raises(GraphError, match="have fixed sizes, so the batch cannot be 64; leave the batch out"):
            from_json(source, batch=64)
