"""Proposals: a network that reads a plan and says which operators to move where.

For each pair of an operator and another device, and each size of a region, the network estimates the odds that moving a
region of that size, begun there, makes the plan shorter. Regions begin at pairs that are drawn by these odds. They
change with every change of the plan, but a pair is judged again only when it is drawn, and then drawn again if its odds
have fallen; beside each draw one more pair is judged, in turn. So the network costs a fraction of a try, however many
pairs there are.

What it sees is local: the run and transfer times that the operator itself would save, how much of that matters in the
plan, the loads of the two devices then, and how often the same was refused.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import inlined, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.search import course, regions, sum_tree
from hetgym.search.moves import draw
from hetgym.sim.kernel import Switches, keeps_order

FEATURES = (
    "saved",
    "run_saved",
    "transfer_saved",
    "relief",
    "delay",
    "longest_delay",
    "wait",
    "slack",
    "small_slack",
    "late",
    "load_difference",
    "load_there",
    "load_here",
    "neighbours_there",
    "neighbours_here",
    "run_here",
    "run_there",
    "begin",
    "heat",
    "refused",
    "since_refused",
    "busy_there",
    "idle_there",
    "net_relief",
    "devices",
    "operators",
    "size",
)
"""Inputs of the network, in its order; see :func:`look`. Times are measured in :math:`M d / n`, the makespan times
devices over operators, and brought into (-1, 1) by :math:`x / (1 + |x|)`."""

SIZE = len(FEATURES) - 1
"""Place of the size of the region, the only input that is not one of the pair."""

DRAWS = 4
"""Most draws for a region; the last one counts however its odds have changed."""

NEXT, TAILS, ROWS, EVERY, OPEN = 0, 1, 2, 3, 4  # in Proposals.counts


class Network(NamedTuple):
    """Weights of the network: a hidden layer of rectified units, and one output, the logarithm of the odds.

    Attributes:
        enter: [f, h] of the inputs, see :data:`FEATURES`.
        bias: [h].
        leave: [h].
    """

    enter: FloatArray
    bias: FloatArray
    leave: FloatArray


@record
class Proposals(NamedTuple):
    """A network at work on a course.

    Attributes:
        enter, bias, leave: its weights, see :class:`Network`; without hidden units there is no network.
        inputs: [f] scratch.
        hidden: [h] scratch.
        odds: [s] scratch: for each size of a region.
        tree: the odds of all pairs, summed over the sizes, as a sum tree; pair (i, b) is leaf i d + b.
        refused: [n, d] regions begun with the operator that were refused since one with it in was accepted.
        since: [n, d] changes kept when the last of these was refused.
        tail: [n] where devices do not keep to the orders of the plan: the least time from the operator's finish to the
            end if they keep to those that came about [s].
        order: [n] operators by their finish, when these were found.
        rows: [r, f] inputs of regions that were proposed, for training; ``outcome``: [r] 1 if the plan became shorter,
            ``WORSE`` if it was accepted though longer, else 0.
        counts: the pair to be judged next, -1 if none ever was; changes kept when tails were found; rows written; the
            number of regions for each row, 0 for no rows; whether the present region is a row.
    """

    enter: FloatArray
    bias: FloatArray
    leave: FloatArray
    inputs: FloatArray
    hidden: FloatArray
    odds: FloatArray
    tree: FloatArray
    refused: FloatArray
    since: FloatArray
    tail: FloatArray
    order: IntArray
    rows: npt.NDArray[np.float32]
    outcome: npt.NDArray[np.float32]
    counts: npt.NDArray[np.int64]


WORSE = 0.1
"""What a region counts in training that is accepted though it makes the plan longer: it may lead somewhere."""

NONE = Network(np.zeros((len(FEATURES), 0)), np.zeros(0), np.zeros(0))
"""No network."""


def new_proposals(problem: Problem, network: Network | None = None, rows: int = 0, every: int = 1) -> Proposals:
    """Begin on a problem.

    Args:
        problem: the problem.
        network: the network; without one, proposals only keep rows.
        rows: most rows kept for training.
        every: number of regions for each row.
    """
    n, d = problem.cost.shape
    network = network or NONE
    used = len(network.bias) > 0 or rows > 0
    pairs = (n, d) if used else (0, 0)
    return Proposals(
        enter=np.ascontiguousarray(network.enter, np.float64),
        bias=np.ascontiguousarray(network.bias, np.float64),
        leave=np.ascontiguousarray(network.leave, np.float64),
        inputs=np.zeros(len(FEATURES)),
        hidden=np.zeros(len(network.bias)),
        odds=np.zeros(regions.DOUBLINGS),
        tree=sum_tree.new_tree(n * d if used else 0),
        refused=np.zeros(pairs),
        since=np.full(pairs, -1e9),
        tail=np.zeros(n if used else 0),
        order=np.arange(n if used else 0, dtype=np.int32),
        rows=np.zeros((rows, len(FEATURES)), np.float32),
        outcome=np.zeros(rows, np.float32),
        counts=np.array([-1, -1, 0, every if rows else 0, 0]),
    )


def rows_of(g: Proposals) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The inputs [r, f] and outcomes [r] that were kept for training."""
    count = int(g.counts[ROWS])
    return g.rows[:count].copy(), g.outcome[:count].copy()


