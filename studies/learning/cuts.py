"""What learning adds to the annealing of pipeline cuts: odds of changes, learned from the outcomes of searches.

    python studies/learning/cuts.py --json cuts.json

The search is that of ``annealed_cut``, with one difference: a network chooses each change among several possible ones
that are drawn. It sees the layout: critical passes and loads of the pieces, what the critical paths become shorter,
transfers, memory, earlier refusals (:data:`FEATURES`). It is trained here, from scratch, to tell the odds that a change
makes the value smaller, on random chains under 1F1B, interleaved and ZB-H1 schedules.

Then follow held-out chains, of seeds from ``--seed`` on, other ones for each schedule. Nothing was chosen on those from
60 000 on. At each number of tries *none* is ``annealed_cut`` as it ships, *untrained* has random weights, *one unit* is
a network of one hidden unit trained alike, *2 x* and *4 x* are *none* with two and four times the tries. Ratios are
geometric means over others with as many tries, with 95 % bootstrap intervals over chains. Times are processor times of
a search, without the tables that its starts are read from. Shares are of all tries: *legal* changes fit into memory,
*simulated* ones pass the bound.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array
from hetgym.baselines.pipeline.annealing import (
    BEST,
    COLD,
    HOT,
    KEPT,
    LEGAL,
    NOW,
    PRICED,
    TRIAL,
    TRIED,
    CutSearch,
)
from hetgym.bench.significance import mean_intervals
from hetgym.pipeline import CutProblem, Objective, RandomChains, cut_problem
from hetgym.pipeline.changes import ADD, DROP, KINDS, REPLACE, ROUNDS, SHIFTS, SLIDE, SWAP, change, draw, draw_place
from hetgym.pipeline.layout import PATHS, Layouts, PassTables, copy, fits, least, price, set_times
from hetgym.pipeline.remainders import with_remainders
from hetgym.pipeline.tables import CutTables

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show  # noqa: E402

FEATURES = (
    "shift",  # 1, 2, 3 or 4 for 1, 2, 4 or 8 blocks, over 4
    *("slide", "swap", "replace", "drop", "add", "rounds"),
    *("critical", "other critical"),  # share of passes on the critical path that was found last
    *("often", "other often"),  # mean of these over the paths found, later ones count more
    *("load", "other load"),  # of the device, as a share of the value
    *("gain", "mean gain", "paid"),  # what the critical paths and the transfers become shorter
    *("room", "blocks", "other blocks"),  # free share of memory; 1 over the number of blocks
    *("heat", "refused", "stages", "unused"),
)
"""Inputs of the network. The piece of a change loses blocks, the other one gains them."""

F = len(FEATURES)
FADING = 0.2
"""Share of the latest path in the mean of paths."""
WORSE = 0.1
"""What counts in training for a change that is kept though the value grows: it may lead somewhere."""

CHAINS = {
    "8-20": RandomChains(),
    "24-48": RandomChains((24, 48), accelerators=4, cpus=4),
    "40-80": RandomChains((40, 80), accelerators=8, cpus=8),
}
CASES = (
    *(("8-20", schedule, 8) for schedule in ("1f1b", "interleaved", "zb-h1")),
    *(("24-48", schedule, 16) for schedule in ("1f1b", "interleaved", "zb-h1")),
    *(("40-80", schedule, 32) for schedule in ("1f1b", "interleaved", "zb-h1")),
)
"""Blocks of the chains, schedule and micro-batches."""


MORE = {"2 x": 2, "4 x": 4}
"""Names of searches without a network that have more tries, and how many times as many."""
OTHERS = ("none", "untrained", "one unit")
"""What the ratios are over."""


class Network(NamedTuple):
    """Weights [f, h], [h] and [h] of a network with one hidden layer of rectified units and one output."""

    enter: FloatArray
    bias: FloatArray
    leave: FloatArray


@record
class Guide(NamedTuple):
    """A network at work.

    Attributes:
        enter, bias, leave: its weights; without hidden units all changes are alike.
        inputs: [c, f] of the changes drawn; ``odds``: [c]; ``drawn``: [c, 3] kind, place and direction.
        refused: [kinds, s, 2] refusals of a change of the layout numbered ``since``.
        mean: [v d, 3, s] mean of the critical paths, by stages and rounds.
        rows: [r, f] inputs of changes that were tried, for training; ``outcome``: [r].
        count: [2] rows written, and the number of tries for each row.
    """

    enter: FloatArray
    bias: FloatArray
    leave: FloatArray
    inputs: FloatArray
    odds: FloatArray
    drawn: Int64Array
    refused: FloatArray
    since: Int64Array
    mean: FloatArray
    rows: FloatArray
    outcome: FloatArray
    count: Int64Array


class GuidedSearch(CutSearch):
    """A search whose changes a network chooses, each among several drawn; it keeps what became of some of them."""

    def __init__(
        self, cuts: CutProblem, network: Network, seed: int = 0, among: int = 8, rows: int = 0, every: int = 1
    ) -> None:
        super().__init__(cuts, seed)
        shapes, _, _, s = self._layouts.paths.shape
        self.guide = Guide(
            *network,
            inputs=np.zeros((among, F)),
            odds=np.zeros(among),
            drawn=np.zeros((among, 3), np.int64),
            refused=np.zeros((KINDS, s, 2)),
            since=np.full((KINDS, s, 2), -1),
            mean=np.zeros((shapes, 3, s)),
            rows=np.zeros((rows, F)),
            outcome=np.zeros(rows),
            count=np.array([0, every]),
        )

    def run(self, tries: int, seconds: float | None = None, began: float | None = None) -> None:
        """Search on, by tries alone."""
        assert seconds is None
        for lane, first, end, total in self._round(tries):
            heats = HOT * (COLD / HOT) ** (np.arange(first, end) / total)
            anneal(self._tables, self._passes, self._layouts, self.guide, self._rng, lane, first, heats, self.counts)


@lean
def anneal(
    t: CutTables,
    o: PassTables,
    b: Layouts,
    g: Guide,
    rng: np.random.Generator,
    lane: int,
    first: int,
    heats: FloatArray,
    counts: Int64Array,
) -> None:
    """As ``annealed_cut`` improves a lane, under a training objective, but for the choice of changes."""
    if first == 0:
        copy(b, lane, NOW)
        g.since[:] = -1
    for heat in heats:
        counts[TRIED] += 1
        c = choose(t, o, b, g, heat, counts[KEPT], rng)
        if c < 0:
            continue
        kind, place, back = g.drawn[c]
        limit, value = b.value[NOW] * (1.0 - heat * np.log(1.0 - rng.random())), np.inf
        if change(t, b, NOW, TRIAL, kind, place, back == 1, rng) and fits(t, b, TRIAL):
            counts[LEGAL] += 1
            set_times(t, b, TRIAL, True)
            value = least(b, TRIAL, len(t.capacity), limit)
            if value < limit:
                counts[PRICED] += 1
                value = price(o, b, TRIAL, False)
                notice(b, g, (b.shape[TRIAL, 1] - 1) * len(t.capacity) + b.shape[TRIAL, 0] - 1)
        if g.count[0] < len(g.rows) and counts[TRIED] % g.count[1] == 0:
            for f in range(F):
                g.rows[g.count[0], f] = g.inputs[c, f]
            smaller = value < b.value[NOW] * (1.0 - 1e-9)
            g.outcome[g.count[0]] = 1.0 if smaller else WORSE if value < limit else 0.0
            g.count[0] += 1
        if value >= limit:
            again = g.since[kind, place, back] == counts[KEPT]
            g.refused[kind, place, back] = (g.refused[kind, place, back] if again else 0.0) + 1.0
            g.since[kind, place, back] = counts[KEPT]
            continue
        counts[KEPT] += 1
        copy(b, TRIAL, NOW)
        if value < b.value[lane]:
            copy(b, NOW, lane)
        if value < b.value[BEST]:
            copy(b, NOW, BEST)


@step
def notice(b: Layouts, g: Guide, shape: int) -> None:
    """Take the path that was found last into the mean of its number of stages and rounds."""
    path, share = (b.known[shape] - 1) % PATHS, max(FADING, 1.0 / b.known[shape])
    for kind in range(3):
        for k in range(b.paths.shape[3]):
            g.mean[shape, kind, k] += share * (b.paths[shape, path, kind, k] - g.mean[shape, kind, k])


@step
def choose(t: CutTables, o: PassTables, b: Layouts, g: Guide, heat: float, kept: int, rng: np.random.Generator) -> int:
    """Draw changes and choose one by its odds; -1 if the layout allows none of those drawn."""
    total = 0.0
    for c in range(len(g.odds)):
        kind = draw(rng, KINDS)
        place, back = draw_place(b, NOW, kind, rng), draw(rng, 2)
        g.drawn[c, 0], g.drawn[c, 1], g.drawn[c, 2] = kind, place, back
        g.odds[c] = 0.0
        if look(t, b, g.inputs[c], g, kind, place, back, o.place.shape[3], heat, kept):
            log_odds = 0.0
            for h in range(len(g.bias)):
                value = g.bias[h]
                for f in range(F):
                    value += g.inputs[c, f] * g.enter[f, h]
                log_odds += max(0.0, value) * g.leave[h]
            g.odds[c] = np.exp(min(20.0, max(-20.0, log_odds)))
            total += g.odds[c]
    rest, chosen = total * rng.random(), -1
    for c in range(len(g.odds)):
        if g.odds[c] > 0.0 and rest >= 0.0:
            chosen, rest = c, rest - g.odds[c]
    return chosen


@step
def look(
    t: CutTables,
    b: Layouts,
    x: FloatArray,
    g: Guide,
    kind: int,
    place: int,
    back: int,
    batches: int,
    heat: float,
    kept: int,
) -> bool:
    """Write the inputs of a change of the present layout; False if the layout does not allow it."""
    p, v, d = b.shape[NOW, 0], b.shape[NOW, 1], len(t.capacity)
    piece, other, by = place, place, 0
    if kind <= SLIDE:
        if place >= p * v - 1:
            return False
        by = 1 << kind if kind < SHIFTS else 1
        piece, other = (place, place + 1) if back else (place + 1, place)
        if b.begun[NOW, piece + 1] - b.begun[NOW, piece] <= by:
            return False
    else:
        if (kind in (REPLACE, ADD) and p == d) or (kind in (SWAP, DROP, ROUNDS) and p < 2):
            return False
        if kind == ROUNDS and len(t.peak) <= 2:  # one round only
            return False
        if p > 1:
            other = (place - 1 if back and place > 0 else place + 1) % p
    for f in range(F):
        x[f] = 0.0
    if kind >= SLIDE:
        x[1 + kind - SLIDE] = 1.0
    else:
        x[0] = (1 + kind) / SHIFTS
    shape, value = (v - 1) * d + p - 1, b.value[NOW]
    last = b.paths[shape, (b.known[shape] - 1) % PATHS]
    for c in range(3):
        x[7] += 0.5 * last[c, piece] / batches
        x[8] += 0.5 * last[c, other] / batches
        x[9] += 0.5 * g.mean[shape, c, piece] / batches
        x[10] += 0.5 * g.mean[shape, c, other] / batches
        for k in range(v):
            x[11] += b.seconds[NOW, c, 0, k * p + piece % p] * batches / value
            x[12] += b.seconds[NOW, c, 0, k * p + other % p] * batches / value
    if kind <= SLIDE:
        one, two = b.device[NOW, piece % p], b.device[NOW, other % p]
        begin, end = b.begun[NOW, piece], b.begun[NOW, piece + 1]
        start, stop = (end - by, end) if back else (begin, begin + by)
        paid, more = 0.0, 0.0
        if t.pays[one] > 0.0:
            paid = t.comm[begin, end] - (t.comm[begin, start] if back else t.comm[stop, end])
        if t.pays[two] > 0.0:
            begin, end = b.begun[NOW, other], b.begun[NOW, other + 1]
            more = (t.comm[start, end] if back else t.comm[begin, stop]) - t.comm[begin, end]
        for c in range(3):
            here, there = b.whole[c, stop, one] - b.whole[c, start, one], b.whole[c, stop, two] - b.whole[c, start, two]
            if c < 2:
                here, there = here + paid, there + more
            x[13] += 20.0 * (last[c, piece] * here - last[c, other] * there) / value
            x[14] += 20.0 * (g.mean[shape, c, piece] * here - g.mean[shape, c, other] * there) / value
        x[15] = 20.0 * (paid - more) * batches / value
        for f in range(13, 16):
            x[f] /= 1.0 + abs(x[f])
    x[16] = room(t, b, other % p)
    x[17] = 1.0 / (b.begun[NOW, piece + 1] - b.begun[NOW, piece])
    x[18] = 1.0 / (b.begun[NOW, other + 1] - b.begun[NOW, other])
    x[19] = 0.2 * np.log10(heat)
    if g.since[kind, place, back] == kept:
        x[20] = g.refused[kind, place, back] / (2.0 + g.refused[kind, place, back])
    x[21], x[22] = p / 16.0, (d - p) / d
    return True


@step
def room(t: CutTables, b: Layouts, stage: int) -> float:
    """Share of the memory of a stage's device that is free."""
    p, v, device, need = b.shape[NOW, 0], b.shape[NOW, 1], b.device[NOW, stage], 0.0
    for c in range(v):
        first, end = b.begun[NOW, c * p + stage], b.begun[NOW, c * p + stage + 1]
        need += t.size[end] - t.size[first] + t.peak[v, p, stage] * (t.stash[end] - t.stash[first])
    return 1.0 - need / max(t.capacity[device], need, 1e-300)


