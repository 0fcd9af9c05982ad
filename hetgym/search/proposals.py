"""Proposals: a network that reads a plan and says which operators to move where.

For each pair of an operator and another device, and each size of a region, the network estimates the odds that moving a
region of that size, begun there, makes the plan shorter. Regions begin at pairs that are drawn by these odds. They
change with every change of the plan, but a pair is judged again only when it is drawn, and then drawn again if its odds
have fallen; with each draw one more pair is judged, in turn. So the network costs a fraction of a try, however many
pairs there are.

Its inputs are local: the run and transfer times that the operator itself would save, how much of that matters in the
plan, the loads of the two devices then, and how often the same move was refused.
"""

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.blanks import blank
from hetgym._kernels.jit import inlined, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.problem import Problem, ProblemArrays
from hetgym.search import course as courses
from hetgym.search import outside, regions, sum_tree
from hetgym.search.course import Course
from hetgym.search.moves import draw
from hetgym.sim.kernel import Switches, keeps_order

FEATURES = (
    "saved", "run_saved", "transfer_saved", "relief", "delay", "longest_delay", "wait", "slack", "small_slack", "late",
    "load_difference", "load_there", "load_here", "neighbours_there", "neighbours_here", "run_here", "run_there",
    "begin", "heat", "refused", "since_refused", "busy_there", "idle_there", "net_relief", "devices", "operators",
    "size",
)  # fmt: skip
"""Inputs of the network, in its order; see :func:`look`. Times are measured in :math:`M d / n`, the makespan times
devices over operators, and brought into (-1, 1) by :math:`x / (1 + |x|)`."""

SIZE = len(FEATURES) - 1  # Place of the size of the region, the only input that is not one of the pair
DRAWS = 4  # Most draws for a region; the last one counts however its odds have changed

NEXT, TAILS, ROWS, EVERY, OPEN = 0, 1, 2, 3, 4  # in Proposals.counts


class Network(NamedTuple):
    """Weights of the network: a hidden layer of rectified units, and one output, the logarithm of the odds."""

    enter: FloatArray  # [f, h] of the inputs, see FEATURES
    bias: FloatArray  # [h]
    leave: FloatArray  # [h]


@record
class Proposals(NamedTuple):
    """A network at work on a course."""

    # enter, bias, leave: its weights, see Network; without hidden units there is no network
    enter: FloatArray
    bias: FloatArray
    leave: FloatArray
    inputs: Annotated[FloatArray, "f"]  # scratch
    hidden: Annotated[FloatArray, "h"]  # scratch
    odds: Annotated[FloatArray, "s"]  # scratch: for each size of a region
    tree: FloatArray  # the odds of all pairs, summed over the sizes, as a sum tree; pair (i, b) is leaf i d + b
    # regions begun with the operator that were refused since one with it in was accepted
    refused: Annotated[FloatArray, "n, d"]
    since: FloatArray  # [n, d] changes kept when the last of these was refused
    # [n] where devices do not keep to the orders of the plan: the least time from the operator's finish to the end if
    # they keep to those that came about [s]
    tail: Annotated[FloatArray, "n"]
    order: IntArray  # [n] operators by their finish, when these were found
    # [r, f] inputs of regions that were proposed, for training; `outcome`: [r] 1 if the plan became shorter, `WORSE` if
    # it was accepted though longer, else 0
    rows: Annotated[npt.NDArray[np.float32], "r, f"]
    outcome: Annotated[npt.NDArray[np.float32], "r"]
    # the pair to be judged next, -1 if none ever was; changes kept when tails were found; rows written; the number of
    # regions for each row, 0 for no rows; whether the present region is a row
    counts: npt.NDArray[np.int64]


WORSE = 0.1  # What a region counts in training that is accepted though it makes the plan longer: it may lead somewhere
NONE = Network(np.zeros((len(FEATURES), 0)), np.zeros(0), np.zeros(0))  # No network


def new_proposals(problem: Problem, network: Network | None = None, rows: int = 0, every: int = 1) -> Proposals:
    """Begin on a problem.

    Args:
        network: without one, proposals only keep rows.
        rows, every: most rows kept for training, and the number of regions for each.
    """
    n, d = problem.cost.shape
    return sized_proposals(n, d, network, rows, every)