@step
def propose(
    p: ProblemArrays,
    c: course.Course,
    g: Proposals,
    rng: np.random.Generator,
    share: float,
    sharpness: float,
    heat: float,
    most: int,
    exchanged: float,
    switches: Switches,
) -> int:
    """Put a region on another device; return the number of its operators, 0 if the draw gave none.

    Args:
        p: the problem.
        c: the course.
        g: the proposals.
        rng: of the draws.
        share: of regions that the network proposes; the others are drawn as :mod:`hetgym.search.regions` does.
        sharpness: power to which the network's odds are raised before they are drawn by.
        heat: the temperature, as a share of the makespan.
        most: number of sizes of regions.
        exchanged: share of regions in whose place another one comes.
        switches: of the course.
    """
    d = p.cost.shape[1]
    seed, device, doublings = -1, -1, 0
    if len(g.bias) > 0 and rng.random() < share:
        _bring_up_to_date(p, c, g, sharpness, heat, switches)
        for _ in range(DRAWS):
            if not g.tree[1] > 0.0:
                return 0
            leaf = sum_tree.draw_leaf(g.tree, rng.random())
            before = sum_tree.weight_of(g.tree, leaf)
            now = judge(p, c, g, leaf, sharpness, heat, switches)
            if now > 0.0:
                seed, device = leaf // d, leaf % d
                doublings = _draw_size(g, rng.random() * now, most)
                if now >= before * rng.random():
                    break
    else:
        seed, device = regions.draw_pair(p, c, rng)
        doublings = draw(rng, most)
    if seed < 0:
        return 0
    if g.counts[EVERY] > 0:
        _write_row(p, c, g, seed, device, doublings, heat, switches)
    return regions.move_region(p, c, rng, seed, device, 1 << doublings, exchanged, switches)


@step
def note(p: ProblemArrays, c: course.Course, g: Proposals, count: int, before: float, price: float) -> None:
    """Remember what became of a region, before it is kept or taken back.

    Args:
        p: the problem.
        c: the course, with the change.
        g: the proposals.
        count: number of operators of the region.
        before: makespan of the plan [s].
        price: of the change [s]; inf if it is refused.
    """
    if g.counts[OPEN] > 0:
        g.outcome[g.counts[ROWS]] = 1.0 if price < before * TIE else WORSE if before < price < np.inf else 0.0
        g.counts[ROWS] += 1
        g.counts[OPEN] = 0
    if len(g.refused) == 0:
        return
    if price < np.inf:
        for k in range(count):
            for device in range(p.cost.shape[1]):
                g.refused[c.moved[k], device] = 0.0
    else:
        i = c.moved[0]
        g.refused[i, c.assignment[i]] += 1.0
        g.since[i, c.assignment[i]] = c.counts[course.KEPT]


TIE = 1.0 - 1e-9
"""Factor by which a makespan must be shorter to count as shorter."""


@step
def _bring_up_to_date(
    p: ProblemArrays, c: course.Course, g: Proposals, sharpness: float, heat: float, switches: Switches
) -> None:
    """Judge the next pair in turn, and all of them at the beginning."""
    pairs = p.cost.size
    if g.counts[NEXT] < 0:
        for leaf in range(pairs):
            judge(p, c, g, leaf, sharpness, heat, switches)
        g.counts[NEXT] = 0
    judge(p, c, g, g.counts[NEXT], sharpness, heat, switches)
    g.counts[NEXT] = (g.counts[NEXT] + 1) % pairs


