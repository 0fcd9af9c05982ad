"""Moves of the search over splits: key operators that are split alike get another entry of the menu together.

They are a connected piece of the graph, whose parts then stay where they are, or twins, operators of repeated blocks.

A number of moves are drawn at a time, and described by what is known before they are priced: how long the operators
would take in the new parts, what would be dealt out and gathered between neighbours, and how much of that matters in
the current plan. A network makes odds of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import inlined, lean, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.agents.splits.tables import Tables

FEATURES = (
    "waited",
    "work",
    "work_waited",
    "joints",
    "joints_waited",
    "net",
    "total",
    "operators",
    "share_of_operators",
    "joined_before",
    "joined_after",
    "from_whole",
    "to_whole",
    "same_axis",
    "parts_before",
    "parts_after",
    "least_before",
    "least_after",
    "late_small_part",
    "shift_against_lateness",
    "slack",
    "largest_load",
    "smallest_load",
    "refused",
    "refused_here",
    "batch",
    "output",
    "reduction",
    "spatial",
    "proportional",
    "size",
    "devices",
)
"""Inputs of the network, in its order; see :func:`describe`. Times are shares of the makespan, times a hundred if they
concern single operators, brought into (-1, 1) by :math:`x / (1 + |x|)`."""

TWINS = 0.5
"""Share of the moves that take twins."""

DOUBLINGS = 7
"""Sizes of moves are 1, 2, 4, … 64 operators."""


@record
class Plan(NamedTuple):
    """The plan that is being changed, as the moves see it.

    Attributes:
        entry: [K] entry of the menu.
        waited: [K] time of the critical chain that passes in the operator's block [s].
        busy: [K] run time in the block: from the first start of a part to the last finish [s].
        slack: [K] least time by which an operator of the block may be late [s].
        lateness: [K] finish of the smallest part less that of the largest one [s].
        refused: [K, A] moves to an entry with the operator as seed that were refused since its surroundings changed.
        value: the makespan [s], and the largest and the smallest share of it that a device works.
    """

    entry: IntArray
    waited: FloatArray
    busy: FloatArray
    slack: FloatArray
    lateness: FloatArray
    refused: FloatArray
    value: FloatArray


@record
class Moves(NamedTuple):
    """C moves.

    Attributes:
        number: [C] of operators; 0 for a draw that gave none.
        operators: [C, K] the operators, the seed first.
        entry: [C] the entry that they get.
        inputs: [C, f] see :data:`FEATURES`.
        mark: [K] scratch: 1 for operators of the move.
        queue: [K] scratch.
    """

    number: IntArray
    operators: IntArray
    entry: IntArray
    inputs: FloatArray
    mark: IntArray
    queue: IntArray


def new_moves(count: int, keys: int) -> Moves:
    """Allocate `count` moves of `keys` key operators."""
    return Moves(
        np.zeros(count, np.int32),
        np.zeros((count, keys), np.int32),
        np.zeros(count, np.int32),
        np.zeros((count, len(FEATURES))),
        np.zeros(keys, np.int32),
        np.zeros(keys, np.int32),
    )


@lean
def draw_moves(t: Tables, p: Plan, m: Moves, rng: np.random.Generator) -> None:
    """Draw moves, each seed, entry and size with the same probability, and describe them.

    Args:
        t: of the instance.
        p: the plan.
        m: filled in.
        rng: of the draws.
    """
    keys, entries = t.legal.shape
    for c in range(len(m.number)):
        m.number[c] = 0
        seed = int(rng.random() * keys)
        entry = int(rng.random() * entries)
        size = 1 << int(rng.random() * DOUBLINGS)
        if not t.legal[seed, entry] or entry == p.entry[seed]:
            continue
        m.entry[c] = entry
        if rng.random() < TWINS:
            m.number[c] = _collect(t, p, m, c, seed, entry, size, rng)
        else:
            m.number[c] = _grow(t, p, m, c, seed, entry, size, rng)
        describe(t, p, m, c)
        for k in range(m.number[c]):
            m.mark[m.operators[c, k]] = 0


# `queue[:behind]` holds operators that are reached, `queue[head:behind]` those whose neighbours were not looked at.
# Each is entered once, so the loop ends after K turns at most.
@step
def _grow(t: Tables, p: Plan, m: Moves, c: int, seed: int, entry: int, size: int, rng: np.random.Generator) -> int:
    """Grow a connected piece of operators that are split like the seed; those that allow the entry take part.

    Operators of the move are marked.
    """
    m.queue[0], m.operators[c, 0] = seed, seed
    head, behind, count = 0, 1, 1
    m.mark[seed] = 1
    while head < behind and count < size:
        i = m.queue[head]
        head += 1
        first, degree = t.neighbour_pointer[i], t.neighbour_pointer[i + 1] - t.neighbour_pointer[i]
        turn = int(rng.random() * degree)
        for k in range(degree):
            j = t.neighbour[first + (k + turn) % degree]
            if m.mark[j] == 0 and p.entry[j] == p.entry[seed] and count < size:
                m.mark[j] = 1
                m.queue[behind] = j
                behind += 1
                if t.legal[j, entry]:
                    m.operators[c, count] = j
                    count += 1
    for k in range(behind):
        m.mark[m.queue[k]] = 0
    for k in range(count):
        m.mark[m.operators[c, k]] = 1
    return count


@step
def _collect(t: Tables, p: Plan, m: Moves, c: int, seed: int, entry: int, size: int, rng: np.random.Generator) -> int:
    """Collect twins of the seed that are split like it; operators of the move are marked."""
    m.operators[c, 0], m.mark[seed], count = seed, 1, 1
    first, twins = t.twin_pointer[seed], t.twin_pointer[seed + 1] - t.twin_pointer[seed]
    turn = int(rng.random() * twins)
    for k in range(twins):
        j = t.twin[first + (k + turn) % twins]
        if count < size and p.entry[j] == p.entry[seed]:
            m.operators[c, count], m.mark[j] = j, 1
            count += 1
    return count


@inlined
def _soft(x: float) -> float:
    """A number brought into (-1, 1)."""
    return x / (1.0 + abs(x))


@step
def joint(t: Tables, f: int, a: int, b: int) -> float:
    """Time to send what passes along an edge whose source and target are split by entries ``a`` and ``b`` [s]."""
    if a == 0 and b == 0:
        return 0.0
    made, dealt = t.made[t.source[f], a], t.dealt[f, b]
    if made > 0 and made == dealt:
        return 0.0
    dealing = 0.0
    if b > 0:
        dealing = t.parts[b] - 1.0 if dealt == -2 else 1.0
    return float(t.seconds[f] * ((1.0 if a > 0 else 0.0) + dealing))


@step
def describe(t: Tables, p: Plan, m: Moves, c: int) -> None:
    """Write the inputs of a move, whose operators are marked.

    ``waited`` is the share of the critical chain that passes in them; ``work`` the time that the slowest parts take
    less than now, ``joints`` the time that more is spent on dealing out and gathering; each also times the share of the
    operator that is waited for. ``net`` is the difference of the latter two.
    """
    x, entry, count = m.inputs[c], m.entry[c], m.number[c]
    seed = m.operators[c, 0]
    before, makespan = p.entry[seed], max(p.value[0], 1e-30)
    waited, work, work_waited, joints, joints_waited, total = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    slack, lateness, touched, joined_before, joined_after = np.inf, 0.0, 0, 0, 0
    for k in range(count):
        i = m.operators[c, k]
        critical = min(1.0, p.waited[i] / max(p.busy[i], 1e-30))
        less = t.together[i, before] - t.together[i, entry]
        more = t.apart[i, entry] - t.apart[i, before]
        for n in range(t.edge_pointer[i], t.edge_pointer[i + 1]):
            f = t.edge[n]
            s, r = t.source[f], t.target[f]
            other = r if s == i else s
            if m.mark[other] == 1 and other < i:
                continue  # an edge within the move counts once
            a, b = p.entry[s], p.entry[r]
            then_a, then_b = entry if m.mark[s] == 1 else a, entry if m.mark[r] == 1 else b
            more += joint(t, f, then_a, then_b) - joint(t, f, a, b)
            touched += 1
            joined_before += t.made[s, a] > 0 and t.made[s, a] == t.dealt[f, b]
            joined_after += t.made[s, then_a] > 0 and t.made[s, then_a] == t.dealt[f, then_b]
        waited += p.waited[i]
        work += less
        work_waited += critical * less
        joints += more
        joints_waited += critical * more
        total += t.total[i, entry] - t.total[i, before]
        slack = min(slack, p.slack[i])
        lateness += p.lateness[i]
    shift = t.least[seed, entry] - t.least[seed, before] if entry > 0 and before > 0 else 0.0
    refused = 0.0
    for a in range(t.legal.shape[1]):
        refused += p.refused[seed, a]
    unit = 100.0 / makespan
    x[0] = waited / makespan
    x[1] = _soft(work * unit)
    x[2] = _soft(work_waited * unit)
    x[3] = _soft(joints * unit)
    x[4] = _soft(joints_waited * unit)
    x[5] = _soft((work_waited - joints_waited) * unit)
    x[6] = _soft(total * unit)
    x[7] = np.log2(float(count)) / (DOUBLINGS - 1)
    x[8] = count / t.legal.shape[0]
    x[9] = joined_before / max(1, touched)
    x[10] = joined_after / max(1, touched)
    x[11] = 1.0 if before == 0 else 0.0
    x[12] = 1.0 if entry == 0 else 0.0
    x[13] = 1.0 if t.axis[entry] == t.axis[before] else 0.0
    x[14] = t.parts[before] / 8.0
    x[15] = t.parts[entry] / 8.0
    x[16] = t.least[seed, before]
    x[17] = t.least[seed, entry]
    x[18] = _soft(lateness * unit)
    x[19] = _soft(-8.0 * shift * lateness * unit)
    x[20] = _soft(slack * unit)
    x[21] = p.value[1]
    x[22] = p.value[2]
    x[23] = _soft(p.refused[seed, entry] / 2.0)
    x[24] = _soft(refused / 8.0)
    for axis in range(4):
        x[25 + axis] = 1.0 if t.axis[entry] == axis else 0.0
    x[29] = t.proportional[entry]
    x[30] = np.log(t.sizes[0]) / 8.0
    x[31] = t.sizes[1] / 16.0


@lean
def log_odds(enter: FloatArray, bias: FloatArray, leave: FloatArray, inputs: FloatArray, found: FloatArray) -> None:
    """Judge moves.

    Args:
        enter: [f, h] weights of the inputs.
        bias: [h] of the hidden units.
        leave: [h] weights of the hidden units.
        inputs: [C, f] of the moves.
        found: [C] filled in: the logarithms of odds.
    """
    for c in range(len(inputs)):
        found[c] = 0.0
        for k in range(len(bias)):
            unit = bias[k]
            for f in range(inputs.shape[1]):
                unit += inputs[c, f] * enter[f, k]
            found[c] += max(0.0, unit) * leave[k]
