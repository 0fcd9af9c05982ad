"""Generalisation of the place policy to unseen sizes, numbers of devices, generators, networks and platforms.

    python studies/agents/generalisation.py --json generalisation.json

Every group is a set of held-out problems. Figures are mean ratios of makespans to that of the better of HEFT and PEFT,
both with insertion: for one greedy pass of the policy, for the rule that it was initialised with (the same roll-outs
without learning), for its four passes, and for the best of all list heuristics; and the largest ratio of the four
passes to HEFT. Under other runtimes the same schedules are simulated, and the simulated makespans are compared.
``--leave-out`` names families of networks. For each, a policy is trained without the family and compared with the
shipped one on the family.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hetgym
from hetgym import Problem
from hetgym.agents.networks.place import RULE
from hetgym.agents.place import episodes
from hetgym.agents.place.planner import FILES, PlacePlanner
from hetgym.agents.pretrained import FOLDER
from hetgym.baselines import get, names
from hetgym.graph.generators import generate_graph
from hetgym.schedule import Schedule
from hetgym.sim import simulate
from hetgym.sim.runtime import PRESETS
from hetgym.workloads import RandomMix
from hetgym.workloads.real_mix import NETWORKS, PLATFORMS, RealMix
from hetgym.workloads.synthetic import edge_weights, scale_communication, unrelated_costs

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show  # noqa: E402

KERNELS: dict[str, tuple[dict[str, Any], ...]] = {
    "cholesky": ({"tiles": 5}, {"tiles": 7}, {"tiles": 9}),
    "fft": ({"points": 16}, {"points": 32}),
    "gaussian_elimination": ({"size": 8}, {"size": 12}),
    "fork_join": ({},),
    "daggen": ({"tasks": 60}, {"tasks": 150}),
    "lstm_grid": ({},),
    "inception": ({},),
    "transformer": ({},),
}
"""Generators that no training saw, and their sizes."""

FAMILIES = {
    "Inception": ("inception_v1", "inception_v2"),
    "NASNet": ("nasnet",),
    "recurrent": ("lstm",),
    "transformers": ("bert_base", "vit_b16"),
    "chains": ("alexnet", "vgg19", "zfnet512"),
    "ResNet": ("resnet50",),
    "ShuffleNet": ("shufflenet",),
    "SqueezeNet": ("squeezenet",),
}
"""Families of the networks of :class:`~hetgym.workloads.RealMix`."""

Group = tuple[str, list[Problem]]


def drawn(mix: Callable[[np.random.Generator], Problem], count: int, seed: int) -> list[Problem]:
    """Problems of a distribution."""
    rng = np.random.default_rng(seed)
    return [mix(rng) for _ in range(count)]


def kernels(count: int, seed: int) -> Iterator[Group]:
    """Problems of generators, with unrelated costs on four devices, CCR 0.1 to 3."""
    for name, sizes in KERNELS.items():
        rng, problems = np.random.default_rng(seed), []
        for k in range(count):
            graph = generate_graph(name, rng, **sizes[k % len(sizes)])
            cost = unrelated_costs(len(graph), 4, rng)
            ccr = float(rng.choice((0.1, 0.5, 1.0, 3.0)))
            times = scale_communication(edge_weights(len(graph.edges), rng), cost, ccr)
            edges = zip(graph.edge_source.tolist(), graph.edge_target.tolist(), times.tolist(), strict=True)
            problems.append(Problem.from_arrays(cost, edges, tensors=range(len(times)), name=name))
        yield f"generator {name}", problems


def groups(count: int, seed: int) -> Iterator[Group]:
    """All groups but those of runtimes and of families left out."""
    for size in (20, 50, 100, 200, 400, 1000):
        few = max(4, count * 50 // size) if size > 50 else count
        yield f"{size} operators", drawn(RandomMix(operators=(size, size)), min(count, few), seed)
    for devices in range(2, 9):
        yield f"{devices} devices", drawn(RandomMix(operators=(50, 50), devices=devices), count, seed)
    for ccr in (0.01, 10.0):
        yield f"CCR {ccr:g}", drawn(RandomMix(operators=(50, 50), ccr=(ccr,)), count, seed)
    yield from kernels(count, seed)
    for platform in PLATFORMS:
        yield f"networks on {platform}", drawn(RealMix(platforms=(platform,), spread=0.0), count, seed)
    for platform in ("core-pair", "two-level-cluster"):
        yield f"networks on {platform} (unseen)", drawn(RealMix(platforms=(platform,), spread=0.0), count, seed)
    new = RealMix(networks=("densenet121", "gpt2"), most=1000)
    yield "networks never trained on", drawn(new, count // 2, seed)


def untrained(planner: PlacePlanner) -> PlacePlanner:
    """The rule that the network was initialised with."""
    from safetensors.numpy import load_file

    weights = load_file(FOLDER / "place-v1.safetensors")
    weights["head.score.weight"] = np.zeros_like(weights["head.score.weight"])
    rule = np.zeros_like(weights["head.rule"])
    for k, feature in enumerate(episodes.CANDIDATE_FEATURES):
        rule[k] = RULE.get(feature.name, 0.0)
    weights["head.rule"] = rule
    return PlacePlanner(weights, planner.card, planner.how)


def methods(planner: PlacePlanner) -> dict[str, Callable[[Problem], Schedule]]:
    """Name -> method, for all methods that are compared."""
    rule = untrained(planner)
    return {
        "one pass": lambda p: planner.plan(p, passes=1),
        "rule": lambda p: rule.plan(p, passes=1),
        "four passes": planner,
    }


def row(title: str, problems: Sequence[Problem], planner: PlacePlanner, runtime: str = "classic") -> dict[str, Any]:
    """Mean ratios of a group."""

    def value(problem: Problem, schedule: Schedule) -> float:
        return schedule.makespan if runtime == "classic" else simulate(problem, schedule, runtime).makespan

    heft = np.array([value(p, get("heft")(p)) for p in problems])
    pair = np.minimum(heft, [value(p, get("peft")(p)) for p in problems])
    found: dict[str, Any] = {"group": title, "problems": len(problems)}
    for name, method in methods(planner).items():
        begin = time.perf_counter()
        makespans = np.array([value(p, method(p)) for p in problems])
        found[f"{name} time"] = (time.perf_counter() - begin) / len(problems)
        found[name] = float(np.mean(makespans / pair))
        found[f"{name} worst"] = float(np.max(makespans / heft))
    every = np.min([[value(p, get(name)(p)) for p in problems] for name in names("list")], axis=0)
    found["lists"] = float(np.mean(every / pair))
    return found


def left_out(families: Sequence[str], steps: int, folder: Path, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """A row for each family: the shipped policy, and one that was trained without the family."""
    from hetgym.agents.recipe import load_recipe
    from hetgym.agents.run import TrainingRun

    shipped = hetgym.agents.load("place-v1")
    for family in families:
        rest = [name for name in NETWORKS if name not in FAMILIES[family]]
        settings = dict(load_recipe("place").settings)
        settings["curriculum"] = [
            {**entry, "arguments": {**entry.get("arguments", {}), "networks": rest}}
            if entry["kind"] == "real"
            else entry
            for entry in settings["curriculum"]
        ]
        path = folder / f"without-{family.lower()}"
        TrainingRun(load_recipe("place", settings=settings, steps=steps), path).train()
        other = FILES.load(path / "policy")
        problems = drawn(RealMix(networks=FAMILIES[family]), count, seed)
        found = row(f"{family}, left out of training", problems, other)
        found["shipped"] = row("", problems, shipped)["one pass"]
        yield found


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--count", type=int, default=48, help="problems of a group")
    parser.add_argument("--seed", type=int, default=30_000, help="no training draws from it")
    parser.add_argument("--leave-out", nargs="*", default=(), choices=[*FAMILIES], help="families of networks")
    parser.add_argument("--steps", type=int, default=100, help="updates of each training without a family")
    parser.add_argument("--folder", type=Path, default=Path("results"), help="of these trainings")
    parser.add_argument("--only-left-out", action="store_true", help="skip the other groups")
    options = parser.parse_args()
    if options.count < 2:
        parser.error("--count must be at least 2: some groups have half as many problems")
    planner = hetgym.agents.load("place-v1")
    table: list[dict[str, Any]] = []
    if not options.only_left_out:
        table = [row(title, problems, planner) for title, problems in groups(options.count, options.seed)]
        mixed = drawn(RealMix(spread=0.0, most=250), options.count // 2, options.seed)
        mixed += drawn(RandomMix(), options.count // 2, options.seed)
        table += [row(f"runtime {runtime}", mixed, planner, runtime) for runtime in PRESETS]
    table += left_out(options.leave_out, options.steps, options.folder, options.count // 2, options.seed)
    show(
        "Mean makespans over those of the better of HEFT and PEFT",
        table,
        {
            "group": lambda row: f"{row['group']} ({row['problems']})",
            **{
                name: lambda row, name=name: f"{row[name]:.3f}" for name in ("one pass", "rule", "four passes", "lists")
            },
            "worst over HEFT": lambda row: f"{row['four passes worst']:.3f}",
            "shipped": lambda row: f"{row['shipped']:.3f}" if "shipped" in row else "-",
            "time": lambda row: f"{row['four passes time'] * 1e3:.1f} ms",
        },
    )
    save(options.json, "generalisation", table)


if __name__ == "__main__":
    main()