def drawn_network(hidden: int, rng: np.random.Generator) -> Network:
    """A network of random weights."""
    return Network(rng.normal(0, 0.2, (F, hidden)), rng.normal(0, 0.2, hidden), rng.normal(0, 0.25, hidden))


def pipeline(blocks: str, schedule: str, batches: int, seed: int | list[int]) -> CutProblem:
    """A random chain with the tables that a search needs."""
    objective = Objective("training", schedule=schedule, micro_batches=batches)
    return with_remainders(cut_problem(CHAINS[blocks](np.random.default_rng(seed)), objective))


def train(hidden: int, updates: int, among: int, seed: int = 0) -> Network:
    """Train by outcomes: each update plays six searches and fits the odds to what became of their changes."""
    rng = np.random.default_rng([99, seed])
    torch.manual_seed(seed)
    pool = []
    for k in range(240):
        blocks = rng.choice(list(CHAINS), p=(0.2, 0.4, 0.4))
        schedule = rng.choice(("1f1b", "interleaved", "zb-h1"))
        pool.append(pipeline(str(blocks), str(schedule), int(rng.choice((8, 16, 32))), [5, k]))
    model = torch.nn.Sequential(torch.nn.Linear(F, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 1))
    optimizer = torch.optim.Adam(model.parameters())
    network = Network(np.zeros((F, 0)), np.zeros(0), np.zeros(0))
    for update in range(updates):
        inputs, outcomes = [], []
        for _ in range(6):
            tries = int(np.exp(rng.uniform(np.log(1_000), np.log(20_000))))
            cuts, number = pool[int(rng.integers(len(pool)))], int(rng.integers(2**31))
            search = GuidedSearch(cuts, network, number, among, rows=2_000, every=max(1, tries // 2_000))
            search.run(tries)
            inputs.append(search.guide.rows[: search.guide.count[0]])
            outcomes.append(search.guide.outcome[: search.guide.count[0]])
        x = torch.from_numpy(np.concatenate(inputs)).float()
        y = torch.from_numpy(np.concatenate(outcomes)).float()
        optimizer.param_groups[0]["lr"] = 5e-3 * (1 - 0.95 * update / updates)
        for batch in np.array_split(rng.permutation(len(y)), max(1, len(y) // 512)):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x[batch])[:, 0], y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if update >= 8:  # the first searches draw their changes alike
            enter, bias, leave, _ = (weight.detach().double().numpy() for weight in model.parameters())
            network = Network(np.ascontiguousarray(enter.T), bias.copy(), leave[0].copy())
    return network


def problems(count: int, seed: int) -> Iterator[tuple[tuple[str, str, int], CutProblem]]:
    """Held-out chains of each case, with seeds that no other case has."""
    for number, case in enumerate(CASES):
        for k in range(count):
            yield case, pipeline(*case, seed + number * count + k)


def compare(
    ways: dict[str, Network | None], budgets: list[int], count: int, seed: int, among: int
) -> list[dict[str, Any]]:
    """A row for each number of tries and each way: ratio over none with its interval, time, and shares of changes."""
    names = [*ways, *MORE]
    values = np.zeros((len(budgets), len(names), len(CASES) * count))
    spent, counts = np.zeros_like(values), np.zeros((*values.shape, 4))
    for i, (_, cuts) in enumerate(problems(count, seed)):
        CutSearch(cuts, 1).run(1_000)  # the first one of a chain is slower
        for j, tries in enumerate(budgets):
            for w, name in enumerate(names):
                network = ways.get(name)
                began = time.process_time()
                search = CutSearch(cuts, 1) if network is None else GuidedSearch(cuts, network, 1, among)
                search.run(MORE.get(name, 1) * tries)
                spent[j, w, i], counts[j, w, i] = time.process_time() - began, search.counts
                values[j, w, i] = search.value
                assert cuts.fits(search.cut) and np.isclose(cuts.evaluate(search.cut).value, search.value)
    rows = []
    for j, tries in enumerate(budgets):
        for w, name in enumerate(names):
            row: dict[str, Any] = {"what": name, "tries": tries, "chains": values.shape[2]}
            for other in (each for each in OTHERS if each in ways):
                logs = np.log(values[j, w] / values[j, names.index(other)])
                (found,) = mean_intervals([logs], np.random.default_rng(0))
                row[other] = [float(np.exp(edge)) for edge in (found.mean, found.low, found.high)]
                by_case = np.exp(logs.reshape(len(CASES), count).mean(axis=1)).tolist()
                row[f"{other}, by case"] = {str(case): ratio for case, ratio in zip(CASES, by_case, strict=True)}
            row |= {"time": float(spent[j, w].mean()), "slower": float(spent[j, w].sum() / spent[j, 0].sum())}
            shares: npt.NDArray[np.float64] = counts[j, w].sum(axis=0) / counts[j, w, :, TRIED].sum()
            rows.append(row | {"legal": shares[LEGAL], "simulated": shares[PRICED], "kept": shares[KEPT]})
    return rows


def ratio(found: list[float]) -> str:
    """A mean with its interval."""
    return "{:.4f} [{:.4f}, {:.4f}]".format(*found)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--count", type=int, default=80, help="held-out chains of each length and schedule")
    parser.add_argument("--seed", type=int, default=60_000, help="seed of the first held-out chain")
    parser.add_argument("--updates", type=int, default=300, help="updates of each training")
    parser.add_argument("--hidden", type=int, default=16, help="hidden units")
    parser.add_argument("--among", type=int, default=8, help="changes among which the network chooses")
    parser.add_argument("--tries", type=int, nargs="+", default=[1_000, 4_000, 16_000])
    options = parser.parse_args()
    torch.set_num_threads(1)
    ways: dict[str, Network | None] = {"none": None}
    ways["untrained"] = drawn_network(options.hidden, np.random.default_rng(3))
    began = time.process_time()
    ways["one unit"] = train(1, options.updates, options.among)
    ways["trained"] = train(options.hidden, options.updates, options.among)
    print(f"both trainings: {time.process_time() - began:.0f} s of processor time")
    for network in ways.values():  # compiled
        compare({"none": network}, [100], 1, 0, options.among)
    rows = compare(ways, options.tries, options.count, options.seed, options.among)
    show(
        f"Ratios of values, {rows[0]['chains']} chains",
        rows,
        {
            "what": lambda row: row["what"],
            "tries": lambda row: f"{row['tries']}",
            **{f"over {other}": lambda row, other=other: ratio(row[other]) for other in OTHERS},
            "time": lambda row: f"{1e3 * row['time']:.1f} ms",
            "over none's": lambda row: f"{row['slower']:.2f}",
            "legal": lambda row: f"{row['legal']:.1%}",
            "simulated": lambda row: f"{row['simulated']:.1%}",
        },
    )
    save(options.json, "cuts", rows)


if __name__ == "__main__":
    main()
