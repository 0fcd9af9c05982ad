"""What learning adds to the search over splits: moves judged by a trained network against others.

    python studies/learning/splits.py random --linear one-unit.safetensors
    python studies/learning/splits.py networks --linear one-unit.safetensors
    python studies/learning/splits.py headroom --count 16

``random`` are random networks on random machines of seeds that neither training nor any choice saw; ``networks`` are
GPT-2 and an LSTM, which training never saw, and networks of its families at a batch size that it never saw, on four
platforms. All searches begin with the same patterns and with EOP's splits before tuning. *random* takes all moves as
likely; *rule* makes odds of the time that parts save less what is dealt out and gathered more, both as far as they are
waited for; *untrained* has random weights; *trained* is the network of split-v2, and *one unit* one of one hidden unit,
a linear rule of the same inputs, trained alike (studies/learning/one-unit-splits.yaml). The table has mean makespans
over HEFT's of the graph as it is, after so many plans for each key operator besides the first ones, and after so much
processor time of a search. The preparation of a graph, which is the same for all, is not counted. Intervals are 95 %
paired bootstrap intervals of the mean ratio of *trained* to each other one. ``headroom`` says what ten times the plans
are worth to split-v2 on random networks: what a better judge of moves could gain.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hetgym
from hetgym.agents.splits.moves import FEATURES
from hetgym.agents.splits.planner import EFFORT, FILES, LEAST_EFFORT
from hetgym.agents.splits.search import SHARPNESS, Entries, Ground, SplitSearch
from hetgym.agents.splits.starts import in_entries
from hetgym.baselines import eop
from hetgym.bench.significance import mean_intervals
from hetgym.envs.split.dynamics import Splits
from hetgym.envs.split.instance import SplitInstance
from hetgym.envs.split.menu import Choice
from hetgym.envs.split.networks import RandomNetworks
from hetgym.envs.split.problems import Pair
from hetgym.envs.split.rules import SplitRules
from hetgym.graph import load_graph
from hetgym.platform import load_platform
from hetgym.search.proposals import Network

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, ends, save, show  # noqa: E402

SEED = 5_000_000
PLATFORMS = ("core-pair", "even-pair", "cpu-gpu-balanced", "cpu-2gpu-nvlink")
NETWORKS = (
    ("gpt2", 4), ("lstm", 8), ("shufflenet", 12), ("inception_v2", 12), ("vit_b16", 12), ("densenet121", 12),
)  # fmt: skip
MORE = 10
"""Plans of a long search over those of split-v2, for *headroom*."""

EFFORTS = (0, 1, 2, 4, 8, 32)
TIMES = {"random": (0.05, 0.1, 0.2), "networks": (0.2, 0.5, 1.0)}


def pairs(kind: str, count: int, first: int) -> Iterator[tuple[str, Pair]]:
    """Names, graphs and platforms."""
    if kind == "random":
        for seed in range(first, first + count):
            yield str(seed), RandomNetworks()(np.random.default_rng(seed))
        return
    every = [(network, batch, platform) for platform in PLATFORMS for network, batch in NETWORKS]
    for network, batch, platform in every[:count]:
        yield f"{network} x{batch} {platform}", (load_graph(network, batch=batch), load_platform(platform))


def rule() -> Network:
    """A network under which moves are drawn by a rule: the logarithm of the odds is five times what a move should save.

    It is the rule that earlier releases of split-v2 were. Searches raise odds to a power, which is taken back here: the
    sharper rule is no better.
    """
    enter = np.zeros((len(FEATURES), 2))
    enter[FEATURES.index("net")] = 5.0 / SHARPNESS, -5.0 / SHARPNESS
    return Network(enter, np.zeros(2), np.array([1.0, -1.0]))


def methods(linear: Path | None) -> dict[str, Network | None]:
    """Name of a way of judging moves -> network."""
    rng, size = np.random.default_rng(0), len(FEATURES) ** -0.5
    found: dict[str, Network | None] = {
        "random": None,
        "rule": rule(),
        "untrained": Network(rng.normal(0, size, (len(FEATURES), 20)), np.zeros(20), rng.normal(0, 20**-0.5, 20)),
    }
    if linear is not None:
        found["one unit"] = FILES.load(linear.with_suffix("")).network
    return found | {"trained": hetgym.agents.load("split-v2").network}


def curve(
    ground: tuple[SplitInstance, tuple[Choice, ...], Entries],
    network: Network | None,
    rules: SplitRules,
    kind: str,
    seed: int,
) -> dict[str, float]:
    """Makespans over the reference after each effort and each time."""
    instance, menu, start = ground
    begin = time.thread_time()
    made = Ground(instance, menu)
    search = SplitSearch(made, rules.scheduler, rules.simulated, network, seed, starts=[start])
    efforts = {f"{effort}": search.patterns + effort * len(instance.keys) for effort in EFFORTS}
    times, found = list(TIMES[kind]), {}
    while efforts or times:
        while times and (search.finished or time.thread_time() - begin > times[0]):
            found[f"{times.pop(0)} s"] = search.makespan / instance.reference
        while efforts and (search.finished or search.priced >= next(iter(efforts.values()))):
            name = next(iter(efforts))
            del efforts[name]
            found[name] = search.makespan / instance.reference
        left = next(iter(efforts.values()), search.priced + 5)
        search.advance(min(left, search.priced + 5))
    return found


def headroom(count: int, first: int) -> list[dict[str, Any]]:
    """split-v2 with :data:`MORE` times its plans over itself, on random networks."""
    policy, ratios = hetgym.agents.load("split-v2"), []
    rules = SplitRules(**policy.arguments)
    for title, pair in pairs("random", count, first):
        keys = len(Splits(rules, rules.menu(len(pair[1]))).instance(pair).keys)
        short = policy.plan(*pair)
        longer = policy.plan(*pair, splits=MORE * max(LEAST_EFFORT, EFFORT * keys))
        ratios.append(longer.makespan / short.makespan)
        print(title, f"{short.makespan:.4g} {longer.makespan:.4g}", flush=True)
    (interval,) = mean_intervals([ratios], np.random.default_rng(0))
    return [{"n": count, "mean": interval.mean, "low": interval.low, "high": interval.high}]


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("kind", choices=("random", "networks", "headroom"))
    parser.add_argument("--count", type=int, default=32, help="graphs")
    parser.add_argument("--first", type=int, default=SEED, help="seed of the first random graph")
    parser.add_argument("--seeds", type=int, default=1, help="searches of each kind on each graph")
    parser.add_argument("--linear", type=Path, help="weights of a network of one hidden unit")
    options = parser.parse_args()
    if options.kind == "headroom":
        found = headroom(options.count, options.first)
        show(
            "split-v2 with ten times the plans over itself",
            found,
            {
                "random networks": lambda row: str(row["n"]),
                "mean ratio": lambda row: f"{row['mean']:.4f}",
                "95 %": lambda row: ends(row["low"], row["high"]),
            },
            "headroom",
        )
        save(options.json, "splits", found)
        return
    given = hetgym.agents.load("split-v2").arguments
    rules = SplitRules(**given)
    networks = methods(options.linear)
    names = [*map(str, EFFORTS), *(f"{limit} s" for limit in TIMES[options.kind])]
    rows: list[dict[str, Any]] = []
    for title, pair in pairs(options.kind, options.count, options.first):
        menu = rules.menu(len(pair[1]))
        instance = Splits(rules, menu).instance(pair)
        ground = instance, menu, in_entries(instance, menu, eop(*pair, sweeps=0).graph)
        for name, network in networks.items():
            if not rows:
                curve(ground, network, rules, options.kind, 0)  # compiles
            for seed in range(options.seeds):
                made = curve(ground, network, rules, options.kind, seed)
                rows.append({"problem": title, "judge": name, "seed": seed, **made})
        print(title, *(f"{row['judge']} {row['8']:.3f}" for row in rows[-len(networks) * options.seeds :]), flush=True)
    table = []
    means = {
        (name, column): np.array([row[column] for row in rows if row["judge"] == name])
        .reshape(-1, options.seeds)
        .mean(axis=1)
        for name in networks
        for column in names
    }
    for column in names:
        ratios = {name: means["trained", column] / means[name, column] for name in networks if name != "trained"}
        intervals = mean_intervals(list(ratios.values()), np.random.default_rng(0))
        bounds = {name: (one.low, one.high) for name, one in zip(ratios, intervals, strict=True)}
        table.append({"at": column, "bounds": bounds} | {name: float(means[name, column].mean()) for name in networks})
        table[-1] |= {f"over {name}": float(ratio.mean()) for name, ratio in ratios.items()}
    show(
        f"Makespan over HEFT's of the unsplit graph, {len(rows) // len(networks) // options.seeds} graphs",
        table,
        {
            "plans a key operator, or time": lambda row: row["at"],
            **{name: lambda row, name=name: f"{row[name]:.4f}" for name in networks},  # type: ignore[misc]
            **{
                f"trained / {name}": lambda row, name=name: (  # type: ignore[misc]
                    f"{row[f'over {name}']:.4f} ({ends(*row['bounds'][name])})"
                )
                for name in networks
                if name != "trained"
            },
        },
    )
    save(options.json, "splits", [*rows, *table])


if __name__ == "__main__":
    main()
