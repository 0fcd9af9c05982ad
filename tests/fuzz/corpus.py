"""Real inputs of every loader, which are then mutated."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import networkx as nx
import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper

import hetgym
from hetgym.agents.artefact import HUB_CARD, HUB_WEIGHTS
from hetgym.agents.checkpoint import Checkpoint
from hetgym.agents.network_policy import NetworkPolicy
from hetgym.agents.networks import ActorCritic
from hetgym.bench.best_schedules import save_best_schedules
from hetgym.costs.features import FEATURES
from hetgym.costs.learned import ClassModel, LearnedCosts
from hetgym.costs.learned_models import calibrated, polynomial
from hetgym.graph import to_json, to_networkx
from hetgym.graph.from_config import from_config
from hetgym.graph.from_safetensors import INDEX
from hetgym.graph.mixes import mixed
from hetgym.workloads import textbook
from tests.fuzz.loaders import SIZES, checkpoint_tensors
from tests.graph import gguf_files
from tests.graph.graphnet_files import graphnet_models, types_text
from tests.graph.models import CONFIGS
from tests.graph.test_from_pt2 import MODULES, saved, unpacked
from tests.graph.test_from_safetensors import DEEPSEEK, LLAMA, OSS, deepseek_tensors, header, oss_tensors
from tests.graph.traces import BACKWARD, CHAKRA, NODES, QUEUE, rank
from tests.sharding.documents import document as sharding_document
from tests.topology.samples import (
    DGX,
    HWLOC,
    LINES,
    LISTS,
    MAC,
    NCCL,
    NCCL_C2C,
    NCCL_SWITCH,
    NVIDIA_QUERY,
    OLD,
    PCIE,
    ROCM,
    SWITCHES,
)  # fmt: skip
from tests.workloads.test_job_shops import FLEXIBLE, FT06, TAILLARD
from tests.workloads.test_loading import PARTITIONING, WORKFLOW_14, WORKFLOW_15
from tests.workloads.test_task_graphs import COMMUNICATION, DOT, PLAIN

PACKAGE = Path(hetgym.__file__).parent
DATA = Path(os.environ.get("HETGYM_DATA", "/nonexistent"))
"""Folder of further inputs: ``hostile/*.onnx``, ``hostile/*.yaml``, ``dnn-partitioning/**/*.json.gz``."""

LARGEST = 60_000
"""Largest input that is mutated [byte]: more would make the run slow without making it better."""


@dataclass(frozen=True)
class Entry:
    """An input.

    Attributes:
        name: of the file, whose suffix loaders look at.
        data: its content.
        beside: files that must lie beside it.
    """

    name: str
    data: bytes
    beside: dict[str, bytes] = field(default_factory=dict)


def corpus(folder: Path) -> dict[str, list[Entry]]:
    """Loader -> inputs.

    Args:
        folder: empty, to write inputs in that are made here.
    """
    entries = {
        "onnx": _onnx(),
        "graph": _graphs(),
        **_programs(folder),
        **_graphnet(),
        **_language_models(folder),
        "networkx": [_json("net.json", nx.node_link_data(to_networkx(_small_graph()), edges="edges"))],
        "sharding": [_json("sharding.json", sharding_document())],
        "partitioning": [_json("part.json", PARTITIONING), *_data("dnn-partitioning/**/*.json.gz")],
        "wfcommons": [_json("flow.json", document) for document in (WORKFLOW_14, WORKFLOW_15)],
        "kineto": [
            *(_json("run.json", document) for document in (QUEUE, BACKWARD, rank(20, 40))),
            _json("flow.json", {"workload_graph": NODES}),
        ],
        "chakra": [Entry("run.et", CHAKRA)],
        "stg": [Entry("p.stg", PLAIN.encode()), Entry("c.stg", COMMUNICATION.encode())],
        "dot": [Entry("g.dot", DOT.encode().replace(b"4, inf", b"4, inf, 2").replace(b"6 3", b"6 3 1"))],
        "job-shop": [
            Entry(name, text.encode()) for name, text in (("a.jsp", FT06), ("a.txt", TAILLARD), ("a.fjs", FLEXIBLE))
        ],
        "platform": _files("configs/platforms/*.yaml") + _data("hostile/merge_bomb.yaml"),
        "topology": [
            Entry(name, text.encode())
            for name, text in (
                ("a.txt", DGX),
                ("b.txt", PCIE),
                ("c.txt", OLD),
                ("a.xml", NCCL),
                ("b.xml", NCCL_SWITCH),
                ("d.xml", NCCL_C2C),
                ("c.xml", HWLOC),
                ("d.txt", SWITCHES),
                ("e.txt", NVIDIA_QUERY),
                ("f.txt", ROCM),
                ("g.txt", MAC),
                *((f"list{k}.txt", text) for k, text in enumerate(LISTS)),
            )
        ],
        "line": [Entry(f"{k}", text.encode()) for k, text in enumerate(LINES)],
        "boards": _files("configs/boards.yaml"),
        "suite": _files("configs/suites/*.yaml") + _data("hostile/*.yaml"),
        "recipe": _files("configs/train/*.yaml") + _data("hostile/rec2.yaml"),
        "best-known": _files("configs/suites/hetbench-v1/best_known.json"),
        "problem": _problems(folder),
        "best-schedules": _schedules(folder),
        "costs": _costs(folder),
        **_measurements(),
        **_policies(folder),
        "schedule": _plans(),
    }
    return {
        name: [entry for entry in found if entry.name and len(entry.data) <= LARGEST] for name, found in entries.items()
    }


def _json(name: str, document: object) -> Entry:
    return Entry(name, json.dumps(document).encode())


def _files(pattern: str) -> list[Entry]:
    return [Entry(path.name, path.read_bytes()) for path in sorted(PACKAGE.glob(pattern))]


def _data(pattern: str) -> list[Entry]:
    """Further inputs, unpacked."""
    found = []
    for path in sorted(DATA.glob(pattern)) if DATA.is_dir() else []:
        data = path.read_bytes()
        found.append(Entry(path.name.removesuffix(".gz"), gzip.decompress(data) if path.suffix == ".gz" else data))
    return found


def _onnx() -> list[Entry]:
    data = Path(onnx.__file__).parent / "backend/test/data"
    real = [Entry(f"{path.parent.name}.onnx", path.read_bytes()) for path in sorted(data.glob("*/*/model.onnx"))]
    made = [Entry(f"made{k}.onnx", model.SerializeToString()) for k, model in enumerate(onnx_models())]
    real += [Entry(path.name, path.read_bytes()) for path in sorted(data.glob("light/*.onnx"))]
    return [entry for entry in real if len(entry.data) < 20_000] + 8 * made + _data("hostile/*.onnx")


def onnx_models() -> list[onnx.ModelProto]:
    """Small models that use what importers look into: shapes, constants, functions, subgraphs, dynamic axes."""
    ints = lambda name, *numbers: numpy_helper.from_array(np.array(numbers, np.int64), name)  # noqa: E731
    value = helper.make_tensor_value_info
    node = helper.make_node
    f = TensorProto.FLOAT

    def model(nodes, inputs, outputs, weights=(), functions=(), opset=21):
        made = helper.make_graph(nodes, "net", inputs, outputs, list(weights))
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
        return helper.make_model(made, opset_imports=opsets, functions=list(functions), ir_version=10)

    weight = numpy_helper.from_array(np.ones((6, 4), np.float32), "w")
    shapes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "axes"], ["n1"]),
        node("Concat", ["n1", "rest"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["r"]),
        node("Gemm", ["r", "w"], ["y"], transB=1),
    ]
    makers = [
        node("Constant", [], ["k"], value=ints("k", 2, 3)),
        node("ConstantOfShape", ["k"], ["c"]),
        node("Range", ["a", "b", "d"], ["q"]),
        node("Tile", ["c", "k"], ["u"]),
        node("Expand", ["x", "k"], ["e"]),
        node("NonZero", ["c"], ["z"]),
        node("Where", ["cond", "e", "x"], ["v"]),
        node("Split", ["v"], ["y", "y2"], axis=1, num_outputs=2),
        node("Constant", [], ["i"], value_ints=[1, 2]),
        node("Slice", ["y", "zero1", "one1"], ["y3"]),
        node("ScatterND", ["u", "idx", "upd"], ["y4"]),
    ]
    scalar = lambda name, number: numpy_helper.from_array(np.array(number, np.int64), name)  # noqa: E731
    function = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["c"],
        [node("Relu", ["a"], ["b"]), node("Add", ["b", "a"], ["c"])],
        [helper.make_opsetid("", 21)],
    )
    branch = helper.make_graph([node("Neg", ["x"], ["g"])], "then", [], [value("g", f, [2, 4])])
    other = helper.make_graph([node("Abs", ["x"], ["h"])], "else", [], [value("h", f, [2, 4])])
    networks = [
        node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["c", "s", "s", "s", "s"], ["b"]),
        node("MaxPool", ["b"], ["m"], kernel_shape=[2, 2]),
        node("Flatten", ["m"], ["f"]),
        node("Softmax", ["f"], ["y"], axis=-1),
    ]
    kernel = numpy_helper.from_array(np.ones((5, 3, 3, 3), np.float32), "w")
    five = numpy_helper.from_array(np.ones(5, np.float32), "s")
    einsum = [
        node("Einsum", ["x", "x"], ["e"], equation="bij,bkj->bik"),
        node("TopK", ["e", "k"], ["y", "i"]),
        node("GatherND", ["x", "idx"], ["y2"], batch_dims=1),
    ]
    return [
        model(
            shapes,
            [value("x", f, ["N", 2, 2])],
            [value("y", f, None)],
            [weight, scalar("zero", 0), ints("axes", 0), ints("rest", -1)],
        ),
        model(
            makers,
            [value("x", f, [2, 3]), value("cond", TensorProto.BOOL, [2, 3])],
            [value(name, f, None) for name in ("y", "y2", "y3", "y4")],
            [
                scalar("a", 0),
                scalar("b", 6),
                scalar("d", 2),
                ints("zero1", 0),
                ints("one1", 1),
                numpy_helper.from_array(np.zeros((1, 2), np.int64), "idx"),
                numpy_helper.from_array(np.zeros(1, np.float32), "upd"),
            ],
        ),
        model(
            [node("Twice", ["x"], ["t"], domain="own"), node("Twice", ["t"], ["y"], domain="own")],
            [value("x", f, [1, 4])],
            [value("y", f, None)],
            functions=[function],
        ),
        model(
            [node("If", ["cond"], ["y"], then_branch=branch, else_branch=other)],
            [value("x", f, [2, 4]), value("cond", TensorProto.BOOL, [])],
            [value("y", f, [2, 4])],
        ),
        model(networks, [value("x", f, ["N", 3, 8, 8])], [value("y", f, None)], [kernel, five], opset=13),
        model(
            einsum,
            [value("x", f, [2, 3, 4])],
            [value("y", f, None), value("y2", f, None)],
            [ints("k", 2), numpy_helper.from_array(np.zeros((2, 1), np.int64), "idx")],
        ),
    ]


@cache
def _small_graph() -> hetgym.DataflowGraph:
    from hetgym.graph.generators import generate_graph

    return generate_graph("fork_join", np.random.default_rng(0))


def _graphs() -> list[Entry]:
    squeezenet = gzip.decompress((PACKAGE / "graph/snapshots/squeezenet.json.gz").read_bytes())
    packed = gzip.compress(to_json(_small_graph()).encode(), mtime=0)
    return [Entry("g.json", squeezenet), Entry("s.json", to_json(_small_graph()).encode()), Entry("p.json.gz", packed)]


def _programs(folder: Path) -> dict[str, list[Entry]]:
    archives = [saved(*MODULES[case], folder / "net.pt2").read_bytes() for case in ("tied", "block")]
    documents = [data for archive in archives for name, data in unpacked(archive).items() if "/models/" in name]
    return {
        "pt2": [Entry("net.pt2", archive) for archive in archives],
        "program": [Entry("net.json", document) for document in documents],
    }


def _graphnet() -> dict[str, list[Entry]]:
    """Models as text, of all that the reader of expressions knows, and the types of their arguments."""
    models = [(body.encode(), types_text(arguments).encode()) for body, arguments in graphnet_models()]
    return {
        "graphnet": [Entry("model.py", text, {"weight_meta.py": types}) for text, types in models],
        "graphnet-types": [Entry("weight_meta.py", types, {"model.py": text}) for text, types in models],
    }


def _language_models(folder: Path) -> dict[str, list[Entry]]:
    """Small models: configurations, headers of GGUF and of safetensors files, an index without files."""
    names = ("gpt-oss-20b", "deepseek-v3", "qwen3-next-80b", "gemma-2-9b", "falcon-7b", "qwen1.5-moe", "phi-3-mini")
    configurations = [CONFIGS[name] | {"num_hidden_layers": 4} for name in names] + [CONFIGS["gpt2"] | {"n_layer": 2}]
    group = {"targets": ["Linear", "re:.*mlp.*"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}}
    packed: list[dict[str, object]] = [
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"g": group},
            "ignore": ["re:.*(q|k)_proj$", "lm_head"],
        },
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*attn.*": {}}},
        {"bits": 4, "group_size": 64, "model.layers.0.mlp.gate": {"bits": 8, "group_size": 64}},
    ]
    configurations += [
        CONFIGS["qwen3-30b-a3b"] | {"num_hidden_layers": 2, "quantization_config": how} for how in packed
    ]
    tensors = []
    for document, found in ((OSS, oss_tensors()), (DEEPSEEK, deepseek_tensors())):
        text = json.dumps(header(found)).encode()
        data = len(text).to_bytes(8, "little") + text
        tensors.append(Entry("model.safetensors", data, {"config.json": json.dumps(document).encode()}))
    places = {"model.embed_tokens.weight": "a.safetensors", "lm_head.weight": "b.safetensors"}
    index = {"metadata": {"total_size": 2 * from_config(LLAMA).parameters}, "weight_map": places}
    return {
        "configuration": [_json("config.json", document) for document in configurations],
        "gguf": [_gguf(folder / "a.gguf", name) for name in ("qwen3.5-9b", "deepseek-v2-lite", "gpt-oss-20b", "gpt2")],
        "safetensors": tensors,
        "safetensors-index": [Entry(INDEX, _json("", index).data, {"config.json": json.dumps(LLAMA).encode()})],
    }


def _gguf(path: Path, name: str) -> Entry:
    """The header of the file of a model whose layers are few."""
    few = {"n_layer": 2} if name == "gpt2" else {"num_hidden_layers": 4}
    model = mixed(from_config(CONFIGS[name] | few), "Q4_K_M")
    layer = next(layer for layer in model.layers if layer.kv_heads)
    sizes = {
        "block_count": len(model.layers), "embedding_length": model.hidden, "attention.head_count": layer.heads,
        "attention.head_count_kv": layer.kv_heads, "attention.key_length": layer.key_size,
        "attention.value_length": layer.value_size or layer.key_size, "expert_used_count": max(1, layer.top),
        "ssm.conv_kernel": 4, "ssm.inner_size": 4096, "ssm.state_size": 128, "ssm.group_count": 16,
        "attention.sliding_window": layer.window, "context_length": model.positions,
    }  # fmt: skip
    pairs = {"general.architecture": "x", **{f"x.{key}": value for key, value in sizes.items()}}
    weights = {w.name: (w.shape, w.dtype, int(w.bytes)) for w in model.weights}
    gguf_files.write(path, pairs, weights)
    with path.open("rb") as file:
        return Entry("a.gguf", file.read(16_000))


def _problems(folder: Path) -> list[Entry]:
    made = [textbook("topcuoglu"), hetgym.Problem.build(hetgym.load_graph("alexnet"), hetgym.load_platform("cpu-gpu"))]
    for k, problem in enumerate(made):
        problem.save(folder / f"{k}.npz")
    return [Entry("p.npz", (folder / f"{k}.npz").read_bytes()) for k in range(len(made))]


def _schedules(folder: Path) -> list[Entry]:
    names = ("topcuoglu", "arabnejad-barbosa")
    found = {(name, "classic"): hetgym.baselines.get("heft")(textbook(name)) for name in names}
    ordered = {key: hetgym.simulate(textbook(key[0]), schedule) for key, schedule in found.items()}
    save_best_schedules(
        folder / "b.npz",
        {key: hetgym.Schedule(trace.assignment, order=trace.order) for key, trace in ordered.items()},
    )
    return [Entry("b.npz", (folder / "b.npz").read_bytes())]


def _costs(folder: Path) -> list[Entry]:
    rng = np.random.default_rng(0)
    x, groups = rng.uniform(0, 9, (40, len(FEATURES))), np.arange(40, dtype=np.int32)
    y = np.sin(x[:, 0])
    found = []
    for name, regressor in (("roofline", calibrated.Calibrated), ("polynomial", polynomial.Polynomial)):
        model = LearnedCosts(name, {"*elementwise": ClassModel(regressor.fit(x, y, groups, 0), 0.0, -0.1, 0.1, 40)})
        model.save(folder / f"{name}.npz")
        found.append(Entry("c.npz", (folder / f"{name}.npz").read_bytes()))
    shipped = [PACKAGE / f"costs/artefacts/{name}.npz" for name in ("kryo-onnx", "gpu-gemm-bf16-a100")]
    return found + [Entry("c.npz", path.read_bytes()) for path in shipped]


def _measurements() -> dict[str, list[Entry]]:
    path = PACKAGE / "measurements/data/xeon-core.csv.gz"
    text = gzip.decompress(path.read_bytes())
    few = b"".join(text.splitlines(keepends=True)[:40])
    card = json.loads(path.with_name("xeon-core.json").read_text())
    plain = Entry("t.csv", few)
    small = gzip.compress(few, mtime=0)
    digest = hashlib.sha256(small).hexdigest()
    described = _json("data.json", card | {"sha256": digest})
    layers = b"layer,count,time [ms],size [MiB],transfer [us]\nwords,1,0.5,2,3\nlayers,64,1e-2,9,3\n"
    plan = b"kind,inputs,outputs,attributes\n" + b'MatMul,"float32(2,3);float32(3,4)","float32(2,4)",\n'
    return {
        "table": [plain, Entry("t.csv.gz", small)],
        "journal": [plain],
        "plan": [Entry("shapes.csv", plan)],
        "layers": [Entry("layers.csv", layers)],
        "dataset-card": [Entry("data.json", described.data, {"data.csv.gz": small})],
        "machine-card": [_json("m.json", card["machine"])],
    }


def _policies(folder: Path) -> dict[str, list[Entry]]:
    kinds = {"place-v1": "place", "place-v2": "region"}
    found: dict[str, list[Entry]] = {"policy": [], "checkpoint": []}
    parts = ("candidate", "hub", *kinds.values())
    found |= {f"{kind}-{part}": [] for kind in parts for part in ("card", "weights")}
    for name in ("pipeline-v1", *kinds):
        weights, card = ((PACKAGE / f"agents/pretrained/{name}{end}").read_bytes() for end in (".safetensors", ".json"))
        kind = kinds.get(name, "candidate")
        found[f"{kind}-card"].append(Entry("p.json", card, {"p.safetensors": weights}))
        found[f"{kind}-weights"].append(Entry("p.safetensors", weights, {"p.json": card}))
        found["hub-card"].append(Entry(HUB_CARD, card, {HUB_WEIGHTS: weights}))
        found["hub-weights"].append(Entry(HUB_WEIGHTS, weights, {HUB_CARD: card}))
    for level in ("candidates", "graph"):
        path = folder / f"{level}.safetensors"
        NetworkPolicy(ActorCritic("place", level, SIZES), {"step": 3, "recipe": {"arguments": {}}}).save(path)
        found["policy"].append(Entry("p.safetensors", path.read_bytes()))
    path = folder / "checkpoint.safetensors"
    history = [{"step": 0, "return": 0.1, "ratio_reference": 0.9}]
    Checkpoint(7, checkpoint_tensors(), {"history": history, "seconds": 3.5, "updates": 2}).save(path)
    found["checkpoint"].append(Entry("c.safetensors", path.read_bytes()))
    return found


def _plans() -> list[Entry]:
    schedule = hetgym.baselines.get("heft")(textbook("topcuoglu"))
    return [
        _json("plan.json", schedule.to_dict()),
        _json("plan.json", {"assignment": [0] * 10, "priority": [1.0] * 10}),
    ]


def as_yaml(document: object) -> bytes:
    """A document as YAML."""
    return yaml.safe_dump(document, sort_keys=False).encode("utf-8", "surrogatepass")
