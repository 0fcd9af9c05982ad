"""Record hetgym's results digit by digit, and report changes since an earlier record.

    python scripts/behaviour.py record FILE [--only SECTION,...]
    python scripts/behaviour.py compare FILE [OTHER] [--only SECTION,...]

``record`` writes ``{section: {case: value}}`` as JSON: a number as ``float.hex()``, a larger value as a digest of its
bytes, a hetgym error as its name. With ``--only`` it keeps the other sections of a file. ``compare`` computes
everything again, or reads a second record, prints the differences, and exits with 1 if there are any. Use the two
before and after a change that must not change results. Records are valid for one machine: last digits of learned cost
models and of NumPy's functions may differ on another.

Only public names of the package are used, and results do not depend on time: searches get budgets of work. Solvers with
time limits, training, and measurements of real hardware are left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import inspect
import itertools
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import networkx as nx
import numpy as np
import numpy.typing as npt

import hetgym
from hetgym import (
    DataflowGraph,
    Device,
    Link,
    Platform,
    Problem,
    Runtime,
    Schedule,
    Trace,
    baselines,
    evaluate,
    load_graph,
    load_platform,
    simulate,
    validate,
)
from hetgym.sim import PRESETS, Loss, Situation, SlowDown, online

try:
    from hetgym import workloads as suites
    from hetgym import workloads as synthetic
    from hetgym.cli import catalogue
    from hetgym.planning import DECODES
except ImportError:  # older releases with another package structure
    from hetgym import catalogue, suites
    from hetgym import costs as synthetic
    from hetgym.sim import DECODES

with suppress(ImportError):
    import hetgym.agents.schedulers  # noqa: F401, enters the policies into the table of schedulers

Cases = Iterator[tuple[str, str]]
Record = dict[str, dict[str, str]]

SALT = 20_240_601
"""Seed that distinguishes the random problems of this script from all others."""

SCHEDULE = "assignment", "order", "priority", "start", "finish", "model", "scheduler"
"""What a schedule decides and plans, in every release."""

SHOWN = 20
"""Most differences that are printed for each section."""


# Results as text ------------------------------------------------------------------------------------------------------


def _bytes_of(value: Any) -> Iterator[bytes]:
    """A value as bytes; equal numbers give equal bytes, whatever their type."""
    if value is None or isinstance(value, str | bool | np.bool_):
        yield f"{value};".encode()
    elif isinstance(value, int | np.integer):
        yield f"{int(value)};".encode()
    elif isinstance(value, float | np.floating):
        yield f"{float(value).hex()};".encode()
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        yield from _bytes_of_array(value)
    elif isinstance(value, Problem):
        yield from _bytes_of([value.digest, value.operator_names, value.operator_kinds, value.device_names])
    elif isinstance(value, DataflowGraph):
        yield hetgym.graph.to_json(value).encode()
    elif isinstance(value, Trace):
        yield from _bytes_of([value.problem.digest, *_happened(value)])
    elif isinstance(value, Schedule):
        yield from _bytes_of([getattr(value, name) for name in SCHEDULE])
    elif isinstance(getattr(value, "digest", None), str):
        yield value.digest.encode()
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from (f"{key}=".encode(), *_bytes_of(value[key]))
    elif isinstance(value, list | tuple | np.ndarray):
        yield f"{len(value)}[".encode()
        for item in value:
            yield from _bytes_of(item)
    elif dataclasses.is_dataclass(value):
        yield from _bytes_of([getattr(value, field.name) for field in dataclasses.fields(value)])
    else:
        raise TypeError(f"no digest of a {type(value).__name__}")


def _bytes_of_array(array: npt.NDArray[Any]) -> Iterator[bytes]:
    """Shape and content of an array; integers as 64-bit ones, every NaN as the same NaN."""
    kind = array.dtype.kind
    whole = np.ascontiguousarray(array, np.int64 if kind in "iu" else None)
    if kind == "f" and np.isnan(whole).any():
        whole = np.where(np.isnan(whole), np.array(np.nan, whole.dtype), whole)
    yield f"{kind}{whole.itemsize}{whole.shape}".encode()
    yield whole.tobytes()


def digest(*values: Any) -> str:
    """A short digest of any values."""
    state = hashlib.sha256()
    for value in values:
        for part in _bytes_of(value):
            state.update(part)
    return state.hexdigest()[:16]


def text(value: Any) -> str:
    """A single number in full; several values as ``number … digest``."""
    if isinstance(value, float | np.floating):
        return float(value).hex()
    if isinstance(value, tuple) and value and isinstance(value[0], float | np.floating):
        return f"{float(value[0]).hex()} {text(value[1:])}" if len(value) > 1 else float(value[0]).hex()
    return digest(value)


def attempt(work: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """The result of a call as text, or the name of the error that hetgym raised."""
    try:
        return text(work(*arguments, **options))
    except hetgym.HetgymError as error:
        return f"raises {type(error).__name__}"


def _happened(trace: Trace) -> list[Any]:
    return [trace.assignment, trace.start, trace.finish, trace.sent, trace.arrived, list(trace.order)]


def _seen(trace: Trace) -> tuple[Any, ...]:
    """Makespan and all other data of a trace except the blame."""
    memory = trace.memory
    return (
        trace.makespan,
        *_happened(trace),
        trace.transfers,
        trace.utilisation,
        memory.peak,
        memory.used,
        trace.runtime,
    )


def _blamed(trace: Trace) -> tuple[Any, ...]:
    """As :func:`_seen` with the blame, except if operators ran twice, where the walk backwards may not terminate."""
    return *_seen(trace), trace.blame


def _planned(problem: Problem, scheduler: Callable[[Problem], Schedule]) -> tuple[Any, ...]:
    """Makespan under the classic model, and the schedule."""
    schedule = scheduler(problem)
    return simulate(problem, schedule).makespan, schedule


# Random problems ------------------------------------------------------------------------------------------------------


class TableCosts:
    """A cost model that reads a table: operators by their names, devices by theirs."""

    def __init__(self, cost: npt.NDArray[np.float64]) -> None:
        self.cost = cost

    def predict(self, operators: Sequence[Any], device: Device) -> npt.NDArray[np.float64]:
        """[n] run times [s]."""
        return self.cost[[int(op.name[2:]) for op in operators], int(device.name[3:])]

    def spread(
        self, operators: Sequence[Any], device: Device
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """No spread."""
        known = self.predict(operators, device)
        return known, known


def random_edges(rng: np.random.Generator, n: int) -> list[tuple[int, int, float]]:
    """A random acyclic graph, numbered at random, with bytes: whole numbers, many of them equal or 0."""
    number = rng.permutation(n) if rng.random() < 0.7 else np.arange(n)
    reach = int(rng.choice((3, 8, n)))
    pairs = {
        (a, int(rng.integers(a + 1, min(n, a + 1 + reach))))
        for a in rng.integers(0, n - 1, int(n * rng.uniform(0.5, 2.5))).tolist()
    }
    sizes = rng.choice((0, 1, 2, 5, 9), len(pairs)) if rng.random() < 0.6 else rng.integers(0, 100, len(pairs))
    return [(int(number[a]), int(number[b]), float(s)) for (a, b), s in zip(sorted(pairs), sizes, strict=True)]


def random_costs(rng: np.random.Generator, n: int, d: int) -> npt.NDArray[np.float64]:
    """[n, d] run times: unrelated, whole numbers with ties and zeros, or by the devices' speeds; some of them inf."""
    kind = int(rng.integers(3))
    if kind == 0:
        cost = rng.lognormal(1.0, 0.8, (n, d))
    elif kind == 1:
        cost = rng.integers(0, 5, (n, d)).astype(np.float64)
    else:
        cost = np.outer(rng.lognormal(1.0, 0.6, n), rng.choice((0.25, 0.5, 1.0, 3.0), d))
    if rng.random() < 0.4:
        kept = cost[np.arange(n), (some := rng.integers(0, d, n))]
        cost[rng.random((n, d)) < 0.2] = np.inf
        cost[np.arange(n), some] = kept
    return cost