@step
def judge(
    p: ProblemArrays, c: course.Course, g: Proposals, leaf: int, sharpness: float, heat: float, switches: Switches
) -> float:
    """Judge one pair as the plan is now: its odds, summed over the sizes of regions, each of which is in ``odds``.

    All are raised to the power ``sharpness``.
    """
    i, device = leaf // p.cost.shape[1], leaf % p.cost.shape[1]
    total = 0.0
    if device != c.assignment[i] and p.cost[i, device] < np.inf:
        look(p, c, g, i, device, heat, switches)
        x, h, enter, bias, leave, odds = g.inputs, g.hidden, g.enter, g.bias, g.leave, g.odds
        for k in range(len(h)):
            h[k] = bias[k]
        for f in range(SIZE):
            for k in range(len(h)):
                h[k] += x[f] * enter[f, k]
        for doublings in range(len(odds)):
            log_odds = 0.0
            for k in range(len(h)):
                log_odds += max(0.0, h[k] + _size(doublings) * enter[SIZE, k]) * leave[k]
            odds[doublings] = np.exp(sharpness * min(LARGEST, max(-LARGEST, log_odds)))
            total += odds[doublings]
    sum_tree.weigh(g.tree, leaf, total)
    return total


LARGEST = 20.0
"""Largest logarithm of odds, and minus the smallest."""


@inlined
def _size(doublings: int) -> float:
    """The input of the network that stands for the size of a region."""
    return 0.2 * doublings


@step
def _draw_size(g: Proposals, rest: float, most: int) -> int:
    """The number of doublings at which the odds of one pair add up to a number below their sum."""
    doublings = 0
    while doublings < most - 1 and rest >= g.odds[doublings]:
        rest -= g.odds[doublings]
        doublings += 1
    return doublings


@step
def _write_row(
    p: ProblemArrays,
    c: course.Course,
    g: Proposals,
    operator: int,
    device: int,
    doublings: int,
    heat: float,
    switches: Switches,
) -> None:
    """Write the inputs of a region into a row, if it is its turn."""
    if g.counts[ROWS] < len(g.rows) and c.counts[course.TRIED] % g.counts[EVERY] == 0:
        look(p, c, g, operator, device, heat, switches)
        g.inputs[SIZE] = _size(doublings)
        for f in range(len(g.inputs)):
            g.rows[g.counts[ROWS], f] = g.inputs[f]
        g.counts[OPEN] = 1


@inlined
def _soft(x: float) -> float:
    """A number brought into (-1, 1)."""
    return x / (1.0 + abs(x))


