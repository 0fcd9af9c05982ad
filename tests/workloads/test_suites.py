from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import (
    ConfigError,
    HetgymError,
    PlatformError,
    Problem,
    ProblemError,
    UnknownName,
    load_graph,
    load_platform,
)
from hetgym.graph import zoo
from hetgym.graph.generators import generate_graph
from hetgym.graph.transforms import fuse, training
from hetgym.workloads import ProblemSpec, load_suite, suite_names, textbook

PLATFORMS = ("cpu-gpu-balanced", "cpu-gpu", "cpu-gpu-npu")
SCALED = "problems:\n  - {graphs: [alexnet], platforms: [cpu-gpu], scale: "


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_the_default_suite_is_the_whole_zoo_on_three_platforms() -> None:
    suite = load_suite("zoo")
    assert {(s.graph, s.platform) for s in suite.specs} == {(g, p) for g in zoo.names() for p in PLATFORMS}
    assert len(suite) == len(zoo.names()) * 3
    sizes = [len(load_graph(spec.graph)) for spec in suite.specs]
    assert sizes == sorted(sizes)  # what is done first compiles, and gives the first table


def test_the_batch_suite_has_three_batch_sizes() -> None:
    suite = load_suite("zoo-batch")
    assert len(suite) == len(zoo.names()) * 9
    assert {"alexnet@cpu-gpu", "alexnet-b8@cpu-gpu", "alexnet-b32@cpu-gpu"} <= {s.name for s in suite.specs}


