from __future__ import annotations

import gzip
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from hetgym._input.files import write_text
from hetgym.errors import GraphError, UnknownName
from hetgym.graph import KINDS, load_graph, to_json, zoo
from hetgym.graph.parametric import parametric
from hetgym.graph.serialization import dumps

SCRIPTS = Path(__file__).parents[2] / "scripts"

# GFLOP at batch 1 and million parameters, as published; a multiply-add is two FLOPs.
PUBLISHED = {
    "alexnet": (1.4, 61.0),  # Krizhevsky et al. 2012: 60 million parameters
    "densenet121": (5.7, 8.0),  # Huang et al. 2017, figure 3 and table 2
    "inception_v1": (3.0, 7.0),  # Szegedy et al. 2015: 1.5 G multiply-adds
    "inception_v2": (4.0, 11.2),
    "resnet50": (8.2, 25.6),  # He et al. 2016: 3.8 G multiply-adds without the last layers of version 1.5
    "shufflenet": (0.27, 1.4),  # Zhang et al. 2018: 137 M multiply-adds at 1x and 3 groups
    "squeezenet": (0.70, 1.24),  # Iandola et al. 2016: 1.24 million parameters
    "vgg19": (39.3, 143.7),  # Simonyan & Zisserman 2015: 144 million parameters, 19.6 G multiply-adds
    "bert_base": (22.4, 110.0),  # Devlin et al. 2019: 110 million parameters
    "gpt2": (32.4, 124.4),  # 124 million parameters
    "vit_b16": (35.2, 86.6),  # Dosovitskiy et al. 2021: 86 million parameters, 17.6 G multiply-adds
}


def parameters(graph):
    """Elements of distinct weights."""
    return sum(t.size for t in {t for op in graph.operators for t in op.inputs if t.constant})


@pytest.fixture(scope="module")
def recipes():
    """The importers of scripts/make_zoo.py."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield importlib.import_module("make_zoo").importers()
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures(name):
    graph = zoo.load(name)
    gflop, millions = PUBLISHED[name]
    assert graph.flops.sum() / 1e9 == pytest.approx(gflop, rel=0.07)
    assert parameters(graph) / 1e6 == pytest.approx(millions, rel=0.02)


@pytest.mark.parametrize("name", zoo.names())
def test_every_model_scales_with_the_batch(name):
    one, eight = zoo.load(name), zoo.load(name, batch=8)
    assert one.name == name and one.edges == eight.edges
    np.testing.assert_allclose(eight.flops, 8 * one.flops, rtol=1e-12)
    assert parameters(eight) == pytest.approx(parameters(one), rel=0.02)  # but for masks and initial states
    assert {op.kind for op in one.operators} <= KINDS.keys()


@pytest.mark.parametrize("name", zoo.names())
def test_every_model_is_connected_and_described(name):
    graph = zoo.load(name)
    assert (graph.in_degree == 0).sum() <= 24  # inputs; the cells of a recurrent net need but one
    assert (graph.out_degree == 0).sum() <= 2
    description, source = zoo.MODELS[name]
    assert len(description) > 10 and any(character.isdigit() for character in source)
    assert (zoo.FOLDER / f"{name}.json.gz").stat().st_size < 60_000


def test_the_folder_holds_the_models_and_nothing_else():
    assert sorted(path.name for path in zoo.FOLDER.iterdir()) == [f"{name}.json.gz" for name in zoo.names()]


@pytest.mark.parametrize("name", ["alexnet", "shufflenet", "inception_v1", "lstm"])
def test_rebuilding_gives_the_shipped_file(recipes, name, tmp_path):
    document = parametric(recipes[name])
    shipped = zoo.FOLDER / f"{name}.json.gz"
    assert dumps(document) == gzip.decompress(shipped.read_bytes()).decode()
    write_text(tmp_path / "again.json.gz", dumps(document), GraphError)
    assert (tmp_path / "again.json.gz").read_bytes() == shipped.read_bytes()


def test_recipes_and_models_are_the_same(recipes):
    assert sorted(recipes) == zoo.names()


def test_the_lstm_is_a_grid_of_layers_and_steps():
    graph = zoo.load("lstm")
    cells = np.array([op.kind == "LSTMCell" for op in graph.operators])
    depth = graph.depth[cells].reshape(24, 4)  # cell (step, layer)
    assert (depth == 1 + 1 + np.arange(24)[:, None] + np.arange(4)).all()  # behind the embedding and its slices


def test_nasnet_cells_have_branches():
    graph = zoo.load("nasnet")
    widths = np.bincount(graph.depth)
    assert 200 <= len(graph) <= 420 and widths.max() >= 6 and graph.is_join.sum() > 40


@pytest.mark.slow
def test_the_full_nasnet_matches_the_paper(recipes):
    # Zoph et al., CVPR 2018, table 3: NASNet-A (4 @ 1056) has 5.3 million parameters and 564 million multiply-adds
    import torch

    networks = importlib.import_module("zoo_networks")
    with torch.device("meta"):
        graph = sys.modules["make_zoo"].from_torch(networks.NASNetA(repeats=4), torch.zeros(1, 3, 224, 224))
    conv = sum(op.flops for op in graph.operators if op.kind in ("Conv", "Gemm"))
    assert conv / 2e6 == pytest.approx(564, rel=0.02)
    assert parameters(graph) / 1e6 == pytest.approx(5.3, rel=0.02)


# load_graph


def test_load_graph_takes_names_and_files(tmp_path):
    path = tmp_path / "net.json.gz"
    to_json(zoo.load("alexnet"), path)
    assert load_graph("alexnet") == load_graph(path) == load_graph(str(path), batch=None)
    light = Path(onnx.__file__).parent / "backend/test/data/light/light_bvlc_alexnet.onnx"
    assert load_graph(light, batch=4, name="a") == load_graph("alexnet", batch=4)
    assert load_graph(light, batch=4, name="a").name == "a"


@pytest.mark.parametrize(
    ("source", "options", "error", "sentence"),
    [
        ("resnet5", {}, UnknownName, "unknown graph 'resnet5'; did you mean 'resnet50'"),
        ("nowhere/net.onnx", {}, GraphError, "no such file"),
        ("nowhere/net.json", {}, GraphError, "no such file"),
        ("nowhere/net.pt", {}, GraphError, "neither a name of the zoo nor a file that ends in"),
        ("net.pt", {}, GraphError, "nor a file that ends in .onnx, .pt2, .json, .json.gz, .gguf, .safetensors or .py"),
        (3, {}, GraphError, "a graph is read from a path, not from int"),
        ("alexnet", {"batch": 0}, GraphError, "batch must be"),
        ("alexnet", {"dims": {}}, GraphError, "unknown option 'dims'"),
        ("llama-3-8b", {"dims": 3}, GraphError, "dims is 3, not a mapping from names to sizes"),
        ("llama-3-8b", {"dims": {"sequence": 8}, "sequence": 9}, GraphError, "sequence is given twice"),
        ("net.onnx", {"dim": {}}, GraphError, "takes the options dims and name, not 'dim'"),
    ],
)
def test_load_graph_refuses(source, options, error, sentence):
    with pytest.raises(error, match=sentence):
        load_graph(source, **options)


def test_zoo_load_suggests_names():
    with pytest.raises(UnknownName, match="did you mean 'bert_base'"):
        zoo.load("bert")


def test_the_zoo_needs_neither_onnx_nor_torch():
    code = (
        "import sys; from hetgym.graph import zoo; [zoo.load(n, 2) for n in zoo.names()];"
        "sys.exit(bool({'onnx', 'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=300).returncode == 0
