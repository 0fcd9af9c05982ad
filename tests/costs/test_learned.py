"""Learned costs: the input of a fit, its predictions, and files that are refused."""

import json
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

from hetgym import load_graph, load_platform
from hetgym.costs import AutoCosts, CostModel, LearnedCosts, Roofline, artefact, load_costs
from hetgym.costs.features import FEATURES, physics
from hetgym.costs.fitting import Score, fit, group_numbers, held_out, predict_rows, shape_group
from hetgym.costs.learned import REGRESSORS
from hetgym.costs.scoring import named_graphs
from hetgym.device import Device
from hetgym.errors import ArtefactError, UnknownName
from hetgym.graph import Operator, Tensor
from hetgym.measurements import Dataset, Measurement, Measurements
from hetgym.topology.boards import find_board

CPU = Device("cpu", "cpu", {"float32": 1e11}, 1e10, launch_overhead=2e-6, processors=1, cache_bytes=2e6)


def relu(*shape):
    return Operator("r", "Relu", (Tensor(shape),), (Tensor(shape),))


def gemm(m, k, n):
    weights = Tensor((n, k), constant=True), Tensor((n,), constant=True)
    return Operator("g", "Gemm", (Tensor((m, k)), *weights), (Tensor((m, n)),), {"transB": 1})