@pytest.mark.parametrize("name", suite_names())
def test_every_shipped_suite_says_what_it_is_for(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name and suite.summary
    assert len({spec.name for spec in suite.specs}) == len(suite)


def test_every_problem_of_the_quick_suite_is_small() -> None:
    problems = [spec.build() for spec in load_suite("quick").specs]
    assert len(problems) == 3 and max(p.num_operators for p in problems) < 100


def test_a_graph_on_a_platform_is_what_the_library_builds() -> None:
    spec = ProblemSpec.zoo("squeezenet", "cpu-gpu", batch=8)
    expected = Problem.build(load_graph("squeezenet", batch=8), load_platform("cpu-gpu"))
    assert (spec.name, spec.graph, spec.platform) == ("squeezenet-b8@cpu-gpu", "squeezenet-b8", "cpu-gpu")
    assert spec.build().digest == expected.digest
    assert not np.array_equal(spec.build().cost, ProblemSpec.zoo("squeezenet", "cpu-gpu").build().cost)


def test_files_are_found_beside_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    textbook("topcuoglu").save(tmp_path / "sub" / "one.npz")
    path = write(tmp_path, "problems:\n  - files: [sub/one.npz]\n")
    monkeypatch.chdir("/")
    (spec,) = load_suite(path).specs
    assert (spec.name, spec.platform) == ("one", "-")
    assert spec.build().digest == textbook("topcuoglu").digest


def test_a_pattern_takes_all_files_in_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b@cpu-gpu", "a", "c-b8@my-box"):
        textbook("topcuoglu").save(tmp_path / f"{name}.npz")
    suite = load_suite(write(tmp_path, "problems:\n  - files: ['*.npz']\n"))
    assert [spec.name for spec in suite.specs] == ["a", "b@cpu-gpu", "c-b8@my-box"]
    assert [(spec.graph, spec.platform) for spec in suite.specs] == [("a", "-"), ("b", "cpu-gpu"), ("c-b8", "my-box")]


def test_generated_graphs_follow_their_seeds(tmp_path: Path) -> None:
    group = "{generator: layered, parameters: {tasks: 30}, seeds: [0, 1], platforms: [cpu-gpu]}"
    first, second = load_suite(write(tmp_path, f"problems:\n  - {group}\n")).specs
    assert (first.name, second.graph) == ("layered-tasks=30-s0@cpu-gpu", "layered-tasks=30-s1")
    graph = generate_graph("layered", np.random.default_rng(1), tasks=30)
    assert second.build().digest == Problem.build(graph, load_platform("cpu-gpu")).digest
    assert first.build().digest != second.build().digest


def test_generated_graphs_on_random_machines(tmp_path: Path) -> None:
    group = "{generator: daggen, parameters: {tasks: 40}, seeds: [3], devices: 5, ccr: [0.5, 2.0]}"
    light, heavy = load_suite(write(tmp_path, f"problems:\n  - {group}\n")).specs
    assert (light.name, heavy.platform) == ("daggen-tasks=40-s3@5-devices-ccr=0.5", "5-devices-ccr=2")
    problem, other = light.build(), heavy.build()
    assert problem.digest == light.build().digest
    assert problem.cost.tolist() == other.cost.tolist()
    assert other.edge_bytes == pytest.approx(problem.edge_bytes * 4)


def test_lists_of_parameters_are_combined(tmp_path: Path) -> None:
    group = "{generator: lstm_grid, parameters: {layers: [2, 3], steps: 4, hidden: [8, 16]}, platforms: [cpu-gpu]}"
    specs = load_suite(write(tmp_path, f"problems:\n  - {group}\n")).specs
    assert [spec.graph for spec in specs] == [
        f"lstm_grid-layers={layers}-steps=4-hidden={hidden}-s0" for layers in (2, 3) for hidden in (8, 16)
    ]
    assert [spec.build().num_operators for spec in specs] == [8, 8, 12, 12]


def test_graphs_are_transformed_before_they_are_priced(tmp_path: Path) -> None:
    text = "problems:\n  - {graphs: [alexnet], batch: [2], platforms: [cpu-gpu], transforms: [training, fuse]}\n"
    (spec,) = load_suite(write(tmp_path, text)).specs
    assert (spec.name, spec.graph) == ("alexnet-b2-training-fuse@cpu-gpu", "alexnet-b2-training-fuse")
    graph = fuse(training(load_graph("alexnet", batch=2))).graph
    assert spec.build().digest == Problem.build(graph, load_platform("cpu-gpu")).digest
    assert len(graph) < len(training(load_graph("alexnet")))


def test_a_group_may_name_its_cost_model(tmp_path: Path) -> None:
    text = "problems:\n  - {graphs: [alexnet], platforms: [cpu-gpu], costs: roofline}\n"
    text += "  - {generator: lstm_grid, platforms: [cpu-gpu], costs: roofline}\n"
    network, drawn = load_suite(write(tmp_path, text)).specs
    platform = load_platform("cpu-gpu")
    assert network.build().digest == Problem.build(load_graph("alexnet"), platform, "roofline").digest
    assert drawn.build().digest == Problem.build(generate_graph("lstm_grid"), platform, "roofline").digest
    assert network.build().digest != ProblemSpec.zoo("alexnet", "cpu-gpu").build().digest
    with pytest.raises(UnknownName, match="unknown cost model 'rooflin'; did you mean 'roofline'"):
        load_suite(write(tmp_path, text.replace("roofline", "rooflin")))


def test_platforms_are_scaled_column_by_column(tmp_path: Path) -> None:
    scale = "{gpu.peak_flops: [2, 8], gpu.memory_bandwidth: [2, 3], links.latency: [1, 0.5]}"
    text = f"problems:\n  - {{graphs: [alexnet], platforms: [cpu-gpu, cpu-gpu-balanced], scale: {scale}}}\n"
    specs = load_suite(write(tmp_path, text)).specs
    assert [spec.platform for spec in specs] == [
        f"{name}-gpu.peak_flops={factor}" for name in ("cpu-gpu", "cpu-gpu-balanced") for factor in (2, 8)
    ]
    assert specs[1].parts is not None
    graph, platform = specs[1].parts()
    assert platform.name == specs[1].platform
    factors = {"gpu.peak_flops": 8.0, "gpu.memory_bandwidth": 3.0, "links.latency": 0.5}
    expected = load_platform("cpu-gpu").scaled(factors)
    assert specs[1].build().digest == Problem.build(graph, expected).digest
    assert specs[1].build().name == "alexnet@cpu-gpu-gpu.peak_flops=8"


def test_own_platform_files_are_found_beside_the_suite(tmp_path: Path) -> None:
    (tmp_path / "box.yaml").write_text(
        "name: box\ndevices:\n  - {name: cpu, kind: cpu, peak_flops: {float32: 1e12}, memory_bandwidth: 1e11}\n"
    )
    path = write(tmp_path, "problems:\n  - graphs: [alexnet]\n    platforms: [box.yaml]\n")
    (spec,) = load_suite(path).specs
    assert spec.name == "alexnet@box"
    assert spec.build().num_devices == 1


def test_a_problem_in_hand_is_named_by_itself_or_by_the_caller() -> None:
    problem = textbook("topcuoglu")
    assert ProblemSpec.held(problem).name == "topcuoglu"
    spec = ProblemSpec.held(problem, "a@b")
    assert (spec.graph, spec.platform) == ("a", "b")
    assert spec.build() is problem


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("problem: []", ConfigError, "unknown key 'problem'; did you mean 'problems'"),
        ("summary: x", ConfigError, "key 'problems' is missing"),
        ("problems: []", ConfigError, "the suite has no problems"),
        (
            "problems:\n  - {graph: [alexnet]}",
            ConfigError,
            r"problems\[0\]: unknown key 'graph'; did you mean 'graphs'",
        ),
        ("problems:\n  - {graphs: [alexnet]}", ConfigError, "graphs and platforms belong together"),
        ("problems:\n  - {graphs: [alexnett], platforms: [cpu-gpu]}", UnknownName, "did you mean 'alexnet'"),
        ("problems:\n  - {graphs: [alexnet], platforms: [cpu-gpuu]}", UnknownName, "did you mean 'cpu-gpu'"),
        ("problems:\n  - {graphs: [alexnet], platforms: [cpu-gpu], batch: [0]}", ConfigError, "at least 1"),
        ("problems:\n  - {graphs: [alexnet], platforms: [cpu-gpu], batch: 8}", ConfigError, "expected a list"),
        ("problems:\n  - {textbook: [topcuoglo]}", UnknownName, "did you mean 'topcuoglu'"),
        ("problems:\n  - {files: [gone.npz]}", ProblemError, "gone.npz: no such file"),
        ("problems:\n  - {files: ['gone/*.npz']}", ProblemError, "gone/.*.npz: no such file"),
        ("problems:\n  - {textbook: [topcuoglu, topcuoglu]}", ConfigError, "'topcuoglu' is listed twice"),
        ("problems:\n  - {generator: layred, platforms: [cpu-gpu]}", UnknownName, "did you mean 'layered'"),
        ("problems:\n  - {generator: layered, parameters: {task: 9}, platforms: [cpu-gpu]}", ConfigError, "'tasks'"),
        (
            "problems:\n  - {generator: layered, seeds: [-1], platforms: [cpu-gpu]}",
            ConfigError,
            "a seed must not be negative",
        ),
        ("problems:\n  - {textbook: [topcuoglu], devices: 8}", ConfigError, "devices alone, to files"),
        ("problems:\n  - {files: [a.stg], devices: 8, ccr: [1]}", ConfigError, "devices and ccr belong together"),
        ("problems:\n  - {generator: daggen, devices: 8}", ConfigError, "devices and ccr belong together"),
        ("problems:\n  - {graphs: [alexnet], devices: 8, ccr: [1.0]}", ConfigError, "and to a generator"),
        ("problems:\n  - {generator: daggen, devices: -1, ccr: [1.0]}", ConfigError, "devices must be at least 1"),
        ("problems:\n  - {generator: daggen, devices: 8, ccr: [-1.0]}", ConfigError, "finite number, not negative"),
        ("problems:\n  - {graphs: [alexnet], platforms: [cpu-gpu], transforms: [fusee]}", UnknownName, "mean 'fuse'"),
        ("problems:\n  - {textbook: [topcuoglu], transforms: [fuse]}", ConfigError, "for graphs on platforms"),
        (
            "problems:\n  - {generator: daggen, devices: 8, ccr: [1], scale: {links.latency: [1]}}",
            ConfigError,
            "for grap",
        ),
        (SCALED + "{gpu.peak_flop: [1.0]}}", PlatformError, "unknown figure 'peak_flop'; did you mean 'peak_flops'"),
        (SCALED + "{gpuu.peak_flops: [1.0]}}", PlatformError, "unknown device 'gpuu'; did you mean 'gpu'"),
        (SCALED + "{links.peak_flops: [1.0]}}", PlatformError, "unknown figure 'peak_flops'"),
        (SCALED + "{gpu.peak_flops: [0]}}", PlatformError, "factor of 'gpu.peak_flops' is 0.0; it must be positive"),
        (SCALED + "{gpu.peak_flops: [1, 2], links.latency: [1]}}", ConfigError, "the same number of factors"),
        (SCALED + "{gpu.peak_flops: []}}", ConfigError, "at least one"),
        (SCALED + "{gpu.peak_flops: [2, 2]}}", ConfigError, "factors of 'gpu.peak_flops' must differ"),
        (SCALED + "{gpu.peak_flops: 2}}", ConfigError, "expected a list"),
        (
            "problems:\n  - {generator: layered, parameters: {tasks: []}, platforms: [cpu-gpu]}",
            ConfigError,
            "empty list",
        ),
        ("problems: [", ConfigError, "not valid YAML"),
        ("problems: !!python/object/apply:os.system ['true']", ConfigError, "not valid YAML"),
    ],
)
def test_a_bad_suite_is_refused_in_one_sentence(
    tmp_path: Path, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        load_suite(write(tmp_path, text))


def test_unknown_and_missing_suites() -> None:
    with pytest.raises(UnknownName, match="did you mean 'zoo"):
        load_suite("zooo")
    with pytest.raises(ConfigError, match="gone.yaml: .*[Nn]o such file"):
        load_suite("gone.yaml")


GROUPS = [
    {
        "graphs": ["squeezenet"],
        "batch": [1, 8],
        "platforms": ["cpu-gpu"],
        "transforms": ["fuse"],
        "scale": {"gpu.peak_flops": [1.5, 4], "links.latency": [1, 2]},
    },
    {"generator": "layered", "parameters": {"tasks": [5, 9], "width": 3}, "seeds": [0, 1], "platforms": ["cpu-gpu"]},
    {"generator": "daggen", "parameters": {"tasks": 6}, "devices": 2, "ccr": [0.2, 4.0]},
    {"textbook": ["topcuoglu"]},
]
DOCUMENT = {"summary": "a suite", "problems": GROUPS}
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.floats(),
    st.sampled_from([10**30, "", "fuse", "cpu-gpu", "gpu.peak_flops", "../*", "a\nb", "layered"]),
    st.sampled_from([[], {}, [1], [[]], {"a": 1}, ["fuse", "fuse"], [{}], [None]]),
)