@step
def look(
    p: ProblemArrays, c: course.Course, g: Proposals, operator: int, device: int, heat: float, switches: Switches
) -> None:
    """Write what the network is told about moving an operator, but the size of the region, to ``inputs``.

    A transfer has *room* if its data wait for their reader, or their reader's finish may be later. What a shorter
    transfer saves counts as *relief* the more, the less room it has; what a longer one takes beyond its room is
    *delay*.
    """
    x, n, d = g.inputs, p.cost.shape[0], p.cost.shape[1]
    a, i = c.assignment[operator], operator
    makespan = c.value[course.CURRENT]
    unit = n / (makespan * d)
    in_order = keeps_order(switches)
    if not in_order and g.counts[TAILS] != c.counts[course.KEPT]:
        _find_realised_tails(p, c, g)
        g.counts[TAILS] = c.counts[course.KEPT]
    tail = c.tail if in_order else g.tail
    slack = max(0.0, makespan - c.now.finish[i] - tail[i])
    run = p.cost[i, a] - p.cost[i, device]
    saved, relief, delay, longest, latest = 0.0, 0.0, 0.0, 0.0, 0.0
    here, there, neighbours = 0, 0, 0
    for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
        edge, b = p.predecessor_edge[m], c.assignment[p.predecessor[m]]
        arrived = c.now.arrived[edge]
        shorter = _time(p, b, a, edge) - _time(p, b, device, edge)
        room = slack + c.now.begin[i] - arrived
        latest = max(latest, arrived)
        saved += shorter
        gained, lost = _relief_and_delay(shorter, room, unit)
        relief, delay, longest = relief + gained, delay + lost, max(longest, lost)
        here, there, neighbours = here + (b == a), there + (b == device), neighbours + 1
    for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
        j = p.successor[edge]
        b = c.assignment[j]
        shorter = _time(p, a, b, edge) - _time(p, device, b, edge)
        room = max(0.0, makespan - c.now.finish[j] - tail[j]) + c.now.begin[j] - c.now.arrived[edge]
        saved += shorter
        gained, lost = _relief_and_delay(shorter, room, unit)
        relief, delay, longest = relief + gained, delay + lost, max(longest, lost)
        here, there, neighbours = here + (b == a), there + (b == device), neighbours + 1
    load_here, load_there = c.marks.load[0, a], c.marks.load[0, device]
    x[0] = _soft((run + saved) * unit)
    x[1] = _soft(run * unit)
    x[2] = _soft(saved * unit)
    x[3] = _soft(relief * unit)
    x[4] = _soft(delay * unit)
    x[5] = _soft(longest * unit)
    x[6] = _soft(max(0.0, c.now.begin[i] - latest) * unit)
    x[7] = _soft(slack * unit)
    x[8] = _soft(20.0 * slack * unit)
    x[9] = _soft((-run - slack) * unit)
    x[10] = _soft(4.0 * (load_there - load_here) / makespan)
    x[11] = min(2.0, load_there / makespan)
    x[12] = min(2.0, load_here / makespan)
    x[13] = there / max(1, neighbours)
    x[14] = here / max(1, neighbours)
    x[15] = _soft(p.cost[i, a] * unit)
    x[16] = _soft(p.cost[i, device] * unit)
    x[17] = c.now.begin[i] / makespan
    x[18] = 0.2 * np.log10(heat)
    x[19] = _soft(g.refused[i, device] / 3.0)
    x[20] = _soft((c.counts[course.KEPT] - g.since[i, device]) / 8.0)
    x[21] = x[22] = 0.0
    if in_order:
        first = max(0, c.turn[i] // course.GRID - 1)
        behind = first + 3
        window = c.now.finish[c.order[min(n, behind * course.GRID) - 1]] - c.now.finish[c.order[first * course.GRID]]
        busy = c.marks.load[first, device]
        if behind < len(c.marks.load):
            busy -= c.marks.load[behind, device]
        x[21] = min(2.0, busy / max(window, 1e-9 * makespan))
        x[22] = _soft((window - busy - p.cost[i, device]) * unit)
    x[23] = _soft((run + relief - delay) * unit)
    x[24] = d / 16.0
    x[25] = np.log(n) / 8.0


@inlined
def _relief_and_delay(shorter: float, room: float, unit: float) -> tuple[float, float]:
    """What a transfer that becomes shorter, or longer, counts as relief and as delay [s]; see :func:`look`."""
    if shorter > 0.0:
        return shorter / (1.0 + 10.0 * room * unit), 0.0
    return 0.0, max(0.0, -shorter - room)


@inlined
def _time(p: ProblemArrays, a: int, b: int, edge: int) -> float:
    """Time that what an edge carries takes from one device to another [s]."""
    return float(p.latency[a, b] + p.edge_bytes[edge] / p.bandwidth[a, b])


# Few operators finish in another order than at the last call, so that insertion sort takes about one pass.
@step
def _find_realised_tails(p: ProblemArrays, c: course.Course, g: Proposals) -> None:
    """Find the tails under the device orders that came about, whatever the runtime lets go beside each other."""
    begin, finish = c.now.begin, c.now.finish
    for k in range(1, len(g.order)):
        i, m = g.order[k], k
        while m > 0 and (finish[g.order[m - 1]], begin[g.order[m - 1]]) > (finish[i], begin[i]):
            g.order[m] = g.order[m - 1]
            m -= 1
        g.order[m] = i
    for device in range(len(c.following)):
        c.following[device] = 0.0
    for k in range(len(g.order) - 1, -1, -1):
        i = g.order[k]
        a = c.assignment[i]
        tail = c.following[a]
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            tail = max(tail, _time(p, a, c.assignment[j], edge) + finish[j] - begin[j] + g.tail[j])
        g.tail[i] = tail
        c.following[a] = finish[i] - begin[i] + tail
