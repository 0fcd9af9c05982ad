"""Steps, bindings and layouts, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from hetgym.execution.binding import OWN, bind
from hetgym.execution.calibration import first_remote_reads, remote_bytes
from hetgym.execution.slots import SharedMemory, tensors_of
from hetgym.execution.steps import CONSTANT, INPUT, Flow, Task, plan
from hetgym.execution.work import bare_problem
from hetgym.graph import DataflowGraph, Operator, Tensor, zoo


def nothing(*operands: Any) -> tuple[Any, ...]:
    return operands


class Listed:
    """Operators that read the given tensors."""

    def __init__(self, *reads: tuple[Any, ...]) -> None:
        self.reads = reads

    def task(self, operator: int) -> Task:
        return Task(nothing, self.reads[operator])


def test_a_plan_waits_once_publishes_once_and_drops_after_the_last_reader() -> None:
    # 0 makes t0, read by 1, 2 and 3; 1 makes t1, read by 2; 2 makes t2, read by 3; t3 is an input, t4 a weight
    flow = Flow(((0, 0), (1, 0), (2, 0), (INPUT, 0), (CONSTANT, 0)), ((1, 2, 3), (2,), (3,), (0,), (1, 3)), frozenset())
    program = Listed((3,), (0, 4), (0, 1), (0, 2, 4))
    here = plan(flow, [0, 1, 1, 0], [0, 3], 0, program)
    there = plan(flow, [0, 1, 1, 0], [1, 2], 1, program)
    assert here.remote == {2} and there.remote == {0}
    first, last = here.steps
    assert (first.waits, first.publishes, first.keeps, first.drops) == ((), ((0, 0),), ((0, 0),), (3,))
    assert (last.waits, last.publishes, last.keeps, last.drops) == ((2,), (), (), (0, 2, 4))
    first, last = there.steps
    assert (first.waits, first.publishes, first.keeps) == ((0,), (), ((0, 1),))
    assert (last.waits, last.publishes, last.drops) == ((), ((0, 2),), (0, 1))  # t0 is there already


def test_what_a_task_brings_along_has_a_place_of_its_own() -> None:
    flow = Flow(((0, 0),), ((1,),), frozenset([0]))
    made = plan(flow, [0, 0], [0, 1], 0, Listed(("own",), (0, "mine")))
    assert made.values == [None, "own", "mine"]
    assert [step.reads for step in made.steps] == [(1,), (0, 2)]
    assert made.steps[0].publishes == ((0, 0),)  # a result, though nobody elsewhere reads it


def test_binding_by_type() -> None:
    x, y, w = Tensor((4,)), Tensor((2, 2)), Tensor((4,), constant=True)
    graph = DataflowGraph(
        [
            Operator("a", "Relu", (x,), (x,)),
            Operator("b", "Relu", (y,), (y,)),
            Operator("c", "Odd", (y, w, x, x), (x,)),
            Operator("d", "Relu", (x,), (x,)),
        ],
        [(0, 0, 2), (1, 0, 2), (1, 0, 3)],
    )
    bindings = bind(graph)
    assert bindings[2] == ((1, 0, 0), ())  # the second of one type reads the same value once more
    assert bindings[3] == ((OWN,), (1,))  # no operand is of that type: it waits, and reads an input of its own


def test_every_model_of_the_zoo_is_bound_without_leftovers() -> None:
    for name in ("squeezenet", "lstm", "bert_base"):
        graph = zoo.load(name)
        assert not any(binding.tokens for binding in bind(graph)), name


def test_slots_do_not_overlap_and_words_are_apart() -> None:
    layout = tensors_of([Tensor((3,)), Tensor(()), Tensor((5000,), "float16"), Tensor((0,))], 7, 3)
    slots = layout.slots
    assert slots[0].offset >= 8 * layout.words
    for before, after in zip(slots, slots[1:], strict=False):
        assert after.offset >= before.offset + before.tensor.bytes
    assert layout.size >= slots[-1].offset
    words = {layout.worker_word(w, k) for w in range(3) for k in range(4)} | {layout.flag(t) for t in range(4)}
    assert len(words) == 16 and max(words) < layout.times
    memory = SharedMemory(layout)
    memory.fill()
    times = memory.times()
    assert [part.shape for part in times] == [(7,), (7,), (4,), (4,)]
    times.published[3] = 5
    assert memory.words[layout.words - 1] == 5
    other = SharedMemory(layout, memory.descriptor)
    assert other.times().published[3] == 5


def test_only_the_first_reader_of_a_device_reads_from_afar() -> None:
    x = Tensor((10,))
    graph = DataflowGraph([Operator(str(k), "Relu", (x,), (x,)) for k in range(4)], [(0, 0, 1), (0, 0, 2), (0, 0, 3)])
    problem = bare_problem(graph, ("a", "b"))
    where = np.array([0, 1, 1, 0], np.int32)
    order = (np.array([0, 3], np.int32), np.array([2, 1], np.int32))
    assert first_remote_reads(problem, where, order).tolist() == [False, True, False]
    assert remote_bytes(problem, where, order).tolist() == [0, 0, 40, 0]