def measured(count=160, seed=0):
    """A device that reaches a third of the peak on products and half of the bandwidth, with 3 % noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        sizes = [int(v) for v in 2 ** rng.uniform(3, 10, 3)]
        op, ratio = (gemm(*sizes), 3.0) if i % 2 else (relu(*sizes[:2]), 2.0)
        seconds = float(physics([op], CPU)[0] * ratio * rng.lognormal(0, 0.03))
        rows.append(
            Measurement(op, seconds, seconds, seconds, 9, context="graph" if i % 3 else "isolated", source="random-0")
        )
    return Measurements(tuple(rows))


@pytest.fixture(scope="module")
def costs():
    return fit(measured(), CPU, "polynomial")


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow) if kind in ("neural", "blend", "gaussian") else kind
        for kind in REGRESSORS
    ],
)
def test_every_kind_finds_a_simple_law(kind):
    pytest.importorskip("torch" if kind in ("neural", "gaussian", "blend") else "numpy")
    pytest.importorskip("lightgbm" if kind in ("boosted", "blend") else "numpy")
    table = measured()
    held = held_out(table.operators, 0.25)
    found = fit(table.where(~held), CPU, kind, spread=False)
    assert isinstance(found, CostModel)
    test = table.where(held)
    assert Score.of(predict_rows(found, test, CPU), test.seconds).mean < 0.08
    (again,) = fit(table.where(~held), CPU, kind, spread=False, only=[relu(2, 2)]).classes.items()
    first, second = (model.regressor.arrays() for model in (found.classes[again[0]], again[1]))
    assert all(np.array_equal(a, b) for a, b in zip(first.values(), second.values(), strict=True))


def test_the_split_keeps_whole_shape_groups_together():
    operators = [gemm(m, 64, 32) for m in (1, 2, 4, 8)] + [relu(3, n) for n in range(200)]
    held = held_out(operators, 0.3)
    assert len(set(held[:4].tolist())) == 1, "one layer at several batch sizes is one group"
    assert 0.15 < held[4:].mean() < 0.45
    numbers = group_numbers(operators)
    assert len(set(numbers[:4].tolist())) == 1
    assert {shape_group(op) for op, h in zip(operators, held, strict=True) if h}.isdisjoint(
        shape_group(op) for op, h in zip(operators, held, strict=True) if not h
    )


def test_no_held_out_shape_or_label_reaches_the_fit(monkeypatch):
    from hetgym.costs import scoring

    table = measured()
    rows = [
        *table.rows,
        *(Measurement(gemm(m, 96, 96), 1e-3, 1e-3, 1e-3, 9, context="graph", source="bert") for m in (2, 4)),
    ]
    table = Measurements(tuple(rows))
    seen = []
    real = scoring.fit

    def spy(part, *arguments, **options):
        seen.append(part)
        return real(part, *arguments, **options)

    monkeypatch.setattr(scoring, "fit", spy)
    scores = scoring.Scores.of(table, CPU, "roofline", 0)
    shapes, whole = seen
    tested = {shape_group(row.operator) for row in scores.shapes[0]}
    assert tested
    assert tested.isdisjoint(shape_group(row.operator) for row in shapes)
    assert all(row.source != "bert" for part in (shapes, whole) for row in part)
    assert set(scores.graphs) == {"bert"}


def test_predictions_are_kept_finite_and_positive(costs):
    absurd = [relu(1), relu(2**40), relu(0, 5), gemm(1, 1, 1), gemm(2**20, 2**20, 2**20), relu(*(1,) * 20)]
    unknown = [
        Operator("t", "Task", (Tensor((4,)),), (Tensor((4,)),), {"flops": 1e9}),
        Operator("x", "Unheard", (Tensor((4,)),), (Tensor((4,)),)),
    ]
    seconds = costs.predict([*absurd, *unknown], CPU)
    assert np.isfinite(seconds).all()
    assert (seconds > 0).all()
    low, high = costs.spread(absurd, CPU)
    assert (low <= costs.predict(absurd, CPU)).all()
    assert (high >= costs.predict(absurd, CPU)).all()
    assert np.isinf(
        costs.predict([Operator("d", "Exp", (Tensor((4,), "float64"),), (Tensor((4,), "float64"),))], CPU)
    ).all()


def test_500_operators_take_less_than_5_ms_warm(costs):
    operators = load_graph("gpt2").operators[:438] + load_graph("bert_base").operators[:62]
    costs.predict(operators, CPU)
    best = 9.9
    for _ in range(20):
        start = time.process_time()
        costs.predict(operators, CPU)
        best = min(best, time.process_time() - start)
    assert best < 5e-3


def test_a_full_memory_of_shapes_starts_afresh(costs, monkeypatch):
    monkeypatch.setattr("hetgym.costs.learned._KEPT", 3)
    operators = [relu(2, n) for n in range(1, 9)]
    first = costs.predict(operators, CPU)
    assert np.array_equal(costs.predict(operators[::-1], CPU)[::-1], first)


def test_a_model_is_saved_and_loaded(costs, tmp_path):
    costs.save(tmp_path / "m.npz")
    again = LearnedCosts.load(tmp_path / "m.npz")
    operators = load_graph("bert_base").operators
    assert np.array_equal(again.predict(operators, CPU), costs.predict(operators, CPU))
    first = (tmp_path / "m.npz").read_bytes()
    again.save(tmp_path / "m.npz")
    assert (tmp_path / "m.npz").read_bytes() == first


def rewritten(path, header=None, drop=(), extra=None):
    """The archive with its header changed, arrays left out or added."""
    found, arrays = artefact.load(path)
    arrays = {k: v for k, v in arrays.items() if k not in drop} | (extra or {})
    artefact.save(path, {**found, **(header or {})}, arrays)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"header": {"model": "oracle"}}, "unknown kind of cost model"),
        ({"header": {"features": ["a"]}}, "features that this version"),
        ({"header": {"classes": {}}}, "not those of the arrays"),
        ({"header": {"card": 3}}, "no classes or no card"),
        ({"drop": ("Gemm/lower",)}, "'lower' is missing"),
        ({"extra": {"Gemm/more": np.zeros(3)}}, "unexpected arrays"),
        ({"extra": {"Gemm/ratio": np.array([0.0, np.nan, 1.0])}}, "'Gemm/ratio' holds entries that are not finite"),
    ],
)
def test_tampered_models_are_refused(costs, tmp_path, change, words):
    costs.save(tmp_path / "m.npz")
    with pytest.raises(ArtefactError, match=words):
        LearnedCosts.load(rewritten(tmp_path / "m.npz", **change))


def test_figures_of_a_class_are_checked(costs, tmp_path):
    costs.save(tmp_path / "m.npz")
    rows = artefact.load(tmp_path / "m.npz")[0]["classes"]
    for bad in ({"p10": 1e9}, {"p10": "x"}, {"rows": 1.5}, {"median": True}):
        rewritten(tmp_path / "m.npz", header={"classes": rows | {"Gemm": rows["Gemm"] | bad}})
        with pytest.raises(ArtefactError, match="Gemm"):
            LearnedCosts.load(tmp_path / "m.npz")


def test_damaged_files_are_refused(costs, tmp_path):
    costs.save(tmp_path / "m.npz")
    data = (tmp_path / "m.npz").read_bytes()
    (tmp_path / "torn.npz").write_bytes(data[: len(data) // 2])
    (tmp_path / "text.npz").write_text("hello")
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("header.npy", b"\x93NUMPY garbage\n{}")
    flipped = bytearray(data)
    flipped[len(data) // 3] ^= 0xFF
    (tmp_path / "flipped.npz").write_bytes(bytes(flipped))
    for name in ("torn", "text", "other", "flipped"):
        with pytest.raises(ArtefactError, match=name):
            LearnedCosts.load(tmp_path / f"{name}.npz")
    with pytest.raises(ArtefactError, match="did you mean|known"):
        load_costs("nothing-of-the-kind")


def test_loading_never_executes_code(tmp_path):
    """An object array would be unpickled; it is refused before it is read."""
    marker = tmp_path / "executed"

    class Evil:
        def __reduce__(self):
            return (open, (str(marker), "w"))

    header = {"format": artefact.FORMAT, "version": artefact.VERSION, "arrays": {"a": "float64"}}
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(tmp_path / "e.npz", header=text, a=np.array([Evil()], dtype=object))
    with pytest.raises(ArtefactError):
        LearnedCosts.load(tmp_path / "e.npz")
    assert not marker.exists()


def test_a_fit_needs_rows_and_a_known_kind():
    with pytest.raises(ArtefactError, match="nothing to fit"):
        fit(Measurements(()), CPU)
    with pytest.raises(UnknownName, match="did you mean 'boosted'"):
        fit(measured(4), CPU, "bosted")


@pytest.mark.parametrize("name", artefact.names())
def test_shipped_models_price_graphs(name):
    model = load_costs(name)
    device = load_platform("cpu-gpu")["cpu" if name.startswith("cpu") else "gpu"]
    for graph in ("resnet50", "gpt2"):
        operators = load_graph(graph).operators
        seconds = model.predict(operators, device)
        low, high = model.spread(operators, device)
        assert np.isfinite(seconds).all()
        assert ((low <= seconds + 1e-11) & (seconds <= high + 1e-11)).all()
        families = np.array([op.spec.family for op in operators])
        assert (seconds[families != "view"] > 0).all()


def test_auto_takes_the_model_that_a_device_names(costs, tmp_path):
    costs.save(tmp_path / "m.npz")
    named = Device(**{**CPU.to_dict(), "costs": str(tmp_path / "m.npz")})
    operators = load_graph("bert_base").operators
    assert np.array_equal(AutoCosts().predict(operators, named), costs.predict(operators, named))
    assert np.array_equal(AutoCosts().predict(operators, CPU), Roofline().predict(operators, CPU))
    with pytest.raises(ArtefactError, match="neither an .npz file"):
        AutoCosts().predict(operators, Device(**{**CPU.to_dict(), "costs": "gone"}))


def test_networks_of_an_h100_are_priced_by_measurements_of_an_h200() -> None:
    dataset = Dataset.load("h100")
    board = find_board(dataset.device.model, "", (), "h100").named("gpu")
    table = dataset.table.timed()
    table = table.where(named_graphs(table))
    seconds = AutoCosts().predict(table.operators, board)
    predicted, measured = {}, {}
    for row, price in zip(table, seconds, strict=True):
        if row.source.endswith(("-b1", "-b32")):
            predicted[row.source] = predicted.get(row.source, 0.0) + row.count * price
            measured[row.source] = measured.get(row.source, 0.0) + row.count * row.seconds
    score = Score.of(list(predicted.values()), list(measured.values()))
    assert board.costs == "h200" and score.n == 27
    assert score.mean < 0.09 and abs(score.bias) < 0.02


@pytest.mark.parametrize("name", ["xeon-core", "xeon-core-avx2"])
def test_half_precision_is_no_faster_on_cores_without_it(name):
    model = load_costs(name)
    plain = Device("cpu", "cpu", {"float32": 1e11}, 2e10)
    for m, k, n in ((1, 64, 64), (16, 512, 512), (256, 1024, 4096), (2048, 2048, 2048)):
        pair = []
        for dtype in ("float16", "float32"):
            left, right, out = (Tensor(shape, dtype) for shape in ((m, k), (k, n), (m, n)))
            pair.append(Operator("p", "MatMul", (left, right), (out,)))
        half, single = model.predict(pair, plain)
        assert half > single


@pytest.mark.slow
def test_predicting_needs_no_extra():
    script = (
        "import sys, hetgym; from hetgym import load_graph, load_platform;"
        "hetgym.Problem.build(load_graph('squeezenet'), load_platform('cpu-gpu'));"
        "print(sorted({'torch', 'lightgbm', 'sklearn', 'pandas'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("rows", [1, 2, 4, 5])
def test_boosted_trees_are_fitted_to_a_handful_of_rows(rows: int) -> None:
    pytest.importorskip("lightgbm")
    x = np.arange(2.0 * rows * len(FEATURES)).reshape(2 * rows, len(FEATURES))[:rows]
    model = REGRESSORS["boosted"].fit(x, np.arange(float(rows)), np.arange(rows, dtype=np.int32), 0)
    assert np.isfinite(model.predict(x)[0]).all()