def plain_problem(rng: np.random.Generator, n: int, d: int, name: str) -> Problem:
    """A problem with dedicated links between all devices."""
    edges = random_edges(rng, n)
    between = [0.0, 0.5, rng.choice((0.0, 0.25, 1.0), (d, d))]
    rates = [1.0, 8.0, rng.choice((1.0, 2.0, 16.0), (d, d)), np.inf]
    tensors = [source * 4 + int(rng.integers(2)) for source, _, _ in edges] if rng.random() < 0.5 else None
    return Problem.from_arrays(
        random_costs(rng, n, d),
        edges,
        between[int(rng.integers(3))],
        rates[int(rng.integers(4))],
        tensors=tensors,
        weight_bytes=rng.integers(0, 20, n).astype(np.float64),
        memory_capacity=np.inf if rng.random() < 0.5 else float(rng.integers(10, 30) * n / d),
        name=name,
    )


def routed_problem(rng: np.random.Generator, n: int, d: int, name: str) -> Problem:
    """A problem on devices behind two switches, whose transfers share links, with hosts that launch ahead."""
    graph = nx.DiGraph(name=name)
    several = rng.random() < 0.5
    for i in range(n):
        size = {} if several else {"output_bytes": int(rng.integers(0, 12))}
        graph.add_node(f"op{i}", flops=1.0, **size)
    for source, target, payload in random_edges(rng, n):
        graph.add_edge(f"op{source}", f"op{target}", **({"bytes": int(payload)} if several else {}))
    kinds = rng.choice(("cpu", "gpu", "npu"), d)
    devices = [
        Device(f"dev{k}", str(kind), {"float32": 1e9}, 1e9, float(rng.choice((np.inf, 25.0 * n / d))))  # type: ignore[arg-type]
        for k, kind in enumerate(kinds)
    ]
    pairs = [(f"dev{k}", f"switch{int(rng.integers(2))}") for k in range(d)] + [("switch0", "switch1")]
    links = []
    for a, b in pairs:
        latency, rate = float(rng.choice((0.0, 0.1, 0.5))), float(rng.choice((1.0, 2.0, 4.0)))
        links += [Link(a, b, latency, rate), Link(b, a, latency, rate)]
    platform = Platform(name, tuple(devices), tuple(links), ("switch0", "switch1"))
    return Problem.build(hetgym.graph.from_networkx(graph), platform, TableCosts(random_costs(rng, n, d)))


@functools.lru_cache(maxsize=256)
def random_problem(seed: int) -> Problem:
    """A problem of 5 to 60 operators on 1 to 5 devices; every third one is routed."""
    rng = np.random.default_rng([SALT, seed])
    n, d = int(rng.integers(5, 61)), int(rng.integers(1, 6))
    make = routed_problem if seed % 3 == 2 else plain_problem
    return make(rng, n, d, f"random{seed}")


def random_placement(problem: Problem, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """[n] any device that can run each operator."""
    return np.array([rng.choice(np.flatnonzero(row)) for row in np.isfinite(problem.cost)], np.int32)


def random_order(problem: Problem, rng: np.random.Generator) -> list[int]:
    """A random topological order."""
    missing = np.bincount(problem.edge_target, minlength=problem.num_operators)
    readers: list[list[int]] = [[] for _ in missing]
    for source, target in zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True):
        readers[source].append(target)
    ready, order = np.flatnonzero(missing == 0).tolist(), []
    while ready:
        order.append(ready.pop(int(rng.integers(len(ready)))))
        for target in readers[order[-1]]:
            missing[target] -= 1
            if missing[target] == 0:
                ready.append(target)
    return order


def by_device(order: Sequence[int], assignment: npt.NDArray[np.int32], d: int) -> list[list[int]]:
    """Each device's part of an order."""
    return [[i for i in order if assignment[i] == device] for device in range(d)]


def random_schedules(problem: Problem, seed: int) -> dict[str, Schedule]:
    """HEFT's schedule, random ones by order and by priority, and one that mostly deadlocks."""
    rng = np.random.default_rng([SALT, seed, 1])
    placement = random_placement(problem, rng)
    d, n = problem.num_devices, problem.num_operators
    return {
        "heft": baselines.get("heft")(problem),
        "random": Schedule(placement, order=by_device(random_order(problem, rng), placement, d)),
        "priority": Schedule(placement, priority=rng.integers(0, 9, n).astype(np.float64)),
        "shuffled": Schedule(placement, order=by_device(rng.permutation(n).tolist(), placement, d)),
    }


# Section: schedulers on hetbench --------------------------------------------------------------------------------------

BY_CLOCK = ("cp-sat",)
"""Schedulers that stop by the clock."""

LARGEST = {"dispatch-v1": 450, "dispatch-v2": 450, "place-v1-search": 450}
"""Scheduler -> most operators of a problem; on larger ones it takes several seconds."""


def schedulers(size: int = 0, budget: int | None = None) -> Iterator[tuple[str, baselines.Baseline]]:
    """Every deterministic scheduler that takes problems of this size; searches with their own budget or another."""
    for name in baselines.names():
        row = baselines.get(name)
        if name in BY_CLOCK or size > LARGEST.get(name, size) or not row.available:
            continue
        limited = budget is not None and "budget" in inspect.signature(row.function).parameters
        yield name, baselines.get(name, budget=budget) if limited else row


def hetbench_keys() -> list[str]:
    return [spec.name for spec in suites.load_suite("hetbench-v1").specs]


def hetbench(key: str) -> Cases:
    spec = next(spec for spec in suites.load_suite("hetbench-v1").specs if spec.name == key)
    problem = spec.build()
    for name, scheduler in schedulers(problem.num_operators):
        where = f"{key}/{name}"
        try:
            schedule = scheduler(problem)
        except hetgym.HetgymError as error:
            yield where, f"raises {type(error).__name__}"
            continue
        yield f"{where}/schedule", text(schedule)
        for preset in PRESETS:
            yield f"{where}/{preset}", attempt(_makespan, problem, schedule, preset)


def _makespan(problem: Problem, schedule: Schedule, runtime: str | Runtime) -> float:
    return simulate(problem, schedule, runtime).makespan


# Section: the simulator on random problems ----------------------------------------------------------------------------

BLOCK = 25
"""Number of random problems in one unit of work."""

EXTRAS: dict[str, dict[str, Any]] = {
    "plain": {},
    "noisy": {"dispatch": 0.25, "noise": 0.3, "seed": 5, "overlap": 0.2},
}


def blocks(count: int) -> list[str]:
    """Units of work for a number of random problems."""
    return [f"{first:05d}" for first in range(0, count, BLOCK)]


def variants() -> dict[str, list[Runtime]]:
    """Communication and transfers -> runtimes of all other switches."""
    found = {}
    for communication, transfers in itertools.product(
        ("free", "fifo", "fair", "endpoint"), ("per_edge", "cached", "aggregated")
    ):
        rest = itertools.product((1, 2), EXTRAS.values(), ("fixed", "priority"), ("off", "enforce"))
        found[f"{communication}+{transfers}"] = [
            Runtime(communication, transfers, streams=streams, order=order, memory=memory, **extra)
            for streams, extra, order, memory in rest
            if memory == "off" or (streams == 1 and not extra)
        ]
    return found