def sized_proposals(n: int, d: int, network: Network | None = None, rows: int = 0, every: int = 1) -> Proposals:
    """As :func:`new_proposals`, for n operators and d devices."""
    network = network or NONE
    used = len(network.bias) > 0 or rows > 0
    n, d = (n, d) if used else (0, 0)
    known = {
        "enter": np.ascontiguousarray(network.enter, np.float64),
        "bias": np.ascontiguousarray(network.bias, np.float64),
        "leave": np.ascontiguousarray(network.leave, np.float64),
        "tree": sum_tree.new_tree(n * d),
        "since": np.full((n, d), -1e9),
        "order": np.arange(n, dtype=np.int32),
        "counts": np.array([-1, -1, 0, every if rows else 0, 0]),
    }
    return blank(Proposals, known, n=n, d=d, r=rows, f=len(FEATURES), h=len(network.bias), s=regions.DOUBLINGS)


def rows_of(guide: Proposals) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The inputs [r, f] and outcomes [r] that were kept for training."""
    count = int(guide.counts[ROWS])
    return guide.rows[:count].copy(), guide.outcome[:count].copy()


# A pair is drawn by odds that may be out of date. It is judged again, and kept with the share by which its odds have
# fallen, so that pairs come by the odds of now; after DRAWS draws the last one counts. O(DRAWS (log(n d) + f h)).
@step
def propose(
    p: ProblemArrays,
    course: Course,
    guide: Proposals,
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
        share: share of regions that the network proposes; the others are drawn as :mod:`hetgym.search.regions` does.
        sharpness: power to which the network's odds are raised before they are drawn by.
        heat: the temperature, as a share of the makespan.
        most: number of sizes of regions.
        exchanged: share of regions in whose place another one comes.
    """
    d = p.cost.shape[1]
    seed, device, doublings = -1, -1, 0
    if len(guide.bias) > 0 and rng.random() < share:
        _bring_up_to_date(p, course, guide, sharpness, heat, switches)
        for _ in range(DRAWS):
            if not guide.tree[1] > 0.0:
                return 0
            leaf = sum_tree.draw_leaf(guide.tree, rng.random())
            before = sum_tree.weight_of(guide.tree, leaf)
            now = judge(p, course, guide, leaf, sharpness, heat, switches)
            if now > 0.0:
                seed, device = _operator(course, leaf // d), leaf % d
                doublings = _draw_size(guide, rng.random() * now, most)
                if now >= before * rng.random():
                    break
    else:
        seed, device = regions.draw_pair(p, course, rng)
        doublings = draw(rng, most)
    if seed < 0:
        return 0
    if guide.counts[EVERY] > 0:
        _write_row(p, course, guide, seed, device, doublings, heat, switches)
    return regions.move_region(p, course, rng, seed, device, 1 << doublings, exchanged, switches)


@step
def note(p: ProblemArrays, course: Course, guide: Proposals, count: int, before: float, price: float) -> None:
    """Remember what became of a region of ``count`` operators, before it is kept or taken back.

    ``before`` is the makespan of the plan, ``price`` that of the change, inf if it is refused [s].
    """
    if guide.counts[OPEN] > 0:
        guide.outcome[guide.counts[ROWS]] = 1.0 if price < before * TIE else WORSE if before < price < np.inf else 0.0
        guide.counts[ROWS] += 1
        guide.counts[OPEN] = 0
    if len(guide.refused) == 0:
        return
    if price < np.inf:
        for k in range(count):
            for device in range(p.cost.shape[1]):
                guide.refused[course.moved[k], device] = 0.0
    else:
        i = course.moved[0]
        guide.refused[i, course.assignment[i]] += 1.0
        guide.since[i, course.assignment[i]] = course.counts[courses.KEPT]


TIE = 1.0 - 1e-9  # Factor by which a makespan must be shorter to count as shorter


@step
def _bring_up_to_date(
    p: ProblemArrays, course: Course, guide: Proposals, sharpness: float, heat: float, switches: Switches
) -> None:
    """Judge the next pair in turn, and all of them at the beginning."""
    low, end = outside.turns(course.outside, len(course.order))
    pairs = (end - low) * p.cost.shape[1]
    if guide.counts[NEXT] < 0:
        for leaf in range(pairs):
            judge(p, course, guide, leaf, sharpness, heat, switches)
        guide.counts[NEXT] = 0
    judge(p, course, guide, guide.counts[NEXT], sharpness, heat, switches)
    guide.counts[NEXT] = (guide.counts[NEXT] + 1) % pairs


@inlined
def _operator(course: Course, number: int) -> int:
    """The operator of a pair; those outside a window have none."""
    return outside.turns(course.outside, len(course.order))[0] + number


@step
def judge(
    p: ProblemArrays, course: Course, guide: Proposals, leaf: int, sharpness: float, heat: float, switches: Switches
) -> float:
    """Judge one pair as the plan is now: its odds, summed over the sizes of regions; ``odds`` has those of each size.

    All are raised to the power ``sharpness``.
    """
    i, device = _operator(course, leaf // p.cost.shape[1]), leaf % p.cost.shape[1]
    total = 0.0
    if device != course.assignment[i] and p.cost[i, device] < np.inf:
        look(p, course, guide, i, device, heat, switches)
        x, h, enter, bias, leave, odds = guide.inputs, guide.hidden, guide.enter, guide.bias, guide.leave, guide.odds
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
    sum_tree.weigh(guide.tree, leaf, total)
    return total


LARGEST = 20.0  # Largest logarithm of odds, and minus the smallest


@inlined
def _size(doublings: int) -> float:
    """The input of the network that stands for the size of a region."""
    return 0.2 * doublings


@step
def _draw_size(guide: Proposals, rest: float, most: int) -> int:
    """The number of doublings at which the odds of one pair add up to a number below their sum."""
    doublings = 0
    while doublings < most - 1 and rest >= guide.odds[doublings]:
        rest -= guide.odds[doublings]
        doublings += 1
    return doublings


@step
def _write_row(
    p: ProblemArrays,
    course: Course,
    guide: Proposals,
    operator: int,
    device: int,
    doublings: int,
    heat: float,
    switches: Switches,
) -> None:
    """Write the inputs of a region into a row, if it is its turn."""
    if guide.counts[ROWS] < len(guide.rows) and course.counts[courses.TRIED] % guide.counts[EVERY] == 0:
        look(p, course, guide, operator, device, heat, switches)
        guide.inputs[SIZE] = _size(doublings)
        for f in range(len(guide.inputs)):
            guide.rows[guide.counts[ROWS], f] = guide.inputs[f]
        guide.counts[OPEN] = 1


@inlined
def _soft(x: float) -> float:
    """A number brought into (-1, 1)."""
    return x / (1.0 + abs(x))


# The two loops add up what inputs and outputs would save, and count the neighbours on both devices; `busy` and `window`
# are the load there and the time between the marks around the operator's turn. O(degree), and O(n + e) once after each
# change that was kept where devices do not keep to their orders.
@step
def look(
    p: ProblemArrays, course: Course, guide: Proposals, operator: int, device: int, heat: float, switches: Switches
) -> None:
    """Write the network's inputs about moving an operator, except the size of the region, to ``inputs``.

    A transfer has *room* if its data wait for their reader, or their reader's finish may be later. The time that a
    shorter one saves is the more *relief*, the less room it has; the time beyond its room of a longer one is *delay*.
    """
    x, n, d = guide.inputs, outside.operators(course.outside, p.cost.shape[0]), p.cost.shape[1]
    end = outside.turns(course.outside, n)[1]
    a, i = course.assignment[operator], operator
    makespan = course.value[courses.CURRENT]
    unit = n / (makespan * d)
    in_order = keeps_order(switches)
    if not in_order and guide.counts[TAILS] != course.counts[courses.KEPT]:
        _find_realised_tails(p, course, guide)
        guide.counts[TAILS] = course.counts[courses.KEPT]
    tail = course.tail if in_order else guide.tail
    slack = max(0.0, makespan - course.now.finish[i] - tail[i])
    run = p.cost[i, a] - p.cost[i, device]
    saved, relief, delay, longest, latest = 0.0, 0.0, 0.0, 0.0, 0.0
    here, there, neighbours = 0, 0, 0
    for m in range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1]):
        edge, other = p.predecessor_edge[m], course.assignment[p.predecessor[m]]
        arrived = course.now.arrived[edge]
        shorter = _time(p, other, a, edge) - _time(p, other, device, edge)
        room = slack + course.now.begin[i] - arrived
        latest = max(latest, arrived)
        saved += shorter
        gained, lost = _relief_and_delay(shorter, room, unit)
        relief, delay, longest = relief + gained, delay + lost, max(longest, lost)
        here, there, neighbours = here + (other == a), there + (other == device), neighbours + 1
    for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
        j = p.successor[edge]
        other = course.assignment[j]
        shorter = _time(p, a, other, edge) - _time(p, device, other, edge)
        room = max(0.0, makespan - course.now.finish[j] - tail[j]) + course.now.begin[j] - course.now.arrived[edge]
        saved += shorter
        gained, lost = _relief_and_delay(shorter, room, unit)
        relief, delay, longest = relief + gained, delay + lost, max(longest, lost)
        here, there, neighbours = here + (other == a), there + (other == device), neighbours + 1
    load_here = course.marks.load[0, a] + outside.before(course.outside, a)
    load_there = course.marks.load[0, device] + outside.before(course.outside, device)
    x[0] = _soft((run + saved) * unit)
    x[1] = _soft(run * unit)
    x[2] = _soft(saved * unit)
    x[3] = _soft(relief * unit)
    x[4] = _soft(delay * unit)
    x[5] = _soft(longest * unit)
    x[6] = _soft(max(0.0, course.now.begin[i] - latest) * unit)
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
    x[17] = course.now.begin[i] / makespan
    x[18] = 0.2 * np.log10(heat)
    x[19] = _soft(guide.refused[i, device] / 3.0)
    x[20] = _soft((course.counts[courses.KEPT] - guide.since[i, device]) / 8.0)
    x[21] = x[22] = 0.0
    if in_order:
        first = max(0, course.turn[i] // courses.GRID - 1)
        behind = first + 3
        window = (
            course.now.finish[course.order[min(end, behind * courses.GRID) - 1]]
            - course.now.finish[course.order[first * courses.GRID]]
        )
        busy = course.marks.load[first, device]
        later = behind < len(course.marks.load)
        busy -= course.marks.load[behind, device] if later else outside.rest(course.outside, device)
        x[21] = min(2.0, busy / max(window, 1e-9 * makespan))
        x[22] = _soft((window - busy - p.cost[i, device]) * unit)
    x[23] = _soft((run + relief - delay) * unit)
    x[24] = d / 16.0
    x[25] = np.log(n) / 8.0


@inlined
def _relief_and_delay(shorter: float, room: float, unit: float) -> tuple[float, float]:
    """Relief and delay of a transfer that becomes shorter or longer [s]; see :func:`look`."""
    if shorter > 0.0:
        return shorter / (1.0 + 10.0 * room * unit), 0.0
    return 0.0, max(0.0, -shorter - room)


@inlined
def _time(p: ProblemArrays, a: int, b: int, edge: int) -> float:
    """Time that what an edge carries takes from one device to another [s]."""
    return float(p.latency[a, b] + p.edge_bytes[edge] / p.bandwidth[a, b])


# Few operators finish in another order than at the last call, so that insertion sort takes about one pass.
@step
def _find_realised_tails(p: ProblemArrays, course: Course, guide: Proposals) -> None:
    """Find the tails under the device orders that came about, even if the runtime runs operators side by side."""
    begin, finish = course.now.begin, course.now.finish
    for k in range(1, len(guide.order)):
        i, m = guide.order[k], k
        while m > 0 and (finish[guide.order[m - 1]], begin[guide.order[m - 1]]) > (finish[i], begin[i]):
            guide.order[m] = guide.order[m - 1]
            m -= 1
        guide.order[m] = i
    for device in range(len(course.following)):
        course.following[device] = 0.0
    for k in range(len(guide.order) - 1, -1, -1):
        i = guide.order[k]
        a = course.assignment[i]
        tail = course.following[a]
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            tail = max(tail, _time(p, a, course.assignment[j], edge) + finish[j] - begin[j] + guide.tail[j])
        guide.tail[i] = tail
        course.following[a] = finish[i] - begin[i] + tail
