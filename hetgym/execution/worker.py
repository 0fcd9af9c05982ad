"""The worker: a process that runs one device's part of schedules on request.

Its environment and cores are set before it starts, so that they are in place when torch is imported. It communicates
with its parent in JSON over a socket. The first message describes the device, ``program`` messages carry schedules,
which the worker converts to steps, and ``run`` messages request a run of one of them.
"""

import gc
import json
from multiprocessing.connection import Connection
from time import perf_counter_ns
from typing import Any

from hetgym.execution.slots import ABORT, ENDED, GO, PLACE, READY, ZERO, SharedMemory, tensors_of
from hetgym.execution.staging import InPlace, Staged
from hetgym.execution.steps import CONSTANT, INPUT, Flow, Plan, Program, plan
from hetgym.execution.waiting import Stopped, Waiter
from hetgym.graph.ops import Tensor
from hetgym.profiling.host import HostSettings


def main(socket: int, descriptor: int) -> None:
    """Serve requests until the parent sends ``stop`` or ends; descriptors of the socket and the shared memory."""
    gc.disable()  # a collection in the middle of a run would be timed as an operator
    connection: Connection[Any, Any] = Connection(socket)
    worker: Worker | None = None
    while True:
        try:
            message = json.loads(connection.recv_bytes())
            if message["do"] == "stop":
                return
            answer: dict[str, Any] = {"done": True}
            try:
                if worker is None:
                    worker = Worker(message, descriptor)
                else:
                    worker.serve(message)
            except Stopped:
                return
            except Exception as error:  # any exception of torch must reach the parent as a sentence
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                answer = {"failed": reason, "operator": -1 if worker is None else worker.operator}
                if worker is not None:
                    worker.give_up()
            connection.send_bytes(json.dumps(answer).encode())
        except (EOFError, OSError):
            return


class Worker:
    """One device, within its own process, as the parent's first message says.

    ``operator`` is the number of the operator that was started last; -1 for none.
    """

    def __init__(self, setup: dict[str, Any], descriptor: int) -> None:
        host, processor = setup["host"], setup["processor"]
        HostSettings(tuple(host["cores"]), host["isa"]).settle()
        self.operator = -1
        self._number: int = setup["number"]
        self._workers: int = setup["workers"]
        tensors = [Tensor(tuple(shape), dtype) for shape, dtype in setup["tensors"]]
        self._memory = SharedMemory(tensors_of(tensors, setup["operators"], self._workers), descriptor)
        self._memory.touch()
        self._slots = Staged(self._memory, processor) if setup["staged"] else InPlace(self._memory)
        self._waiter = Waiter(self._memory, self._number, setup["crowded"], setup["patience"])
        maker = tuple((int(operator), int(slot)) for operator, slot in setup["maker"])
        self._flow = Flow(maker, tuple(map(tuple, setup["readers"])), frozenset(setup["results"]))
        self._inputs = tuple(t for t, (operator, _) in enumerate(maker) if operator == INPUT)
        self._constants = tuple(t for t, (operator, _) in enumerate(maker) if operator == CONSTANT)
        self._program = load_program(setup["program"], processor, setup["seed"])
        self._plans: dict[int, Plan] = {}

    def serve(self, message: dict[str, Any]) -> None:
        """Carry out a request of the parent; Stopped if the run was aborted."""
        self.operator = -1
        if message["do"] == "program":
            self._plans[message["number"]] = self._load(message["assignment"], message["order"])
        elif message["do"] == "forget":
            self._plans.pop(message["number"], None)
            gc.collect()
        else:
            self._run(self._plans[message["number"]], message["run"])

    def give_up(self) -> None:
        """Signal to the other workers that this run is aborted."""
        self._memory.words[ABORT] = self._number + 1

    def _load(self, assignment: list[int], order: list[int]) -> Plan:
        place = self._memory.layout.worker_word(self._number, PLACE)
        for turn, self.operator in enumerate(order):
            self._memory.words[place] = turn + 1
            self._program.task(self.operator)
        self._memory.words[place] = 0
        made = plan(self._flow, assignment, order, self._number, self._program)
        for tensor in self._constants if self._slots.staged else (*self._constants, *made.remote, *self._inputs):
            made.values[tensor] = self._slots.fetch(tensor)
        return made

    def _run(self, made: Plan, run: int) -> None:
        """Run all steps once and leave the time stamps in shared memory."""
        values = made.values.copy()
        if self._slots.staged:
            for tensor in self._inputs:
                values[tensor] = self._slots.fetch(tensor)
            self._slots.settle()
        stamps: list[tuple[int, int, int]] = []
        moves: list[tuple[int, int, int]] = []
        self._meet(READY, run)
        self._steps(made, run, values, stamps, moves)
        times = self._memory.times()
        for operator, start, finish in stamps:
            times.start[operator], times.finish[operator] = start, finish
        for tensor, sent, published in moves:
            times.sent[tensor], times.published[tensor] = sent, published
        self._meet(ENDED, run)

    def _steps(
        self,
        made: Plan,
        run: int,
        values: list[Any],
        stamps: list[tuple[int, int, int]],
        moves: list[tuple[int, int, int]],
    ) -> None:
        """The inner loop over steps; its overhead between two operators is the dispatch time that is calibrated.

        Slower access to tensors of other devices is part of an operator's time: a CPU reads them in place, a GPU copies
        them first.
        """
        words, layout, slots, until, now = (
            self._memory.words, self._memory.layout, self._slots, self._waiter.until, perf_counter_ns,
        )  # fmt: skip
        place, staged, first = layout.worker_word(self._number, PLACE), slots.staged, layout.flag(0)
        stride = layout.flag(1) - first
        for turn, (operator, call, reads, waits, keeps, publishes, drops) in enumerate(made.steps):
            words[place] = turn + 1
            self.operator = operator
            for tensor in waits:
                if words[first + stride * tensor] != run:
                    until(first + stride * tensor, run, tensor)
            start = now()
            if staged:
                for tensor in waits:
                    values[tensor] = slots.fetch(tensor)
            outputs = call(*[values[at] for at in reads])
            if staged:
                slots.settle()
            stamps.append((operator, start, now()))
            for slot, tensor in keeps:
                values[tensor] = outputs[slot]
            for slot, tensor in publishes:
                sent = now()
                slots.publish(tensor, outputs[slot])
                moves.append((tensor, sent, now()))  # before the flag: no reader may seem to have been earlier
                words[first + stride * tensor] = run
            for at in drops:
                values[at] = None
        self.operator = -1

    def _meet(self, word: int, run: int) -> None:
        """Wait until all workers are ready; the last one starts the clock."""
        words, layout = self._memory.words, self._memory.layout
        words[layout.worker_word(self._number, PLACE)] = 0
        words[layout.worker_word(self._number, word)] = run
        if self._number == 0:
            for other in range(1, self._workers):
                self._waiter.until(layout.worker_word(other, word), run)
            words[ZERO] = perf_counter_ns() if word == READY else words[ZERO]
            words[GO] = 2 * run + (word == ENDED)
        else:
            self._waiter.until(GO, 2 * run + (word == ENDED))


def load_program(source: dict[str, Any], processor: str, seed: int) -> Program:
    """Make the program that the parent describes."""
    if source["kind"] == "recipes":
        from hetgym.execution.recipes import RecipeProgram

        return RecipeProgram(source["operators"], processor)
    from hetgym.execution.kernels import KernelProgram
    from hetgym.graph.serialization import from_json

    return KernelProgram(from_json(source["graph"]), processor, seed)