def random(key: str) -> Cases:
    for seed in range(int(key), int(key) + BLOCK):
        problem = random_problem(seed)
        yield f"{seed:05d}/problem", digest(problem)
        found = random_schedules(problem, seed)
        for kind, schedule in found.items():
            where = f"{seed:05d}/{kind}"
            yield f"{where}/valid", attempt(validate, problem, schedule)
            for preset in PRESETS:
                yield f"{where}/{preset}", attempt(_traced, problem, schedule, preset)
        yield from _varied(problem, seed, found)
        yield from _evaluated(problem, seed, found)
        if seed % 2 == 0:
            yield from _online(problem, seed)


def _traced(problem: Problem, schedule: Schedule, runtime: str | Runtime) -> tuple[Any, ...]:
    return _blamed(simulate(problem, schedule, runtime))


def _varied(problem: Problem, seed: int, schedules: Mapping[str, Schedule]) -> Cases:
    """A schedule under every combination of the runtime's switches."""
    for kind in ("heft", "random"):
        for name, runtimes in variants().items():
            found = [attempt(_run, problem, schedules[kind], runtime) for runtime in runtimes]
            yield f"{seed:05d}/{kind}/{name}", digest(found)


def _run(problem: Problem, schedule: Schedule, runtime: Runtime) -> tuple[Any, ...]:
    trace = simulate(problem, schedule, runtime)
    return trace.makespan, *_happened(trace)


def _evaluated(problem: Problem, seed: int, schedules: Mapping[str, Schedule]) -> Cases:
    """Many placements by each decode, a few of the batches large enough for threads; and schedules."""
    rng = np.random.default_rng([SALT, seed, 2])
    placements = np.stack([random_placement(problem, rng) for _ in range(70 if seed % 10 == 0 else 12)])
    some = [Runtime(memory="enforce"), Runtime(communication="endpoint", transfers="cached", order="priority")]
    runtimes: list[str | Runtime] = [*PRESETS, *some]
    for decode in DECODES:
        found = [attempt(evaluate, problem, placements, how, decode) for how in runtimes]
        yield f"{seed:05d}/evaluate/{decode}", digest(found)
    legal = [schedules[kind] for kind in ("heft", "random", "priority")]
    found = [attempt(evaluate, problem, legal, how) for how in runtimes]
    found.append(attempt(evaluate, problem, list(schedules.values())))
    yield f"{seed:05d}/evaluate/schedules", digest(found)


def _first(now: Situation) -> tuple[int, int]:
    """The first ready operator, on the device with the least estimated finish."""
    operator = int(now.ready[0])
    return operator, int(now.estimate(operator).finish.argmin())


def hesitant() -> Callable[[Situation], tuple[int, int] | None]:
    """A rule that takes the last ready operator, by its start, and sometimes waits while an operator runs."""
    asked = itertools.count(1)

    def decide(now: Situation) -> tuple[int, int] | None:
        if next(asked) % 4 == 0 and (now.running.any() or now.queued.any()):
            return None
        operator = int(now.ready[-1])
        start = now.estimate(operator).start
        return operator, len(start) - 1 - int(np.argmin(start[::-1]))

    return decide


def _online(problem: Problem, seed: int) -> Cases:
    """Runs with online decisions: undisturbed, with late jobs on slower devices, and with the loss of a device."""
    rng = np.random.default_rng([SALT, seed, 3])
    horizon = 2.0 * problem.num_operators / problem.num_devices
    d = problem.num_devices
    release = np.where(rng.random(problem.num_operators) < 0.3, rng.uniform(0, horizon, problem.num_operators), 0.0)
    slower = [SlowDown(int(rng.integers(d)), float(rng.uniform(0, horizon)), float(f)) for f in (3.0, 0.5)]
    loss = [Loss(int(rng.integers(d)), float(rng.uniform(0, horizon)))]
    more = Runtime(communication="endpoint", transfers="cached", streams=2, overlap=0.2, dispatch=0.25, noise=0.2)
    for name, runtime in {**PRESETS, "endpoint": more}.items():
        where = f"{seed:05d}/online/{name}"
        yield f"{where}/calm", attempt(_ran, problem, _first, runtime)
        yield f"{where}/late", attempt(_ran, problem, hesitant(), runtime, release, slower)
        yield f"{where}/loss", attempt(_ran, problem, hesitant(), runtime, release, [*slower, *loss])


def _ran(*arguments: Any) -> tuple[Any, ...]:
    return _seen(online(*arguments))


# Section: schedulers on random problems -------------------------------------------------------------------------------

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "heft": [{"insertion": False}],
    "heft-donf": [{"communication": word} for word in ("aggregated", "light", "classic")],
    "donf": [{"alpha": 0.2, "communication": "link-wait", "priority": "two-level"}],
    "cpgc-partition": [{"inner": "heft", "theta": 0.5}],
    "annealing": [{"decode": "order", "seed": 3, "budget": 5000}, {"start": "peft", "heat": 5.0, "budget": 5000}],
    "lns": [{"start": "cpop", "size": 5, "seed": 2, "budget": 5000}],
    "rand-heft": [{"seed": 1, "sigma": 0.5, "budget": 5000}],
    "pilot": [{"budget": 500}],
    "cpgc": [{"budget": 500}],
    "place-v1": [{"passes": 1}, {"passes": 6}],
    "random": [{"seed": 9}],
}
"""Scheduler -> further options to record."""


def schedulers_random_keys() -> list[str]:
    return [f"{first:05d}" for first in range(50_000, 50_150, 10)]


def schedulers_random(key: str) -> Cases:
    for seed in range(int(key), int(key) + 10):
        problem = random_problem(seed)
        for name, scheduler in schedulers(budget=20_000):
            yield f"{seed}/{name}", attempt(_planned, problem, scheduler)
        for name, choices in OPTIONS.items():
            for k, options in enumerate(choices):
                scheduler = baselines.get(name, **options)
                yield f"{seed}/{name}/{k}", attempt(_planned, problem, scheduler)
        yield f"{seed}/bounds", digest([attempt(bound, problem) for bound in _bounds()])
        yield f"{seed}/parts", digest(baselines.key_operators(problem), baselines.sub_models(problem))
        for name in ("annealing", "lns", "pilot", "rand-heft"):
            curve = baselines.anytime(name, problem, points=5, budget=2000)
            yield f"{seed}/anytime/{name}", digest(curve[:, [0, 2]])


def _bounds() -> list[Callable[[Problem], float]]:
    return [
        baselines.area_bound,
        baselines.combined_bound,
        baselines.communication_bound,
        baselines.critical_path_bound,
        baselines.load_bound,
        baselines.lower_bound,
        functools.partial(baselines.lower_bound, linear=True),
    ]


# Section: environments ------------------------------------------------------------------------------------------------

Configuration = tuple[str, dict[str, Any]]

LEVELS = ("graph", "candidates", "flat")
COMPLETIONS = ("eft+oct", "eft", "off")
RUNTIMES: dict[str, Runtime] = {
    **PRESETS,
    "endpoint": Runtime(communication="endpoint", transfers="cached", dispatch=0.1, overlap=0.1, noise=0.2, seed=3),
}


