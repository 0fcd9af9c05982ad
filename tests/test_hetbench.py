from __future__ import annotations

import importlib.util
import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym import ConfigError, Problem, ProblemError, UnknownName, baselines, simulate, validate
from hetgym._input.artefacts import save_npz
from hetgym.baselines import lower_bound
from hetgym.bench import load_best_schedule
from hetgym.bench.best_schedules import _FILE, _packed, load_best_schedules, save_best_schedules
from hetgym.workloads import load_best_known, load_suite, textbook
from hetgym.workloads.suites import FOLDER

SUITE = FOLDER / "hetbench-v1"
KNOWN = load_best_known(SUITE / "best_known.json")
SCHEDULES = load_best_schedules(SUITE / "best_known.json")
RUNTIMES = ("classic", "links")
SCRIPTS = Path(__file__).parents[1] / "scripts"


def load(name: str) -> Problem:
    return Problem.load(SUITE / "problems" / f"{name}.npz")


def test_sixty_problems_each_with_best_known_values() -> None:
    suite = load_suite("hetbench-v1")
    assert len(suite) == 60
    assert {spec.name for spec in suite.specs} == KNOWN.keys()
    assert all(spec.known == KNOWN[spec.name] and spec.platform != "-" for spec in suite.specs)
    assert all(set(row.best) == set(RUNTIMES) for row in KNOWN.values())


def test_the_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in SUITE.rglob("*")) < 3_000_000


