"""Kernels that Python runs at first: the same results as their machine code."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from hetgym import Problem, _tables
from hetgym._kernels import records
from hetgym._kernels.heap import new_heaps
from hetgym._kernels.interpreted import plain
from hetgym._kernels.jit import jit
from hetgym._types import FloatArray
from hetgym.envs.core import scaling
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.place import instance, observation
from hetgym.graph import topology
from hetgym.planning import list_scheduling, ranks, timeline
from hetgym.planning.ready_queue import new_queue
from hetgym.sim import decisions, runtime
from hetgym.sim.run import online_setting
from hetgym.workloads import RandomMix, random_mix

PROGRAM = textwrap.dedent("""
    import sys
    import numpy as np
    from hetgym._kernels.interpreted import BUDGET, compile_at_once, interpreted
    from hetgym._kernels.jit import jit

    @jit
    def twice(x):
        return 2.0 * x

    @interpreted
    @jit
    def sum_twice(values):
        total = 0.0
        for k in range(len(values)):
            total += twice(values[k])
        return total

    if "at-once" in sys.argv:
        compile_at_once()
    for _ in range(4):
        found = sum_twice(np.ones(BUDGET // 2 - 1)), sum_twice.nopython_signatures
        print(found[0] == BUDGET - 2, len(found[1]))
""")


def test_calls_within_the_budget_compile_nothing_and_later_processes_read_the_cache(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    def compiled(cache: str, *words: str) -> str:
        command = [sys.executable, "-W", "error", "program.py", *words]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / cache)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.stderr in ("", "hetgym: compiling kernels once …\n")
        return "".join(done.stdout.split("True ")).replace("\n", "")

    assert (compiled("a"), compiled("a")) == ("0011", "1111")
    assert compiled("b", "at-once") == "1111"


def test_division_by_zero_is_as_in_machine_code() -> None:
    @jit
    def inverse(values: FloatArray) -> float:
        return 1.0 / values[0]

    assert plain(inverse)(np.zeros(1)) == np.inf == inverse(np.zeros(1))


def calls(problem: Problem) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """A call of every kernel that Python runs at first, on the arrays of a problem."""
    p, n, e = problem.arrays, problem.num_operators, problem.num_edges
    source, target = problem.edge_source, problem.edge_target
    yield _tables.all_within, (problem.edge_bytes, True)
    yield _tables.in_order, (n, source, target, problem.edge_tensor)
    yield _tables.finite_somewhere, (problem.cost,)
    rows = [topology.Adjacency(*(np.empty(k, np.int32) for k in (n + 1, e, e))) for _ in range(2)]
    waiting = np.empty(n, np.int32)
    yield topology._arrange, (source, target, *rows, waiting)
    after = topology.adjacency(n, source, target)
    waiting = np.bincount(target, minlength=n).astype(np.int32)
    yield topology._kahn, (after.pointer, after.node, waiting, new_heaps([n]), np.empty(n, np.int32))
    yield topology._levels, (p.topological_order, after.pointer, after.node)
    mean, means = problem.mean_cost, problem.mean_communication
    yield ranks.write_longest_path_to_exit, (p, mean, means, np.empty(n))
    yield ranks.write_list_order, (p, new_queue(n), ranks.upward_rank(problem), np.empty(n, np.int32))
    d = problem.num_devices
    tables = [np.zeros(n) for _ in range(2)] + [np.zeros((n, d)) for _ in range(2)]
    scratch = np.empty(n, np.int32), np.empty(n), np.empty(n)
    yield instance._fill, (p, mean, means, new_queue(n), *tables, *scratch)
    ready = instance.prepare(problem, runtime("classic"), "eft+oct")
    padding = GraphPadding(n + 2, e + 3, d + 1)
    blank = {key: np.zeros(shape, dtype) for key, shape, dtype in observation._known_shapes(padding)}
    seen = observation.Fixed(*(blank[key] for key in observation.Fixed._fields))
    scale = scaling.scale_of(ready.reference)
    order = ready.order, ready.upward, ready.downward
    yield observation._write_fixed, (p, *order, mean, means, float(problem.edge_bytes.mean()), scale, seen)
    yield scaling.scale_of, (ready.reference,)
    yield list_scheduling._fastest_device, (problem.cost, problem.partition_overhead)
    placed = timeline.new_timeline(problem)
    free = np.full(n, -1, np.int32)
    list_scheduling.place_in_order(p, placed, ready.order, free, np.zeros((n, d)), True)
    yield timeline.write_device_order, (placed, np.empty(n, np.int32), np.empty(d + 1, np.int32))
    yield records._copy_row, (p, np.zeros(records.width(p), np.int64))


def copied(value: Any) -> Any:
    """A deep copy whose arrays are read-only where those of the value are: types of kernels tell them apart."""
    if isinstance(value, np.ndarray):
        found = value.copy()
        found.flags.writeable = value.flags.writeable
        return found
    if isinstance(value, tuple):
        parts = map(copied, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return copy.deepcopy(value)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays bit for bit."""
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return type(one) is type(other) and one == other


def test_tables_are_the_same_in_the_interpreter() -> None:
    for seed in range(20):
        for kernel, arguments in calls(RandomMix(operators=(2, 60))(np.random.default_rng(seed))):
            given = [copied(arguments) for _ in range(2)]
            if kernel is records._copy_row:  # what it writes are addresses
                given = [(arguments[0], arguments[1].copy()) for _ in range(2)]
            kernel.compile(tuple(map(numba.typeof, given[0])))
            run = records._copy_in_python if kernel is records._copy_row else plain(kernel)
            results = kernel(*given[0]), run(*given[1])
            assert same(results[0], results[1]) and same(given[0], given[1]), kernel


@pytest.mark.parametrize("communication", ["free", "fair"])
def test_a_run_that_begins_again_is_the_same_in_the_interpreter(communication: str) -> None:
    problem = RandomMix()(np.random.default_rng(1))
    runs = []
    for how in (jit(decisions.restart.py_func), plain(decisions.restart)):  # type: ignore[attr-defined]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decisions, "restart", how)
            setting = online_setting(problem, runtime(f"classic,communication={communication}"))
            switches, factor = setting.switches, setting.factor
            changes = np.zeros(problem.num_operators), np.zeros(0, np.int32), np.zeros(0), np.zeros(0)
            runs.append(decisions.new_run(problem.arrays, switches, factor, *changes))
    assert same(*runs)


@pytest.mark.parametrize("families", [("layered",), ("inception_like",)])
def test_problems_are_the_same_in_the_interpreter(families: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = jit(random_mix._draw.py_func)  # type: ignore[attr-defined]
    mix = RandomMix(families, (1, 60), 3)
    for seed in range(200):
        drawn = []
        for how in (compiled, plain(random_mix._draw)):
            monkeypatch.setattr(random_mix, "_draw", how)
            rng = np.random.default_rng(seed)
            drawn.append((mix(rng).id, rng.bit_generator.state))
            monkeypatch.undo()
        assert drawn[0] == drawn[1]