def place_configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Environments with ``mode="place"``."""
    problems = {"problem": [random_problem(seed) for seed in range(60_000, 60_009)]}
    for level, completion in itertools.product(LEVELS, COMPLETIONS):
        yield f"{level}/{completion}", {**problems, "observation": level, "completion": completion}
    for decode, (name, runtime) in itertools.product((*DECODES, "best"), RUNTIMES.items()):
        yield f"{decode}/{name}", {**problems, "decode": decode, "runtime": runtime, "observation": "candidates"}
    yield "sparse", {**problems, "reward": "sparse"}
    yield "sparse/links", {**problems, "reward": "sparse", "runtime": "links", "decode": "best"}
    for completion in COMPLETIONS:
        yield f"memory/{completion}", {**problems, "memory": "mask", "completion": completion}
    yield "padded", {**problems, "max_operators": 90, "max_edges": 400, "max_devices": 7}
    yield "mix", {}
    yield "layered", {"generator": "layered", "observation": "candidates"}
    yield "inception_like", {"generator": "inception_like", "observation": "flat"}
    yield "suite", {"suite": "quick", "runtime": "framework"}
    grid = {"graph": ["alexnet", "squeezenet"], "platform": ["cpu-gpu", "cpu-2gpu-nvlink"]}
    yield "grid", {**grid, "batch": 4, "costs": "roofline", "runtime": "links"}
    yield "grid/auto", {"graph": "alexnet", "platform": "cpu-gpu-npu"}


def dispatch_configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Environments with ``mode="dispatch"``."""
    problems = {"problem": [random_problem(seed) for seed in range(60_000, 60_009)]}
    for level, completion in itertools.product(LEVELS, COMPLETIONS):
        yield f"{level}/{completion}", {**problems, "observation": level, "completion": completion}
    for name, runtime in RUNTIMES.items():
        yield f"runtime/{name}", {**problems, "runtime": runtime}
        yield f"noise/{name}", {**problems, "runtime": runtime, "noise": 0.3, "observation": "candidates"}
    yield "sparse", {**problems, "reward": "sparse"}
    yield "memory", {**problems, "memory": "mask"}
    for candidates in (1, 3):
        yield f"candidates{candidates}", {**problems, "candidates": candidates}
    for jobs, gap in ((2, 0.5), (3, 0.1)):
        yield f"jobs{jobs}", {"jobs": jobs, "gap": gap, "runtime": "links", "noise": 0.1}
    changes = (SlowDown(1, 15.0, 2.5), SlowDown(0, 30.0, 0.5))
    yield "changes", {"changes": changes, "observation": "candidates"}
    yield "changes/loss", {"changes": (*changes, Loss(2, 22.0)), "runtime": "framework"}
    for name in PRESETS:
        losses = 0 if name == "fair" else 2
        yield f"drawn/{name}", {"slow_downs": 2, "losses": losses, "runtime": name, "jobs": 2, "noise": 0.1}


def split_configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """HetSplit-v0."""
    for level in LEVELS:
        yield level, {"observation": level}
        yield f"{level}/looking", {"observation": level, "lookahead": True, "completion": True, "key_operators": 5}
    for scheduler in ("peft", "donf", "m-etf", "m-topo"):
        yield f"scheduler/{scheduler}", {"scheduler": scheduler, "key_operators": 4}
    for name in PRESETS:
        yield f"runtime/{name}", {"runtime": name, "observation": "candidates"}
    yield "sparse", {"reward": "sparse", "completion": True, "key_operators": 4}
    yield "fused", {"fused": True, "lookahead": True, "key_operators": 4}
    yield "memory", {"memory": "mask", "key_operators": 4}
    yield "uneven", {"divisible": False, "multiple": 8, "granularity": 0.0}
    yield "menu", {"axes": ["output", "spatial"], "ways": [2, 5], "parts": ["proportional"]}
    yield "ways", {"ways": 2, "costs": "roofline"}
    grid = {"graph": ["alexnet", "squeezenet"], "platform": ["even-pair", "cpu-gpu-balanced"], "costs": "roofline"}
    yield "grid", {**grid, "batch": 8, "fused": True, "key_operators": 6, "observation": "candidates"}


def pipeline_configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """HetPipeline-v0."""
    for objective, level in itertools.product(("throughput", "latency", "training"), LEVELS):
        yield f"{objective}/{level}", {"objective": objective, "observation": level}
        yield f"{objective}/{level}/blind", {"objective": objective, "observation": level, "completion": False}
    for schedule, batches in itertools.product(hetgym.pipeline.SCHEDULES, (4, 12)):
        yield f"{schedule}/{batches}", {"objective": "training", "schedule": schedule, "micro_batches": batches}
    yield "interleaved/3", {"objective": "training", "schedule": "interleaved", "micro_batches": 12, "chunks": 3}
    yield "sparse", {"objective": "latency", "requests": 5, "reward": "sparse", "optimal": False}
    yield "padded", {"max_blocks": 30, "max_devices": 6}
    grid = {"graph": ["resnet50", "lstm"], "platform": ["cpu-gpu-npu", "cpu-2gpu-nvlink"], "costs": "roofline"}
    yield "grid", {**grid, "batch": 2}
    yield "grid/training", {**grid, "objective": "training", "optimizer": "momentum", "observation": "candidates"}
    yield "grid/trunk", {"graph": "bert_base", "platform": "8gpu-node", "costs": "roofline", "blocks": "trunk"}
    problems = [random_pipeline(seed) for seed in range(6)]
    yield "problems", {"problem": problems}
    yield "problems/latency", {"problem": problems, "objective": "latency"}


@functools.cache
def configurations() -> dict[str, Configuration]:
    """Name -> environment id and arguments."""
    found: dict[str, Configuration] = {}
    for name, arguments in place_configurations():
        found[f"place/{name}"] = "HetSchedule-v0", arguments
    for name, arguments in dispatch_configurations():
        found[f"dispatch/{name}"] = "HetSchedule-v0", {"mode": "dispatch", **arguments}
    for name, arguments in split_configurations():
        found[f"split/{name}"] = "HetSplit-v0", arguments
    for name, arguments in pipeline_configurations():
        found[f"pipeline/{name}"] = "HetPipeline-v0", arguments
    return found


class Journal:
    """Digests of everything that an environment returned, one for each key."""

    def __init__(self) -> None:
        self._states: dict[str, Any] = {}
        self.ends: list[str] = []

    def put(self, key: str, value: Any) -> None:
        """Add to a digest."""
        state = self._states.setdefault(key, hashlib.sha256())
        for part in _bytes_of(value):
            state.update(part)

    def see(self, observation: Any, info: Mapping[str, Any], reward: Any = None, over: Any = None) -> None:
        """Add the values that a reset or a step returned."""
        for key, leaf in (observation if isinstance(observation, dict) else {"flat": observation}).items():
            self.put(f"obs/{key}", leaf)
        self.put("rewards", reward)
        self.put("rewards", over)
        for key, value in info.items():
            self.put(f"info/{key}", value)

    def end(self, info: Mapping[str, Any]) -> None:
        """Note how an episode ended."""
        self.ends.append(" ".join([text(info["makespan"]), text(info["reference"]), str(int(info["illegal_actions"]))]))

    def cases(self, where: str) -> Cases:
        """All digests, one case for each key."""
        for k, end in enumerate(self.ends):
            yield f"{where}/end{k}", end
        for key, state in self._states.items():
            yield f"{where}/{key}", state.hexdigest()[:16]


