"""Cluster: worker processes that run schedules of one graph, and how their parent guarantees that they end."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from multiprocessing.connection import wait
from time import monotonic
from typing import Any, NamedTuple

from hetgym._types import IntArray
from hetgym.errors import ExecutionError, InvalidSchedule
from hetgym.execution.devices import ExecutionDevice, check_cores, check_names, shares_cores
from hetgym.execution.process import WorkerProcess
from hetgym.execution.slots import ABORT, PLACE, WAITS, ZERO, SharedMemory, Times, tensors_of
from hetgym.execution.work import Work, bare_problem
from hetgym.graph.dataflow import DataflowGraph
from hetgym.problem import Problem
from hetgym.schedule import Schedule, validate

_START = 120.0  # Longest time for a worker to start and import torch [s]


class Loaded(NamedTuple):
    """A schedule that the workers are ready to run."""

    number: int  # number by which the workers know it
    schedule: Schedule  # the schedule as it was given
    order: tuple[IntArray, ...]  # for each device its operators in the order in which they run


class Cluster(AbstractContextManager["Cluster"]):
    """Worker processes, one per device, that stay alive between runs.

    Starting a worker takes 1 to 4 s. Every operator can run on every device; weights are made on a device when they are
    first needed there.

    Args:
        work: the graph.
        devices: the devices; device d of a schedule is ``devices[d]``.
        seed: seed of random weights and inputs.
        patience: time without progress after which a run is aborted; it may take up to a quarter longer [s].

    Raises:
        ConfigError: no devices, or two devices with the same name.
        ExecutionError: a worker does not start, or the tensors do not fit into memory.

    >>> from hetgym.graph import DataflowGraph, Operator, Tensor
    >>> x = Tensor((4, 4))
    >>> graph = DataflowGraph([Operator("a", "Relu", (x,), (x,)), Operator("b", "Tanh", (x,), (x,))], [(0, 0, 1)])
    >>> with Cluster(graph, [ExecutionDevice("cpu")]) as cluster:  # doctest: +SKIP
    ...     cluster.run(cluster.load(Schedule([0, 0], [[0, 1]])))
    """

    def __init__(
        self, work: DataflowGraph | Work, devices: Sequence[ExecutionDevice], *, seed: int = 0, patience: float = 30.0
    ) -> None:
        check_names(devices)
        check_cores(devices)
        self.work = work if isinstance(work, Work) else Work.of_graph(work)
        self.devices = tuple(devices)
        self.patience = patience
        self.problem = bare_problem(self.work.graph, tuple(device.name for device in devices))
        self._runs = self._programs = 0
        self._order: tuple[IntArray, ...] = ()
        layout = tensors_of(self.work.tensors, len(self.work.graph), len(devices))
        self.memory = SharedMemory(layout)
        self.memory.fill()
        self._workers: list[WorkerProcess] = []
        self._end = weakref.finalize(self, _end, self._workers, self.memory)
        try:
            for device in devices:
                self._workers.append(WorkerProcess(device, self.memory.descriptor))
            one_for_all = {"do": "setup", "workers": len(devices), "crowded": shares_cores(devices), "seed": seed}
            self._tell(
                [
                    {**one_for_all, **device.to_dict(), "number": k, "patience": 2 * patience, **self.work.message()}
                    for k, device in enumerate(devices)
                ],
                max(patience, _START),
            )
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """True if the workers have ended."""
        return not self._end.alive

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers."""
        return tuple(worker.pid for worker in self._workers)

    def close(self) -> None:
        """Let the workers end by themselves; further calls have no effect."""
        if not self.closed:
            for worker in self._workers:
                worker.send({"do": "stop"})
        self._end()

    def kill(self) -> None:
        """Kill the workers."""
        if not self.closed:
            self.memory.words[ABORT] = -1
            for worker in self._workers:
                worker.kill()
        self._end()

    def load(self, schedule: Schedule) -> Loaded:
        """Send a schedule to the workers, which prepare the operators and weights that it needs.

        Args:
            schedule: a schedule of the same graph on the same devices, with an order or with planned times.

        Raises:
            InvalidSchedule: the schedule is not legal, or its order is given by priorities.
            ExecutionError: an operator cannot be run, or a worker failed.
        """
        self._check_open()
        order = executable_order(self.problem, schedule)
        self._programs += 1
        self._order = order
        message = {"do": "program", "number": self._programs, "assignment": schedule.assignment.tolist()}
        self._tell([{**message, "order": mine.tolist()} for mine in order])
        return Loaded(self._programs, schedule, order)

    def forget(self, loaded: Loaded) -> None:
        """Let the workers drop a schedule; they keep the weights."""
        self._check_open()
        self._order = ()
        self._tell([{"do": "forget", "number": loaded.number}] * len(self._workers))

    def run(self, loaded: Loaded) -> Times:
        """Run a schedule once.

        Returns:
            Time stamps, relative to the moment at which all workers were ready [ns]. Entries of tensors
            that did not move have no meaning.

        Raises:
            ExecutionError: a worker failed, was killed, or made no progress; all workers have then ended.
        """
        self._check_open()
        self._runs += 1
        self._order = loaded.order
        self._tell([{"do": "run", "number": loaded.number, "run": self._runs}] * len(self._workers))
        zero = self.memory.words[ZERO]
        return Times(*(part - zero for part in self.memory.times()))

    def _check_open(self) -> None:
        if self.closed:
            raise ExecutionError("the worker processes have ended: this Cluster is closed")

    def _tell(self, messages: list[dict[str, Any]], patience: float | None = None) -> None:
        """Send each worker its message and wait for all answers.

        Any exception here, including an interrupt, ends the workers.
        """
        try:
            for worker, message in zip(self._workers, messages, strict=True):
                worker.send(message)
            self._answers(self.patience if patience is None else patience)
        except BaseException:
            self.kill()
            raise

    def _answers(self, patience: float) -> None:
        pending = dict(enumerate(self._workers))
        gone: list[int] = []
        progress, since = self._progress(), monotonic()
        while pending:
            ready = wait([worker.connection for worker in pending.values()], patience / 4)
            for number in [k for k, worker in pending.items() if worker.connection in ready]:
                answer = pending.pop(number).receive()
                if answer is None:
                    gone.append(number)
                elif "failed" in answer:
                    operator = self._operator_name(answer["operator"])
                    raise self._error(number, "failed", operator, f": {answer['failed']}")
            culprit = self.memory.words[ABORT] - 1
            first = [number for number in gone if number != culprit]
            if gone and (culprit < 0 or culprit in gone or not pending):
                number = culprit if culprit in gone else first[0]
                raise self._error(number, self._workers[number].end(), self._at(number))
            if ready or self._progress() != progress:
                progress, since = self._progress(), monotonic()
            elif monotonic() - since >= patience:
                number = self._stuck(list(pending))
                raise self._error(number, "made no progress", self._at(number), f" for {patience:g} s")

    def _error(self, number: int, what: str, operator: str, more: str = "") -> ExecutionError:
        name = self.devices[number].name
        where = f" at operator {operator!r}" if operator else ""
        return ExecutionError(f"worker {name!r} {what}{where}{more}", name, operator)

    def _word(self, number: int, word: int) -> int:
        return self.memory.words[self.memory.layout.worker_word(number, word)]

    def _progress(self) -> list[int]:
        return [self._word(number, PLACE) for number in range(len(self.devices))]

    def _operator_name(self, operator: int) -> str:
        return self.work.graph.operators[operator].name if operator >= 0 else ""

    def _at(self, number: int) -> str:
        """Name of the operator that a worker is running, according to shared memory; empty if none."""
        place = self._word(number, PLACE)
        order = self._order[number] if self._order else ()
        return self._operator_name(int(order[place - 1])) if 0 < place <= len(order) else ""

    def _stuck(self, pending: list[int]) -> int:
        """The worker that blocks the others: it waits for nothing, or for a tensor that is already published."""
        for number in pending:
            waits = self._word(number, WAITS)
            if waits == 0:
                return number
            if waits > 1 and self.memory.words[self.memory.layout.flag(waits - 2)] == self._runs:
                return number
        return pending[0]


def executable_order(problem: Problem, schedule: Schedule) -> tuple[IntArray, ...]:
    """For each device of a :func:`bare_problem` its operators in the order in which they run.

    Raises:
        InvalidSchedule: the schedule is not legal, or its order is given by priorities.
    """
    if schedule.priority is not None:
        raise InvalidSchedule("a schedule by priorities has no order to execute; simulate it and take trace.order")
    validate(problem, schedule)
    return schedule.device_order(problem)


def _end(workers: list[WorkerProcess], memory: SharedMemory) -> None:
    """End all workers and release the shared memory."""
    for worker in workers:
        worker.stop()
    memory.close()
