"""What learning adds to the search over splits: moves judged by a trained network against others.

    python studies/learning/splits.py random networks --linear one-unit.safetensors
    python studies/learning/splits.py headroom --count 16

``random`` are random networks on random machines of seeds that neither training nor any choice saw; ``networks`` are
GPT-2 and an LSTM, which training never saw, and networks of its families at a batch size that it never saw, on four
platforms. All searches begin with the same patterns and with EOP's splits before tuning. *random* takes all moves as
likely; *rule* makes odds of the time that parts save less what is dealt out and gathered more, both as far as they are
waited for; *untrained* has random weights; *trained* is the network of split-v2, and *one unit* one of one hidden unit,
a linear rule of the same inputs, trained alike (studies/learning/one-unit-splits.yaml). The tables have mean makespans
over HEFT's of the graph as it is, after so many plans for each key operator besides the first ones, and after so much
processor time of a search. The preparation of a graph, which is the same for all, is not counted. Intervals are 95 %
paired bootstrap intervals of the mean ratio of *trained* to each other one. ``headroom`` says what ten times the plans
are worth to split-v2 on random networks: what a better judge of moves could gain.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
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
NAMES = {
    "random": "random",
    "untrained": "untrained",
    "rule": "the rule by hand",
    "one unit": "the linear rule",
    "trained": "trained",
}
"""Judges of moves, in tables."""
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
        "untrained": Network(rng.normal(0, size, (len(FEATURES), 20)), np.zeros(20), rng.normal(0, 20**-0.5, 20)),
        "rule": rule(),
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


def searched(kind: str, options: Namespace) -> list[dict[str, Any]]:
    """A row for each graph, judge of moves and seed: makespans over the reference after each effort and each time."""
    rules = SplitRules(**hetgym.agents.load("split-v2").arguments)
    networks, count = methods(options.linear), options.count if kind == "random" else options.networks
    rows: list[dict[str, Any]] = []
    for title, pair in pairs(kind, count, options.first):
        menu = rules.menu(len(pair[1]))
        instance = Splits(rules, menu).instance(pair)
        ground = instance, menu, in_entries(instance, menu, eop(*pair, sweeps=0).graph)
        for name, network in networks.items():
            if not rows:
                curve(ground, network, rules, kind, 0)  # compiles
            for seed in range(options.seeds):
                made = curve(ground, network, rules, kind, seed)
                rows.append({"kind": kind, "problem": title, "judge": name, "seed": seed, **made})
        print(title, *(f"{row['judge']} {row['8']:.3f}" for row in rows[-len(networks) * options.seeds :]), flush=True)
    return rows


def show_searches(rows: list[dict[str, Any]]) -> None:
    """Mean makespans by judge of moves, and those of *trained* over the others."""
    judges, table = list(dict.fromkeys(row["judge"] for row in rows)), []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        some = [row for row in rows if row["kind"] == kind]
        count = len({row["problem"] for row in some})
        for at in (*map(str, EFFORTS), *(f"{limit} s" for limit in TIMES[kind])):
            means = {
                judge: np.array([row[at] for row in some if row["judge"] == judge]).reshape(count, -1).mean(axis=1)
                for judge in judges
            }
            ratios = [means["trained"] / means[judge] for judge in judges]
            over = dict(zip(judges, mean_intervals(ratios, np.random.default_rng(0)), strict=True))
            where = {"random": "random networks", "networks": "networks"}[kind]
            table.append({"kind": kind, "networks": f"{where} ({count})", "at": at, "means": means, "over": over})
    first: dict[str, Any] = {"networks": lambda row: row["networks"], "plans or time": lambda row: row["at"]}
    columns = {NAMES[judge]: lambda row, judge=judge: f"{row['means'][judge].mean():.3f}" for judge in judges}
    show("By method and number of plans", table, first | columns, "searches")
    columns = {
        f"over {NAMES[judge]}": lambda row, judge=judge: (
            f"{row['over'][judge].mean:.3f} ({ends(row['over'][judge].low, row['over'][judge].high, '.3f')})"
        )
        for judge in judges
        if judge != "trained"
    }
    show("The trained network over the others", table, first | columns, "ratios")
    leads = [
        1 - row["over"]["rule"].mean for row in table if row["kind"] == "random" and row["at"] in map(str, EFFORTS[1:])
    ]
    if leads:
        figure = {"figure": f"{100 * min(leads):.1f} to {100 * max(leads):.1f} %"}
        title = "lead of split-v2 over the rule by hand on random networks, 1 to 32 plans a key operator"
        columns = {"what": lambda _: title, "figure": lambda row: row["figure"]}
        show("Further figures", [figure], columns, "key-figures")


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("kind", nargs="+", choices=("random", "networks", "headroom"))
    parser.add_argument("--count", type=int, default=32, help="random graphs")
    parser.add_argument("--networks", type=int, default=24, help="cases of networks")
    parser.add_argument("--first", type=int, default=SEED, help="seed of the first random graph")
    parser.add_argument("--seeds", type=int, default=1, help="searches of each kind on each graph")
    parser.add_argument("--linear", type=Path, help="weights of a network of one hidden unit")
    parser.add_argument("--join", type=Path, nargs="*", default=[], help="files of earlier runs instead of a run")
    options = parser.parse_args()
    if options.kind == ["headroom"]:
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
    rows = [row for path in options.join for row in json.loads(path.read_text())["rows"]]
    rows = rows or [row for kind in options.kind for row in searched(kind, options)]
    show_searches(rows)
    save(options.json, "splits", rows)


if __name__ == "__main__":
    main()