def any_action(rng: np.random.Generator, mask: npt.NDArray[Any]) -> int:
    """Usually a legal action; sometimes any action, or one that does not exist."""
    if rng.random() < 0.05:
        return int(rng.integers(-1, len(mask) + 1))
    legal = np.flatnonzero(mask)
    return int(rng.choice(legal)) if len(legal) else 0


def scalar_episodes(name: str, episodes: int = 3) -> Cases:
    """Episodes with random actions, one at a time."""
    environment, arguments = configurations()[name]
    env = gym.make(environment, disable_env_checker=True, **arguments)
    rng, journal = np.random.default_rng(SALT), Journal()
    for episode in range(episodes):
        observation, info = env.reset(seed=11 if episode == 0 else None)
        journal.see(observation, info)
        over = False
        while not over:
            observation, reward, over, _, info = env.step(any_action(rng, info["action_mask"]))
            journal.see(observation, info, reward, over)
        journal.end(info)
    yield from journal.cases(f"{name}/scalar")


def vector_episodes(name: str, mode: str) -> Cases:
    """Three lanes with random actions for some steps."""
    environment, arguments = configurations()[name]
    envs = gym.make_vec(environment, num_envs=3, autoreset_mode=mode, **arguments)
    rng, journal = np.random.default_rng(SALT), Journal()
    observation, infos = envs.reset(seed=7)
    journal.see(observation, infos)
    for _ in range(100 if environment == "HetSchedule-v0" else 45):
        actions = np.array([any_action(rng, mask) for mask in infos["action_mask"]])
        observation, rewards, over, _, infos = envs.step(actions)
        journal.see(observation, infos, rewards, over)
        if mode == "Disabled" and over.any():
            masks = infos["action_mask"].copy()
            observation, infos = envs.reset(options={"reset_mask": over.copy()})
            journal.see(observation, infos)
            masks[over] = infos["action_mask"][over]
            infos = {**infos, "action_mask": masks}
    yield from journal.cases(f"{name}/{mode}")


EXTRA_EPISODES: dict[str, Callable[[], Cases]] = {}
"""Name -> episodes that need more than random actions."""


def extra(function: Callable[[], Cases]) -> Callable[[], Cases]:
    EXTRA_EPISODES[f"extra/{function.__name__}"] = function
    return function


@extra
def played_by_schedulers() -> Cases:
    for seed, scheduler in itertools.product(range(61_000, 61_006), ("heft", "peft", "min-min", "donf")):
        for decode in ("append", "insertion"):
            env = gym.make("HetSchedule-v0", problem=random_problem(seed), decode=decode, runtime="links")
            policy = baselines.as_policy(scheduler)
            observation, info = policy.reset(env, seed=1)
            journal, over = Journal(), False
            while not over:
                observation, reward, over, _, info = env.step(policy(observation, info))
                journal.see(observation, info, reward, over)
            yield f"extra/as_policy/{seed}/{scheduler}/{decode}", f"{text(info['makespan'])} {digest(info)}"


@extra
def played_by_agents() -> Cases:
    agents = {"uniform": hetgym.agents.uniform(4), "greedy": hetgym.agents.greedy("completion")}
    for (name, agent), seed in itertools.product(agents.items(), range(61_000, 61_006)):
        result = hetgym.agents.play(gym.make("HetSchedule-v0", problem=random_problem(seed)), agent, seed=2)
        yield f"extra/play/{name}/{seed}", text((result.total_reward, result.info))
        schedule = hetgym.agents.as_scheduler(agent, decode="best")(random_problem(seed))
        yield f"extra/as_scheduler/{name}/{seed}", text(schedule)


@extra
def forced_resets() -> Cases:
    """Episodes with problems, orders and conditions from reset's options, played again from their replays."""
    rng = np.random.default_rng(SALT)
    problems = [random_problem(seed) for seed in range(61_000, 61_010)]
    limits = {"max_operators": 130, "max_edges": 700, "max_devices": 5}
    for mode in ("place", "dispatch"):
        env = gym.make("HetSchedule-v0", mode=mode, disable_env_checker=True, **limits)
        for problem in problems:
            how = {"conditions": 3} if mode == "dispatch" else {"order": random_order(problem, rng)}
            journal = Journal()
            observation, info = env.reset(seed=1, options={"problem": problem, **how})
            journal.see(observation, info)
            over = False
            while not over:
                observation, reward, over, _, info = env.step(any_action(rng, info["action_mask"]))
                journal.see(observation, info, reward, over)
            yield from journal.cases(f"extra/forced/{mode}/{problem.name}")
            again = hetgym.envs.replay(problem, info["replay"], mode=mode, **limits)
            yield f"extra/replay/{mode}/{problem.name}", text(again["makespan"])


@extra
def replays() -> Cases:
    """Episodes that cut and split, played again."""
    chain = random_pipeline(3)
    env = gym.make("HetPipeline-v0", problem=chain, disable_env_checker=True)
    info = _random_episode(env)
    yield "extra/replay/pipeline", text(hetgym.envs.replay(chain, info["replay"])["value"])
    parts = load_graph("alexnet", batch=4), load_platform("even-pair")
    env = gym.make("HetSplit-v0", graph=parts[0], platform=parts[1], costs="roofline", disable_env_checker=True)
    info = _random_episode(env)
    again = hetgym.envs.replay(parts, info["replay"], costs="roofline")
    yield "extra/replay/split", text((again["makespan"], again["schedule"], again["split_graph"]))


@extra
def pictures() -> Cases:
    """Texts that environments render, and the state as a graph."""
    for name in ("place/mix", "dispatch/jobs2", "split/graph", "pipeline/latency/graph"):
        environment, arguments = configurations()[name]
        env = gym.make(environment, render_mode="ansi", disable_env_checker=True, **arguments)
        rng = np.random.default_rng(SALT)
        _, info = env.reset(seed=5)
        shown, over = [env.render()], False
        while not over:
            _, _, over, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
            shown.append(env.render())
        yield f"extra/ansi/{name}", digest(shown)
        if environment == "HetSchedule-v0":
            view = env.unwrapped.graph_view()  # type: ignore[attr-defined]
            yield f"extra/view/{name}", digest(list(view.nodes(data=True)), list(view.edges(data=True)))