@examples(400)
@given(data=st.data())
def test_any_document_is_a_suite_or_one_sentence(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    document = copy.deepcopy(DOCUMENT)
    for _ in range(data.draw(st.integers(1, 3))):
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and data.draw(st.integers(0, 3)) > 0:
                place = place[key]
                continue
            if data.draw(st.booleans()):
                place[key] = copy.deepcopy(data.draw(ODD))
            else:
                del place[key]
            break
    path = tmp_path_factory.getbasetemp() / "odd.yaml"
    path.write_text(yaml.safe_dump(document))
    try:
        specs = load_suite(path).specs
    except HetgymError as error:
        assert "\n" not in str(error)
    else:
        assert specs


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("- {generator: layered, devices: 1000000000, ccr: [1]}", "devices must be at least 1 and at most"),
        ("- {generator: layered, devices: 1e30, ccr: [1]}", "expected a whole number"),
        ("- {generator: layered, parameters: {tasks: 1000000000}, devices: 3, ccr: [1]}", "may have 1e"),
        (
            "- {generator: layered, platforms: [cpu-gpu], "
            "parameters: {tasks: 20000, width: 99999, predecessors: 99999}}",
            "may have",
        ),
        (
            "- {generator: daggen, parameters: {tasks: 1000000, fat: 1.0e+5, density: 1.0}, platforms: [cpu-gpu]}",
            "may have",
        ),
        ("- {generator: daggen, parameters: {fat: 1e300}, platforms: [cpu-gpu]}", "must be a number between"),
        ("- {generator: cholesky, parameters: {tiles: 1000}, platforms: [cpu-gpu]}", "may have 1.67e"),
        ("- {generator: fft, parameters: {points: 1073741824}, platforms: [cpu-gpu]}", "may have"),
        ("- {generator: gaussian_elimination, parameters: {size: 100000}, platforms: [cpu-gpu]}", "may have"),
        ("- {generator: fork_join, parameters: {stages: 100000, branches: 1000}, platforms: [cpu-gpu]}", "may have"),
        ("- {generator: inception_like, parameters: {branches: [[2, 2000000000]]}, platforms: [cpu-gpu]}", "may have"),
        ("- {generator: transformer, parameters: {blocks: 100000000}, platforms: [cpu-gpu]}", "may have"),
        ("- {generator: lstm_grid, parameters: {steps: 100000000}, platforms: [cpu-gpu]}", "may have"),
        ("- {generator: inception, parameters: {blocks: 100000000}, platforms: [cpu-gpu]}", "may have"),
        ("- {generator: layered, parameters: {payload: 1e300}, platforms: [cpu-gpu]}", "must be a number between"),
        (
            f"- {{generator: layered, platforms: [cpu-gpu], parameters: {{tasks: {list(range(200))}, width: "
            f"{list(range(200))}, predecessors: {list(range(200))}}}}}",
            "more than 1000 combinations",
        ),
        (
            f"- {{textbook: [topcuoglu], generator: layered, platforms: [cpu-gpu], seeds: {list(range(30_000))}}}",
            "more than 20000 problems",
        ),
        ("- {generator: layered, platforms: [cpu-gpu], parameters: {name: x}}", "has no parameter 'name'"),
        ("- {generator: layered, platforms: [cpu-gpu], parameters: {rng: 3}}", "has no parameter 'rng'"),
        ('- {files: ["/etc/*.npz*"]}', "no such file|cannot be looked for"),
        ('- {files: ["**x*"]}', "two together"),
        ('- {files: ["a/**/b.npz"]}', "before its last part"),
        ('- {files: ["*/b.npz"]}', "before its last part"),
        ('- {files: ["' + "x" * 5000 + '*"]}', "no such file"),
    ],
    ids=range(24),
)
def test_suites_of_more_than_there_can_be(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(HetgymError, match=words) as refused:
        load_suite(write(tmp_path, f"problems:\n{content}\n"))
    assert str(refused.value).isprintable()


def test_best_known_values_that_are_no_file(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "null.json").write_text("null")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "long.json").write_text("1" * 5000)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    for name, words in (
        ("/dev/zero", "not a regular file"),
        ("deep.json", "nested too deeply"),
        ("null.json", "expected keys and values"),
        ("list.json", "expected keys and values"),
        ("long.json", "not JSON"),
        ("bytes.json", "not UTF-8"),
    ):
        with pytest.raises(ConfigError, match=words):
            load_suite(write(tmp_path, f"problems: [{{textbook: [topcuoglu]}}]\nbest_known: {name}\n"))