def test_the_package_takes_every_file_of_the_suite() -> None:
    project = tomllib.loads((SCRIPTS.parent / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["hetgym.configs"]
    taken = {path.resolve() for pattern in patterns for path in (SCRIPTS.parent / "configs").glob(pattern)}
    files = {path.resolve() for path in SUITE.rglob("*") if path.is_file()}
    assert len(files) == 62 and files <= taken


def test_sizes_and_weights_of_communication_are_spread() -> None:
    problems = [load(name) for name in KNOWN]
    assert min(p.num_operators for p in problems) == 20 and max(p.num_operators for p in problems) == 1000
    assert {2, 3, 4, 8} == {p.num_devices for p in problems}
    generated = [p for p in problems if "-ccr" in p.name]
    assert len(generated) == 30
    for problem in generated:
        ccr = float(problem.name.partition("-ccr")[2].partition("@")[0])
        assert problem.mean_communication.mean() / problem.mean_cost.mean() == pytest.approx(ccr)


@pytest.mark.parametrize("name", KNOWN)
def test_every_best_known_makespan_is_that_of_its_schedule(name: str) -> None:
    """The shipped schedule is legal and has exactly the makespan of the table; no search is repeated."""
    problem, row = load(name), KNOWN[name]
    assert problem.name == name and problem.digest == row.digest
    for runtime in RUNTIMES:
        schedule = SCHEDULES[name, runtime]
        validate(problem, schedule)
        assert simulate(problem, schedule, runtime).makespan == row.best[runtime].makespan_s
        found = row.best[runtime].scheduler.removesuffix(" on walks")
        assert baselines.get(found, **row.best[runtime].options).available
        assert schedule.model == runtime
    assert 0 < row.bound_s <= row.best["classic"].makespan_s <= row.best["links"].makespan_s
    assert row.bound_s >= lower_bound(problem) * (1 - 1e-9)


def test_the_documentation_shows_the_shipped_values() -> None:
    """``python scripts/make_hetbench.py docs`` writes them."""
    document = json.loads((SCRIPTS.parent / "docs/results/data/hetbench-v1.json").read_text("utf-8"))
    table = next(table for table in document["tables"] if table["name"] == "makespans")
    rows = [dict(zip(table["columns"], cells, strict=True)) for cells in table["rows"]]
    assert [row["problem"] for row in rows] == list(KNOWN)
    for row, known in zip(rows, KNOWN.values(), strict=True):
        assert row["classic [ms]"] == f"{1e3 * known.best['classic'].makespan_s:.6g}"
        assert row["links [ms]"] == f"{1e3 * known.best['links'].makespan_s:.6g}"


CREDITED = [
    (name, runtime)
    for name, row in KNOWN.items()
    for runtime, best in row.best.items()
    if not best.options and best.scheduler in baselines.names() and baselines.get(best.scheduler).kind != "exact"
]


@pytest.mark.parametrize(("name", "runtime"), CREDITED)
def test_a_scheduler_that_is_credited_reaches_the_makespan_again(name: str, runtime: str) -> None:
    problem, best = load(name), KNOWN[name].best[runtime]
    assert simulate(problem, baselines.get(best.scheduler)(problem), runtime).makespan == best.makespan_s


def test_a_long_search_reaches_its_makespan_again() -> None:
    searched = [
        (best.options["budget"], load(name).num_operators, name, runtime)
        for name, row in KNOWN.items()
        for runtime, best in row.best.items()
        if "budget" in best.options and best.scheduler in baselines.names()
    ]
    _, _, name, runtime = min(searched)
    problem, best = load(name), KNOWN[name].best[runtime]
    schedule = baselines.get(best.scheduler, **best.options)(problem)
    assert simulate(problem, schedule, runtime).makespan == best.makespan_s


@pytest.mark.parametrize(
    "name",
    [
        "vgg19@cpu-gpu-balanced",
        "squeezenet-b8-fused@cpu-gpu-balanced",
        "cholesky-20-ccr1@2-unrelated",
        "fft-95-ccr5@2-unrelated",
        "gaussian_elimination-299-ccr0.1@8-uniform",
        "layered-1000-ccr1@8-unrelated",
    ],
)
def test_the_script_rebuilds_the_frozen_files_bit_for_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)
    spec = importlib.util.spec_from_file_location("hetbench_problems", SCRIPTS / "hetbench_problems.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "hetbench_problems", module)
    spec.loader.exec_module(module)
    assert module.definitions().keys() == KNOWN.keys()
    rebuilt, frozen = module.definitions()[name](), load(name)
    assert rebuilt.digest == frozen.digest
    assert (rebuilt.operator_names, rebuilt.operator_kinds) == (frozen.operator_names, frozen.operator_kinds)
    assert (rebuilt.device_names, rebuilt.name) == (frozen.device_names, frozen.name)


def test_environments_draw_from_the_suite() -> None:
    envs = gym.make_vec("HetSchedule-v0", num_envs=4, suite="hetbench-v1")
    _, info = envs.reset(seed=0)
    assert set(info["problem"]) <= KNOWN.keys() and len(set(info["problem"])) > 1
    envs.close()


def test_schedules_survive_the_file(tmp_path: Path) -> None:
    problem = textbook("topcuoglu")
    alone = baselines.single_device(problem)
    ordered = hetgym.Schedule(alone.assignment, order=alone.device_order(problem))
    heft = baselines.heft(problem)
    both = {("a", "classic"): ordered, ("b", "links"): hetgym.Schedule(heft.assignment, heft.device_order(problem))}
    save_best_schedules(tmp_path / "table.json", both)
    for key, schedule in both.items():
        found = load_best_schedule(tmp_path / "table.json", *key)
        assert found.assignment.tolist() == schedule.assignment.tolist()
        assert [row.tolist() for row in found.order or ()] == [row.tolist() for row in schedule.order or ()]
        assert found.model == key[1]
    with pytest.raises(UnknownName, match="a / links"):
        load_best_schedule(tmp_path / "table.json", "a", "links")


@pytest.mark.parametrize("devices", [3, 300])
def test_any_orders_survive_the_file(devices: int, tmp_path: Path) -> None:
    """Orders at random, on devices of any number, some without operators; files hold no times."""
    rng = np.random.default_rng(devices)
    assignment = rng.integers(1, devices, 900).astype(np.int32)
    order = [rng.permutation(np.flatnonzero(assignment == device)).astype(np.int32) for device in range(devices)]
    save_best_schedules(tmp_path / "table.json", {("a", "links"): hetgym.Schedule(assignment, order=order)})
    found = load_best_schedule(tmp_path / "table.json", "a", "links")
    assert found.assignment.tolist() == assignment.tolist()
    assert [row.tolist() for row in found.order or ()] == [row.tolist() for row in order]


def test_orders_are_stored_as_distances() -> None:
    """Device 0 runs operators 4, 0, 2 and device 1 runs 1, 3: places 2, 0, 1 and 0, 1 among their own."""
    steps = _packed([np.array([4, 0, 2], np.int32), np.array([1, 3], np.int32)])
    assert steps.tolist() == [[4, 5, 0, 0, 0], [0] * 5, [0] * 5, [0] * 5]  # distances 2, -3, 0, 0, 0


def write_suite(folder: Path, table: object) -> Path:
    textbook("topcuoglu").save(folder / "one.npz")
    (folder / "known.json").write_text(table if isinstance(table, str) else json.dumps(table))
    path = folder / "mine.yaml"
    path.write_text("best_known: known.json\nproblems:\n  - files: ['*.npz']\n")
    return path


def table(digest: str = "", **fields: object) -> dict[str, object]:
    best = {"classic": {"makespan_s": 73.0, "scheduler": "cp-sat"}}
    row = {"digest": digest or textbook("topcuoglu").digest, "bound_s": 73.0, "bound_by": "CP-SAT", "best": best}
    return {"format": "hetgym-best-known", "version": 1, "problems": {"one": row}} | fields


def test_a_suite_of_ones_own_has_best_known_values_too(tmp_path: Path) -> None:
    (spec,) = load_suite(write_suite(tmp_path, table())).specs
    assert spec.known is not None and spec.known.optimal("classic")
    assert spec.known.best["classic"].makespan_s == 73.0
    assert spec.build().digest == textbook("topcuoglu").digest


def test_values_of_another_problem_are_refused(tmp_path: Path) -> None:
    (spec,) = load_suite(write_suite(tmp_path, table(digest="0" * 64))).specs
    with pytest.raises(ProblemError, match="best-known values belong to another problem"):
        spec.build()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "known.json: not JSON"),
        (table(version=2), "known.json: not a table of best-known values of format version 1"),
        (table(problem={}), "unknown key 'problem'; did you mean 'problems'"),
        ({"format": "hetgym-best-known", "version": 1, "problems": {"one": {}}}, "one: key 'digest' is missing"),
    ],
)
def test_a_bad_table_is_refused_in_one_sentence(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_suite(write_suite(tmp_path, content))


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    path = write_suite(tmp_path, table())
    (tmp_path / "known.json").unlink()
    with pytest.raises(ConfigError, match="known.json: no such file"):
        load_suite(path)


def test_damaged_schedules_are_refused(tmp_path: Path) -> None:
    short = {"assignment": np.zeros(3, np.int32), "order": np.arange(3, dtype=np.int32)}
    save_npz(tmp_path / "table.npz", {"schedules": [["a", "classic", 2, 1]]}, short, _FILE)
    with pytest.raises(ConfigError, match="do not fill the arrays"):
        load_best_schedules(tmp_path / "table.npz")
    save_npz(tmp_path / "table.npz", {"schedules": 3}, short, _FILE)
    with pytest.raises(ConfigError, match="holds no list of schedules"):
        load_best_schedules(tmp_path / "table.npz")
    header = {"version": 2, "schedules": [["a", "classic", 2, 1]]}
    for step in (1, 4, 255):
        steps = np.array([[step, 0]] + 3 * [[step if step == 255 else 0, 0]], np.uint8)
        save_npz(tmp_path / "table.npz", header, {"assignment": np.zeros(2, np.uint8), "steps": steps}, _FILE)
        with pytest.raises(ConfigError, match="an order of 'a' leaves the operators of its device"):
            load_best_schedules(tmp_path / "table.npz")
    save_npz(tmp_path / "table.npz", header | {"version": 1}, {}, replace(_FILE, declare=lambda *_: {}))
    with pytest.raises(ConfigError, match="not best-known schedules of format version 2"):
        load_best_schedules(tmp_path / "table.npz")
