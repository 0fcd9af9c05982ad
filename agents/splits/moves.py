"""Moves of the search over splits: key operators that are split alike get another entry of the menu together.

They are a connected piece of the graph, whose parts then stay where they are, or twins, operators of repeated blocks.

A number of moves are drawn at a time, and described by what is known before they are priced: how long the operators
would take in the new parts, what would be dealt out and gathered between neighbours, and how much of that matters in
the current plan. A network makes odds of it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import inlined, lean, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.agents.splits.tables import Tables

Input = IntEnum(
    "Input",
    "WAITED WORK WORK_WAITED JOINTS JOINTS_WAITED NET TOTAL OPERATORS SHARE_OF_OPERATORS JOINED_BEFORE JOINED_AFTER "
    "FROM_WHOLE TO_WHOLE SAME_AXIS PARTS_BEFORE PARTS_AFTER LEAST_BEFORE LEAST_AFTER LATE_SMALL_PART "
    "SHIFT_AGAINST_LATENESS SLACK LARGEST_LOAD SMALLEST_LOAD REFUSED REFUSED_HERE BATCH OUTPUT REDUCTION SPATIAL "
    "PROPORTIONAL SIZE DEVICES",
    start=0,
)
"""Inputs of the network, in its order; see :func:`describe`. Times are shares of the makespan, times a hundred if they
concern single operators, brought into (-1, 1) by :math:`x / (1 + |x|)`."""

FEATURES = tuple(column.name.lower() for column in Input)  # names of the inputs
TWINS = 0.5  # Share of the moves that take twins
DOUBLINGS = 7  # Sizes of moves are 1, 2, 4, … 64 operators


@record
class Plan(NamedTuple):
    """The plan that is being changed, as the moves see it."""

    entry: IntArray  # [K] entry of the menu
    waited: FloatArray  # [K] time of the critical chain that passes in the operator's block [s]
    busy: FloatArray  # [K] run time in the block: from the first start of a part to the last finish [s]
    slack: FloatArray  # [K] least time by which an operator of the block may be late [s]
    lateness: FloatArray  # [K] finish of the smallest part less that of the largest one [s]
    # [K, A] moves to an entry with the operator as seed that were refused since its surroundings changed
    refused: FloatArray
    value: FloatArray  # the makespan [s], and the largest and the smallest share of it that a device works


@record
class Moves(NamedTuple):
    """C moves."""

    number: IntArray  # [C] of operators; 0 for a draw that gave none
    operators: IntArray  # [C, K] the operators, the seed first
    entry: IntArray  # [C] the entry that they get
    inputs: FloatArray  # [C, f] see FEATURES
    mark: IntArray  # [K] scratch: 1 for operators of the move
    queue: IntArray  # [K] scratch


def new_moves(count: int, keys: int) -> Moves:
    """Allocate `count` moves of `keys` key operators."""
    number, operators, entry, mark, queue = (np.zeros(n, np.int32) for n in (count, (count, keys), count, keys, keys))
    return Moves(number, operators, entry, np.zeros((count, len(FEATURES))), mark, queue)


@lean
def draw_moves(tables: Tables, plan: Plan, moves: Moves, rng: np.random.Generator) -> None:
    """Draw moves, each seed, entry and size with the same probability, and describe them."""
    keys, entries = tables.legal.shape
    for move in range(len(moves.number)):
        moves.number[move] = 0
        seed = int(rng.random() * keys)
        entry = int(rng.random() * entries)
        size = 1 << int(rng.random() * DOUBLINGS)
        if not tables.legal[seed, entry] or entry == plan.entry[seed]:
            continue
        moves.entry[move] = entry
        if rng.random() < TWINS:
            moves.number[move] = _collect(tables, plan, moves, move, seed, size, rng)
        else:
            moves.number[move] = _grow(tables, plan, moves, move, seed, entry, size, rng)
        describe(tables, plan, moves, move)
        for k in range(moves.number[move]):
            moves.mark[moves.operators[move, k]] = 0


# `queue[:behind]` holds operators that are reached, `queue[head:behind]` those whose neighbours were not looked at.
# Each is entered once, so the loop ends after K turns at most.
@step
def _grow(
    tables: Tables, plan: Plan, moves: Moves, move: int, seed: int, entry: int, size: int, rng: np.random.Generator
) -> int:
    """Grow a connected piece of operators that are split like the seed; those that allow the entry take part.

    Operators of the move are marked.
    """
    moves.queue[0], moves.operators[move, 0] = seed, seed
    head, behind, count = 0, 1, 1
    moves.mark[seed] = 1
    while head < behind and count < size:
        i = moves.queue[head]
        head += 1
        first, degree = tables.neighbour_pointer[i], tables.neighbour_pointer[i + 1] - tables.neighbour_pointer[i]
        turn = int(rng.random() * degree)
        for k in range(degree):
            j = tables.neighbour[first + (k + turn) % degree]
            if moves.mark[j] == 0 and plan.entry[j] == plan.entry[seed] and count < size:
                moves.mark[j] = 1
                moves.queue[behind] = j
                behind += 1
                if tables.legal[j, entry]:
                    moves.operators[move, count] = j
                    count += 1
    for k in range(behind):
        moves.mark[moves.queue[k]] = 0
    for k in range(count):
        moves.mark[moves.operators[move, k]] = 1
    return count


@step
def _collect(
    tables: Tables, plan: Plan, moves: Moves, move: int, seed: int, size: int, rng: np.random.Generator
) -> int:
    """Collect twins of the seed that are split like it; operators of the move are marked."""
    moves.operators[move, 0], moves.mark[seed], count = seed, 1, 1
    first, twins = tables.twin_pointer[seed], tables.twin_pointer[seed + 1] - tables.twin_pointer[seed]
    turn = int(rng.random() * twins)
    for k in range(twins):
        j = tables.twin[first + (k + turn) % twins]
        if count < size and plan.entry[j] == plan.entry[seed]:
            moves.operators[move, count], moves.mark[j] = j, 1
            count += 1
    return count


@inlined
def _soft(x: float) -> float:
    """A number brought into (-1, 1)."""
    return x / (1.0 + abs(x))


@step
def joint(tables: Tables, edge: int, given: int, taken: int) -> float:
    """Time to send what passes along an edge whose ends are split by entries ``given`` and ``taken`` [s]."""
    if given == 0 and taken == 0:
        return 0.0
    made, dealt = tables.made[tables.source[edge], given], tables.dealt[edge, taken]
    if made > 0 and made == dealt:
        return 0.0
    dealing = 0.0
    if taken > 0:
        dealing = tables.parts[taken] - 1.0 if dealt == -2 else 1.0
    return float(tables.seconds[edge] * ((1.0 if given > 0 else 0.0) + dealing))


@step
def describe(tables: Tables, plan: Plan, moves: Moves, move: int) -> None:
    """Write the inputs of a move, whose operators are marked.

    ``waited`` is the share of the critical chain that passes in them; ``work`` the time that the slowest parts take
    less than now, ``joints`` the time that more is spent on dealing out and gathering; each also times the share of the
    operator that is waited for. ``net`` is the difference of the latter two.
    """
    x, entry, count = moves.inputs[move], moves.entry[move], moves.number[move]
    seed = moves.operators[move, 0]
    before, makespan = plan.entry[seed], max(plan.value[0], 1e-30)
    waited, work, work_waited, joints, joints_waited, total = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    slack, lateness, touched, joined_before, joined_after = np.inf, 0.0, 0, 0, 0
    for k in range(count):
        i = moves.operators[move, k]
        critical = min(1.0, plan.waited[i] / max(plan.busy[i], 1e-30))
        less = tables.together[i, before] - tables.together[i, entry]
        more = tables.apart[i, entry] - tables.apart[i, before]
        for n in range(tables.edge_pointer[i], tables.edge_pointer[i + 1]):
            edge = tables.edge[n]
            giver, taker = tables.source[edge], tables.target[edge]
            other = taker if giver == i else giver
            if moves.mark[other] == 1 and other < i:
                continue  # an edge within the move counts once
            given, taken = plan.entry[giver], plan.entry[taker]
            then_given = entry if moves.mark[giver] == 1 else given
            then_taken = entry if moves.mark[taker] == 1 else taken
            more += joint(tables, edge, then_given, then_taken) - joint(tables, edge, given, taken)
            touched += 1
            made, then_made = tables.made[giver, given], tables.made[giver, then_given]
            joined_before += made > 0 and made == tables.dealt[edge, taken]
            joined_after += then_made > 0 and then_made == tables.dealt[edge, then_taken]
        waited += plan.waited[i]
        work += less
        work_waited += critical * less
        joints += more
        joints_waited += critical * more
        total += tables.total[i, entry] - tables.total[i, before]
        slack = min(slack, plan.slack[i])
        lateness += plan.lateness[i]
    shift = tables.least[seed, entry] - tables.least[seed, before] if entry > 0 and before > 0 else 0.0
    refused = 0.0
    for a in range(tables.legal.shape[1]):
        refused += plan.refused[seed, a]
    unit = 100.0 / makespan
    x[Input.WAITED] = waited / makespan
    x[Input.WORK] = _soft(work * unit)
    x[Input.WORK_WAITED] = _soft(work_waited * unit)
    x[Input.JOINTS] = _soft(joints * unit)
    x[Input.JOINTS_WAITED] = _soft(joints_waited * unit)
    x[Input.NET] = _soft((work_waited - joints_waited) * unit)
    x[Input.TOTAL] = _soft(total * unit)
    x[Input.OPERATORS] = np.log2(float(count)) / (DOUBLINGS - 1)
    x[Input.SHARE_OF_OPERATORS] = count / tables.legal.shape[0]
    x[Input.JOINED_BEFORE] = joined_before / max(1, touched)
    x[Input.JOINED_AFTER] = joined_after / max(1, touched)
    x[Input.FROM_WHOLE] = 1.0 if before == 0 else 0.0
    x[Input.TO_WHOLE] = 1.0 if entry == 0 else 0.0
    x[Input.SAME_AXIS] = 1.0 if tables.axis[entry] == tables.axis[before] else 0.0
    x[Input.PARTS_BEFORE] = tables.parts[before] / 8.0
    x[Input.PARTS_AFTER] = tables.parts[entry] / 8.0
    x[Input.LEAST_BEFORE] = tables.least[seed, before]
    x[Input.LEAST_AFTER] = tables.least[seed, entry]
    x[Input.LATE_SMALL_PART] = _soft(lateness * unit)
    x[Input.SHIFT_AGAINST_LATENESS] = _soft(-8.0 * shift * lateness * unit)
    x[Input.SLACK] = _soft(slack * unit)
    x[Input.LARGEST_LOAD] = plan.value[1]
    x[Input.SMALLEST_LOAD] = plan.value[2]
    x[Input.REFUSED] = _soft(plan.refused[seed, entry] / 2.0)
    x[Input.REFUSED_HERE] = _soft(refused / 8.0)
    for axis in range(4):
        x[Input.BATCH + axis] = 1.0 if tables.axis[entry] == axis else 0.0
    x[Input.PROPORTIONAL] = tables.proportional[entry]
    x[Input.SIZE] = np.log(tables.sizes[0]) / 8.0
    x[Input.DEVICES] = tables.sizes[1] / 16.0


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
    for move in range(len(inputs)):
        found[move] = 0.0
        for k in range(len(bias)):
            unit = bias[k]
            for f in range(inputs.shape[1]):
                unit += inputs[move, f] * enter[f, k]
            found[move] += max(0.0, unit) * leave[k]