def _random_episode(env: gym.Env[Any, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(SALT)
    _, info = env.reset(seed=5)
    over = False
    while not over:
        _, _, over, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
    return info


def envs_keys() -> list[str]:
    return [*configurations(), *EXTRA_EPISODES]


def envs(key: str) -> Cases:
    if key in EXTRA_EPISODES:
        yield from EXTRA_EPISODES[key]()
        return
    yield from scalar_episodes(key)
    for mode in ("NextStep", "SameStep", "Disabled"):
        yield from vector_episodes(key, mode)


# Section: policies ----------------------------------------------------------------------------------------------------


def policies_keys() -> list[str]:
    return [f"{name}/{part}" for name in hetgym.agents.names() for part in ("known", "plans")]


def policies(key: str) -> Cases:
    name, _, part = key.partition("/")
    policy = hetgym.agents.load(name)  # type: ignore[call-overload]
    if part == "known":
        from hetgym.agents.pretrained import replay

        for case in policy.card["known"]:
            yield f"{key}/{case}", text(replay(policy, case))
    else:
        yield from PLANS[policy.kind](key, policy)


def _place_plans(key: str, policy: Any) -> Cases:
    specs = {spec.name: spec for spec in suites.load_suite("hetbench-v1").specs}
    some = ("cholesky-20-ccr1@2-unrelated", "vgg19@cpu-gpu-balanced", "layered-50-ccr5@4-unrelated")
    problems = [random_problem(seed) for seed in range(62_000, 62_015)] + [specs[name].build() for name in some]
    choices: list[dict[str, Any]] = [
        {},
        {"passes": 1},
        {"passes": 7, "seed": 2},
        {"operators": 20_000, "seed": 1},
        {"operators": 3000, "passes": 1},
    ]
    for problem in problems:
        yield f"{key}/{problem.name}/call", text(policy(problem))
        for options in choices:
            schedule = policy.plan(problem, **options)
            yield f"{key}/{problem.name}/{_words(options)}", text((schedule.makespan, schedule))


def _dispatch_plans(key: str, policy: Any) -> Cases:
    choices: list[dict[str, Any]] = [
        {},
        {"samples": 1},
        {"samples": 4, "seed": 2, "temperature": 2.0},
        {"samples": 2, "runtime": "links"},
    ]
    for seed, options in itertools.product(range(62_000, 62_015), choices):
        where = f"{key}/{seed}/{_words(options)}"
        yield where, attempt(policy.plan, random_problem(seed), **options)
    conditions = {"jobs": 2, "noise": 0.2, "slow_downs": 1, "losses": 1, "observation": "candidates"}
    for seed in range(4):
        env = gym.make("HetSchedule-v0", mode="dispatch", disable_env_checker=True, **conditions)
        result = hetgym.agents.play(env, policy, seed=seed)
        yield f"{key}/play/{seed}", text((result.total_reward, result.info["makespan"], result.info["schedule"]))


def _split_plans(key: str, policy: Any) -> Cases:
    choices: dict[str, dict[str, Any]] = {"1": {"samples": 1}, "3": {"samples": 3}}
    if isinstance(policy, hetgym.agents.SplitPlanner):
        choices = {"default": {}, "60": {"splits": 60, "seed": 1}}
    for graph, platform, batch in (("alexnet", "cpu-gpu-balanced", 8), ("squeezenet", "even-pair", 4)):
        for name, options in choices.items():
            plan = policy.plan(load_graph(graph, batch), load_platform(platform), costs="roofline", **options)
            yield f"{key}/{graph}@{platform}/{name}", text((plan.makespan, plan.graph, plan.problem, plan.schedule))
    for seed in range(6):
        result = hetgym.agents.play(gym.make("HetSplit-v0", **policy.arguments), policy, seed=seed)
        yield f"{key}/play/{seed}", text((result.total_reward, result.info["makespan"], result.info["schedule"]))


def _pipeline_plans(key: str, policy: Any) -> Cases:
    for seed, objective in itertools.product(range(12), ("throughput", "latency", "training")):
        for samples in (1, 4):
            plan = policy.plan(random_pipeline(seed), samples=samples, objective=objective)
            yield f"{key}/{seed}/{objective}/{samples}", digest(plan)


PLANS: dict[str, Callable[[str, Any], Cases]] = {
    "place": _place_plans,
    "dispatch": _dispatch_plans,
    "split": _split_plans,
    "pipeline": _pipeline_plans,
}
"""Kind of policy -> its plans."""


def _words(options: Mapping[str, Any]) -> str:
    return "+".join(f"{option}={value}" for option, value in options.items()) or "default"


# Section: pipelines ---------------------------------------------------------------------------------------------------


def random_pipeline(seed: int) -> Any:
    """A random chain and its training step; with limits of memory."""
    return hetgym.pipeline.RandomChains()(np.random.default_rng([SALT, seed]))


def branched_pipeline(seed: int) -> Any:
    """A small graph with colours, backward operators and devices that cannot run everything."""
    rng = np.random.default_rng([SALT, seed, 4])
    n = int(rng.integers(4, 13))
    edges = sorted({(a, int(rng.integers(a + 1, n))) for a in rng.integers(0, n - 1, 2 * n).tolist()})
    cost = np.round(rng.uniform(0.0, 5.0, (n, 2)), 1)
    cost[rng.random(n) < 0.15, 1] = np.inf
    kind = hetgym.pipeline.DeviceKind
    kinds = [kind("cpu", int(rng.integers(1, 3)), transfers=False), kind("gpu", int(rng.integers(1, 4)), 3.0 * n)]
    colour = np.where(rng.random(n) < 0.2, rng.integers(0, 2, n), -1)
    return hetgym.pipeline.PipelineProblem(
        cost,
        edges,
        kinds,
        rng.integers(0, 3, n).astype(np.float64),
        rng.integers(0, 9, n).astype(np.float64),
        colour,
        name=f"branched{seed}",
    )


def pipeline_keys() -> list[str]:
    graphs = [f"zoo/{row['name']}" for row in catalogue.entries("graphs")]
    return ["schedules", "recurrent", *(f"chains/{first:03d}" for first in range(0, 60, 10)), *graphs]


def pipeline(key: str) -> Cases:
    kind, _, rest = key.partition("/")
    yield from {"schedules": _orders, "recurrent": _recurrent, "chains": _chains, "zoo": _zoo_pipelines}[kind](rest)


def _cuts(where: str, problem: Any, limit: int) -> Cases:
    """The cuts of a pipeline by every partitioner."""
    from hetgym.baselines import pipeline as cutting

    yield f"{where}/problem", digest(problem)
    for name, partition in cutting.PARTITIONERS.items():
        options = {"limit": limit} if name == "downset-dp" else {}
        yield f"{where}/{name}", attempt(_cut, problem, partition, options)
    for add, bandwidth in itertools.product((False, True), (np.inf, 1e9)):
        yield f"{where}/pipedream/{add}/{bandwidth:g}", attempt(cutting.pipedream, problem, None, bandwidth, add)


def _cut(problem: Any, partition: Callable[..., Any], options: Mapping[str, Any]) -> tuple[Any, ...]:
    assignment = partition(problem, **options)
    return problem.max_load(assignment), assignment


def _chains(rest: str) -> Cases:
    for seed in range(int(rest), int(rest) + 10):
        step = random_pipeline(seed)
        yield f"chains/{seed:03d}/training", digest(step)
        yield from _cuts(f"chains/{seed:03d}", step.problem, 100_000)
        yield from _cuts(f"branched/{seed:03d}", branched_pipeline(seed), 100_000)


def _zoo_pipelines(name: str) -> Cases:
    graph = load_graph(name, batch=2)
    for row, how in itertools.product(catalogue.entries("platforms"), hetgym.pipeline.BLOCKS):
        platform, where = load_platform(row["name"]), f"zoo/{name}@{row['name']}/{how}"
        if how in ("auto", "operators"):
            yield f"{where}/priced", attempt(hetgym.pipeline.pipeline, graph, platform, how=how)
        else:
            yield f"{where}/blocks", attempt(hetgym.pipeline.blocks, graph, how)
        if how == "auto":
            yield from _cuts(where, hetgym.pipeline.pipeline(graph, platform, "roofline"), 3_000)
            for optimizer in ("sgd", "adam"):
                step = hetgym.pipeline.training_pipeline(graph, platform, "roofline", optimizer=optimizer)
                yield f"{where}/training/{optimizer}", digest(step)


def _orders(_: str) -> Cases:
    """Orders of every pipeline schedule, their runs with random times, and under other runtimes."""
    rng = np.random.default_rng(SALT)
    for name, stages, batches in itertools.product(hetgym.pipeline.SCHEDULES, range(1, 7), (1, 2, 3, 4, 6, 8, 12)):
        for chunks in (1, 2, 3) if name == "interleaved" else (None,):
            where = f"schedules/{name}/{stages}/{batches}/{chunks}"
            forward, backward, weight = (rng.uniform(0.5, 2.0, stages) for _ in range(3))
            transfer = float(rng.choice((0.0, 0.3)))
            try:
                orders = hetgym.pipeline.orders(name, stages, batches, chunks)
            except hetgym.HetgymError as error:
                yield where, f"raises {type(error).__name__}"
                continue
            times = (forward, backward, weight if name == "zb-h1" else None, transfer)
            yield f"{where}/orders", digest(orders, hetgym.pipeline.peak_activations(orders))
            yield f"{where}/run", text(_blamed(hetgym.pipeline.run(orders, *times)))
            unrolled = hetgym.pipeline.unroll(orders, *times)
            for preset in ("links", "framework"):
                yield f"{where}/{preset}", attempt(_makespan, *unrolled, preset)


def _recurrent(_: str) -> Cases:
    """Slices of time steps, and wavefronts."""
    from hetgym.baselines.pipeline import time_slices, wavefront

    rng = np.random.default_rng(SALT)
    for k in range(40):
        devices, steps = int(rng.integers(1, 5)), int(rng.integers(4, 40))
        layers = rng.uniform(0.1, 2.0, (int(rng.integers(1, 6)), devices))
        overhead, transfer = rng.uniform(0.0, 0.5, devices), rng.uniform(0.0, 1.0, (devices, devices))
        for in_flight in (None, 1, "slices"):
            shop = time_slices(steps, layers[0], 5, overhead, transfer, in_flight)  # type: ignore[arg-type]
            yield f"recurrent/slices/{k}/{in_flight}", text((shop.makespan, shop, *shop.unroll()))
        for equal in (False, True):
            shop, chunk = wavefront(steps, layers, overhead, transfer, equal, 3)
            yield f"recurrent/wavefront/{k}/{equal}", text((shop.makespan, shop, chunk))


# Section: costs -------------------------------------------------------------------------------------------------------


def costs_keys() -> list[str]:
    graphs = [f"graph/{row['name']}" for row in catalogue.entries("graphs")]
    models = [f"model/{row['name']}" for row in catalogue.entries("costs")]
    listed = [f"suite/{row['name']}" for row in catalogue.entries("suites")]
    return [*graphs, *models, *listed, "platforms", "synthetic"]


def costs(key: str) -> Cases:
    kind, _, name = key.partition("/")
    parts = {"graph": _builds, "model": _predictions, "suite": _suite, "platforms": _platforms, "synthetic": _synthetic}
    yield from parts[kind](name)


def _builds(name: str) -> Cases:
    """A graph on every platform, priced by each cost model; also fused, and for training."""
    graphs = {f"b{batch}": load_graph(name, batch=batch) for batch in (1, 8)}
    graphs["fused"] = hetgym.graph.transforms.fuse(graphs["b1"]).graph
    graphs["training"] = hetgym.graph.transforms.training(graphs["b1"])
    for row, (form, graph), model in itertools.product(
        catalogue.entries("platforms"), graphs.items(), hetgym.costs.COST_MODELS
    ):
        where = f"graph/{name}-{form}@{row['name']}/{model}"
        yield where, attempt(Problem.build, graph, load_platform(row["name"]), model)


def _predictions(name: str) -> Cases:
    """Prices of a shipped cost model for the zoo's operators on each device that names it, and on one of each kind."""
    model = hetgym.costs.load_costs(name)
    devices = [device for row in catalogue.entries("platforms") for device in load_platform(row["name"])]
    kinds = {device.kind: device for device in reversed(devices)}
    chosen = {f"{d.kind} {d.model} {d.name}": d for d in [*kinds.values(), *(d for d in devices if d.costs == name)]}
    for row in catalogue.entries("graphs"):
        graph = load_graph(row["name"], batch=4)
        fused = hetgym.graph.transforms.fuse(graph).graph
        for (label, device), (form, source) in itertools.product(chosen.items(), (("", graph), ("fused", fused))):
            where = f"model/{name}/{row['name']}{form}/{label}"
            yield f"{where}/predict", attempt(model.predict, source.operators, device)
            yield f"{where}/spread", attempt(model.spread, source.operators, device)


def _suite(name: str) -> Cases:
    """Every problem of a suite; of large ones every fourth."""
    specs = suites.load_suite(name).specs
    for spec in specs[:: 4 if len(specs) > 100 else 1]:
        yield f"suite/{name}/{spec.name}", digest(spec.build())


def _platforms(_: str) -> Cases:
    for row in catalogue.entries("platforms"):
        platform = load_platform(row["name"])
        for name in ("latency", "bandwidth", "routes"):
            yield f"platforms/{row['name']}/{name}", digest(getattr(platform, name))
        yield f"platforms/{row['name']}/figures", digest(platform.to_dict())


def _synthetic(_: str) -> Cases:
    """Random costs, the distributions of random problems, and textbook examples."""
    for seed in range(10):
        rng = np.random.default_rng([SALT, seed])
        found = {
            "cvb": [synthetic.cvb_costs(20, 4, rng, consistency=word) for word in ("inconsistent", "consistent")],
            "range": synthetic.range_based_costs(20, 4, rng),
            "unrelated": synthetic.unrelated_costs(20, 4, rng, heterogeneity=0.8),
            "edges": synthetic.edge_weights(30, rng),
            "mix": hetgym.workloads.RandomMix()(rng),
            "real": hetgym.workloads.RealMix()(rng),
            "uniform": hetgym.workloads.on_uniform_machines(hetgym.graph.generate_graph("cholesky"), 5, 2.0, rng),
        }
        for name, value in found.items():
            yield f"synthetic/{name}/{seed}", digest(value)
    for name in ("topcuoglu", "arabnejad-barbosa"):
        yield f"synthetic/textbook/{name}", digest(hetgym.workloads.textbook(name))


# Section: graphs ------------------------------------------------------------------------------------------------------

GENERATED: dict[str, list[dict[str, Any]]] = {
    "cholesky": [{}, {"tiles": 5}],
    "daggen": [{}, {"tasks": 80, "fat": 0.8, "density": 0.2, "jump": 3}],
    "fft": [{}, {"points": 32}],
    "fork_join": [{}, {"stages": 2, "branches": 9}],
    "gaussian_elimination": [{}, {"size": 6}],
    "inception": [{}, {"blocks": 1, "batch": 8}],
    "inception_like": [{}, {"tasks": 90, "branches": (3, 3)}],
    "layered": [{}, {"tasks": 70, "width": 4}],
    "lstm_grid": [{}, {"layers": 2, "steps": 5, "batch": 3}],
    "transformer": [{}, {"blocks": 1, "heads": 8, "batch": 2}],
}
"""Generator -> parameters."""

COLUMNS = (
    "flops",
    "bytes_read",
    "bytes_written",
    "weight_bytes",
    "resident_bytes",
    "output_bytes",
    "intensity",
    "depth",
    "height",
    "is_fork",
    "is_join",
    "on_trunk",
    "topological_order",
    "fusion_class",
    "edge_bytes",
    "edge_tensor",
)


def graphs_keys() -> list[str]:
    return [*(f"zoo/{row['name']}" for row in catalogue.entries("graphs")), "generators", "collectives"]


def graphs(key: str) -> Cases:
    kind, _, name = key.partition("/")
    yield from {"zoo": _zoo, "generators": _generated, "collectives": _collectives}[kind](name)


def _described(where: str, graph: DataflowGraph) -> Cases:
    """A graph and every column that is derived from it."""
    yield f"{where}/graph", digest(graph)
    yield f"{where}/columns", digest([getattr(graph, name) for name in COLUMNS], graph.features().tolist())


def _zoo(name: str) -> Cases:
    """A graph of the zoo and all its transforms."""
    transforms = hetgym.graph.transforms
    graph = load_graph(name, batch=8)
    where = f"zoo/{name}"
    yield from _described(f"{where}/b1", load_graph(name))
    yield from _described(where, graph)
    again = hetgym.graph.from_networkx(hetgym.graph.to_networkx(graph))
    yield f"{where}/networkx", digest(again)
    fusion = transforms.fuse(graph)
    yield from _described(f"{where}/fused", fusion.graph)
    yield f"{where}/fused/groups", digest(fusion.group, fusion.members, transforms.post_dominators(graph))
    steps = {optimizer: transforms.training(graph, optimizer) for optimizer in transforms.OPTIMIZERS}
    for optimizer, step in steps.items():
        yield from _described(f"{where}/training/{optimizer}", step)
    for label, form in (("", graph), ("fused/", fusion.graph)):
        yield from _splits(f"{where}/split/{label}", form)
    for replicas, algorithm, chunks in itertools.product((2, 3), transforms.ALGORITHMS, (1, 2)):
        made = attempt(transforms.data_parallel, steps["sgd"], replicas, algorithm, chunks=chunks)
        yield f"{where}/replicas/{replicas}/{algorithm}/{chunks}", made


def _splits(where: str, graph: DataflowGraph) -> Cases:
    """The heaviest operators split in every way, and twice in a row."""
    transforms = hetgym.graph.transforms
    heaviest = np.argsort(-graph.flops, kind="stable")[:3].tolist()
    for i, axis, parts in itertools.product(heaviest, transforms.AXES, (2, 3, (1.0, 2.5))):
        yield f"{where}{i}/{axis}/{parts}", attempt(transforms.split, graph, i, axis, parts)
    names = [graph.operators[i].name for i in heaviest[:2]]

    def twice(axis: str) -> DataflowGraph:
        return transforms.split(transforms.split(graph, names[0], axis), names[1], axis)

    for axis in transforms.AXES:
        yield f"{where}twice/{axis}", attempt(twice, axis)


def _generated(_: str) -> Cases:
    for name in hetgym.graph.GENERATORS:
        for k, parameters in enumerate(GENERATED.get(name, [{}])):
            for seed in range(3):
                graph = hetgym.graph.generate_graph(name, np.random.default_rng([SALT, seed]), **parameters)
                yield from _described(f"generators/{name}/{k}/{seed}", graph)


def _collectives(_: str) -> Cases:
    transforms = hetgym.graph.transforms
    for name, ranks, algorithm, chunks in itertools.product(
        transforms.COLLECTIVES, (1, 2, 3, 4, 7), transforms.ALGORITHMS, (1, 3)
    ):
        made = attempt(transforms.collective, name, ranks, 420, algorithm=algorithm, chunks=chunks)
        yield f"collectives/{name}/{ranks}/{algorithm}/{chunks}", made


# All sections ---------------------------------------------------------------------------------------------------------


class Section(NamedTuple):
    """A part of the record.

    Attributes:
        units: function that returns the names of the units of work.
        cases: function that computes the cases of one unit.
    """

    units: Callable[[], list[str]]
    cases: Callable[[str], Cases]


SECTIONS: dict[str, Section] = {
    "hetbench": Section(hetbench_keys, hetbench),
    "random": Section(lambda: blocks(1000), random),
    "schedulers_random": Section(schedulers_random_keys, schedulers_random),
    "envs": Section(envs_keys, envs),
    "policies": Section(policies_keys, policies),
    "pipeline": Section(pipeline_keys, pipeline),
    "costs": Section(costs_keys, costs),
    "graphs": Section(graphs_keys, graphs),
}


class Found(NamedTuple):
    """The cases of one unit of work, and the time that they took on one core [s]."""

    section: str
    key: str
    cases: dict[str, str]
    seconds: float


def work_out(section: str, key: str) -> Found:
    """Compute one unit of work; a failure becomes a case, so that the rest can be compared."""
    warnings.simplefilter("ignore")
    began, cases = time.process_time(), {}
    try:
        for case, value in SECTIONS[section].cases(key):
            if case in cases:
                raise KeyError(f"case {case!r} stands twice")
            cases[case] = value
    except Exception as error:
        cases[f"{key}/fails"] = f"{type(error).__name__}: {error}"
    return Found(section, key, cases, time.process_time() - began)


def work_out_all(names: Sequence[str], processes: int) -> Record:
    """The record of some sections, in an order that does not depend on the order of completion."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # for the processes that are started below
    units = [(name, key) for name in names for key in SECTIONS[name].units()]
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    seconds = dict.fromkeys(names, 0.0)
    left = Counter(name for name, _ in units)
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(work_out, *unit) for unit in units]):
            unit = future.result()
            found[unit.section].update(unit.cases)
            seconds[unit.section] += unit.seconds
            left[unit.section] -= 1
            if left[unit.section] == 0:
                name = unit.section
                print(f"{name}: {len(found[name])} cases, {seconds[name]:.0f} s of one core", file=sys.stderr)
    return {name: dict(sorted(cases.items())) for name, cases in found.items()}


def failures(record: Record) -> list[str]:
    """Units of work that failed."""
    return [
        f"{name}: {case}: {value}"
        for name, cases in record.items()
        for case, value in cases.items()
        if case.endswith("/fails")
    ]


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """One line for each case that differs."""
    return [
        f"  {case}: {before.get(case, 'absent')} -> {after.get(case, 'absent')}"
        for case in sorted({*before, *after})
        if before.get(case) != after.get(case)
    ]


def report(before: Record, after: Record, names: Sequence[str]) -> bool:
    """Print the numbers of equal cases and the differences; return True if everything is equal."""
    equal = True
    for name in names:
        old, new = before.get(name, {}), after.get(name, {})
        changed = differences(old, new)
        equal = equal and not changed and bool(old)
        if not changed:
            print(f"{name}: {len(old)} cases equal" if old else f"{name}: no cases")
            continue
        print(f"{name}: {len(changed)} of {len({*old, *new})} cases differ")
        print("\n".join(changed[:SHOWN] + ([f"  … and {len(changed) - SHOWN} more"] if len(changed) > SHOWN else [])))
    return equal


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help=f"sections, out of {','.join(SECTIONS)}")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("other", type=Path, nargs="?", help="compare with this record, and work nothing out")
    given = parser.parse_args()
    given.names = given.only.split(",") if given.only else list(SECTIONS)
    for name in given.names:
        if name not in SECTIONS:
            parser.error(f"no section {name!r}; known: {', '.join(SECTIONS)}")
    if given.what == "record" and given.other:
        parser.error("record takes one file")
    return given


def main() -> int:
    given = arguments()
    print(f"hetgym in {Path(hetgym.__file__).parent}", file=sys.stderr)
    read = json.loads(given.file.read_text()) if given.what == "compare" else {}
    found = json.loads(given.other.read_text()) if given.other else work_out_all(given.names, given.processes)
    wrong = failures(found)
    print("\n".join(wrong), end="\n" if wrong else "")
    if given.what == "compare":
        return 0 if report(read, found, given.names) and not wrong else 1
    kept = json.loads(given.file.read_text()) if given.only and given.file.exists() else {}
    given.file.write_text(json.dumps({**kept, **found}, indent=0, sort_keys=True) + "\n")
    print(f"{sum(map(len, found.values()))} cases written to {given.file}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
