"""Slow, plain-Python reference of every switch of the runtime, written from its documentation.

A clock steps through all events; nothing is computed before the time at which it happens. Links and
channels are queues, and a transfer starts when it is first in all its queues. Rates of fair flows rise
together until links are full. No code is shared with the package.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from oracle import kahn

from hetgym import Problem, Runtime

NEAR = 1e-7  # relative distance below which two different times may be equal but for rounding


class Run(NamedTuple):
    """A finished run; ``fragile`` is true if rounding may have decided which of two events came first."""

    start: list[float]
    finish: list[float]
    sent: list[float]
    arrived: list[float]
    fragile: bool


@dataclass(eq=False)
class Message:
    """A transfer from one device to another, for the readers of some edges."""

    origin: int
    to: int
    bytes: float
    edges: list[int]
    places: list[Hashable] = field(default_factory=list)  # queues in which it stands
    arrival: float = math.nan  # once it goes; of a flow: as far as one knows
    flow_from: float = math.nan  # when the latency is over
    left: float = 0.0
    rate: float = 0.0


def route(problem: Problem, a: int, b: int) -> list[int]:
    begin, end = problem.route_pointer[a * problem.num_devices + b : a * problem.num_devices + b + 2].tolist()
    return [int(link) for link in problem.route_link[begin:end]]


def fair_rates(routes: Sequence[Sequence[int]], capacity: Sequence[float]) -> list[float]:
    """Max-min fair rates by progressive filling: all rates rise together, and a full link fixes those that cross it."""
    rate = [math.inf] * len(routes)
    rising = set(range(len(routes)))
    while rising:
        level, full = math.inf, None
        for link in sorted({link for k in rising for link in routes[k]}):
            here = [k for k in range(len(routes)) if link in routes[k]]
            taken = math.fsum(rate[k] for k in here if k not in rising)
            share = (capacity[link] - taken) / sum(k in rising for k in here)
            if share < level:
                level, full = share, link
        if full is None:
            break
        for k in [k for k in rising if full in routes[k]]:
            rate[k] = max(level, 0.0)
            rising.remove(k)
    return rate


class Simulation:
    """One run of one schedule: see :func:`simulate`."""

    def __init__(
        self,
        problem: Problem,
        assignment: Sequence[int],
        order: Sequence[Sequence[int]] | None,
        priority: Sequence[float] | None,
        runtime: Runtime,
    ) -> None:
        n, d = problem.num_operators, problem.num_devices
        self.problem, self.runtime = problem, runtime
        self.on = [int(a) for a in assignment]
        place = {i: k for k, i in enumerate(kahn(problem))}
        self.lists: list[list[int]] | None = None
        if order is not None and runtime.order == "fixed":
            self.lists = [[int(i) for i in row] for row in order]
        if order is not None:
            turn = {i: k for row in order for k, i in enumerate(row)}
            self.urgency = {i: (float(turn[i]), place[i]) for i in range(n)}
        else:
            assert priority is not None
            self.urgency = {i: (-float(priority[i]), place[i]) for i in range(n)}
        if runtime.order == "ready":
            self.urgency = {i: (0.0, place[i]) for i in range(n)}
        noise = np.random.default_rng(runtime.seed).standard_normal(n)
        self.factor = np.exp(runtime.noise * noise).tolist()
        self.edges = list(
            zip(
                problem.edge_source.tolist(),
                problem.edge_target.tolist(),
                problem.edge_bytes.tolist(),
                problem.edge_tensor.tolist(),
                strict=True,
            )
        )
        self.inputs: list[list[int]] = [[] for _ in range(n)]
        self.outputs: list[list[int]] = [[] for _ in range(n)]
        for k, (u, v, _, _) in enumerate(self.edges):
            self.outputs[u].append(k)
            self.inputs[v].append(k)
        self.start, self.finish = [math.nan] * n, [math.nan] * n
        self.sent, self.arrived = [math.nan] * len(self.edges), [math.nan] * len(self.edges)
        self.there: set[int] = set()
        self.done: set[int] = set()
        self.running: list[set[int]] = [set() for _ in range(d)]
        self.stretch: dict[int, float] = {}  # of what runs, how much slower than alone
        # prepared; until when; how many beside; time to enter a partition
        self.taken: list[list[tuple[int, float, int, float]]] = [[] for _ in range(d)]
        self.entered: list[float | None] = [None] * d  # when the latest partition was entered
        self.launched: list[list[int]] = [[] for _ in range(d)]
        self.asked: list[int] = []  # readers whose inputs were pulled, in turn
        self.queues: dict[Hashable, list[Message]] = {}
        self.waiting: list[Message] = []
        self.going: list[Message] = []
        self.flows: list[Message] = []
        self.now = 0.0
        self.moments: list[tuple[float, bool]] = []  # everything that was due, and whether it is a flow's end

    # Transfers.

    def request(self, message: Message) -> None:
        a, b, kind = message.origin, message.to, self.runtime.communication
        if kind == "fair":
            for k in message.edges:
                self.sent[k] = self.now
            message.flow_from = self.now + float(self.problem.latency[a, b])
            message.left = message.bytes
            self.flows.append(message)
            return
        if kind == "fifo":
            message.places = list(route(self.problem, a, b))
        if kind == "endpoint":
            message.places = [("send", a), ("receive", b)]
        for queue in message.places:
            self.queues.setdefault(queue, []).append(message)
        self.waiting.append(message)

    def go(self) -> bool:
        """Start every message that is first in all its queues."""
        gone = [m for m in self.waiting if all(self.queues[q][0] is m for q in m.places)]
        for message in gone:
            a, b = message.origin, message.to
            self.waiting.remove(message)
            message.arrival = self.now + (
                float(self.problem.latency[a, b]) + message.bytes / float(self.problem.bandwidth[a, b])
            )
            for k in message.edges:
                self.sent[k] = self.now
            self.going.append(message)
            self.moments.append((message.arrival, False))
        return bool(gone)

    def arrive(self, message: Message) -> None:
        for k in message.edges:
            self.arrived[k] = self.now
            self.there.add(k)
        for queue in message.places:
            assert self.queues[queue].pop(0) is message

    def flow(self, until: float) -> None:
        """Advance the active flows to a time at their current rates."""
        for message in self.flows:
            if message.flow_from <= self.now:
                message.left = (
                    max(0.0, message.left - message.rate * (until - self.now)) if message.rate else message.left
                )

    def share(self) -> bool:
        """Compute the rates of the flows from now on, and end those that have nothing left."""
        if self.runtime.communication != "fair":
            return False
        ended = False
        while True:
            alive = [m for m in self.flows if m.flow_from <= self.now]
            routes = [route(self.problem, m.origin, m.to) for m in alive]
            rates = fair_rates(routes, self.problem.link_bandwidth.tolist())
            over = []
            for message, rate in zip(alive, rates, strict=True):
                message.rate = rate
                message.arrival = self.now + (0.0 if message.left == 0 else message.left / rate)
                if message.arrival == self.now:
                    over.append(message)
            if not over:
                return ended
            for message in over:
                self.flows.remove(message)
                self.moments.append((self.now, True))
                self.arrive(message)
            ended = True

    # What is due now.

    def push(self, finished: Sequence[int]) -> None:
        requests = []
        for i in finished:
            a, slot = self.on[i], self.launched[self.on[i]].index(i)
            copies: dict[tuple[int, int], Message] = {}
            for k in sorted(self.outputs[i], key=lambda k: (self.edges[k][1], k)):
                _, j, size, tensor = self.edges[k]
                b = self.on[j]
                if a == b:
                    continue
                if self.runtime.transfers == "cached" and (tensor, b) in copies:
                    copy = copies[tensor, b]
                    copy.bytes = max(copy.bytes, size)
                    copy.edges.append(k)
                    continue
                message = Message(a, b, size, [k])
                copies[tensor, b] = message
                requests.append((slot, j, k, message))
        for *_, message in sorted(requests, key=lambda item: item[:3]):
            self.request(message)

    def pull(self) -> None:
        wanted: list[int] = []
        for device in range(self.problem.num_devices):
            mine = [i for i in self.urgency if self.on[i] == device]
            if self.lists is not None:
                mine = self.launched[device] + self.lists[device]
            else:
                mine.sort(key=lambda i: self.urgency[i])
            for i in mine:
                if i in self.asked:
                    continue
                if all(self.edges[k][0] in self.done for k in self.inputs[i]):
                    wanted.append(i)
                elif self.lists is not None:
                    break  # it is not served yet, so those behind it wait
        for i in wanted:
            self.asked.append(i)
            messages: dict[int, Message] = {}
            for k in self.inputs[i]:
                u, _, size, _ = self.edges[k]
                if self.on[u] == self.on[i]:
                    continue
                message = messages.setdefault(self.on[u], Message(self.on[u], self.on[i], 0.0, []))
                message.bytes += size
                message.edges.append(k)
            for a in sorted(messages):
                self.request(messages[a])

    def settle(self) -> None:
        """Process all events that are due now."""
        finished: list[int] = []
        changed = True
        while changed:
            changed = False
            for device, running in enumerate(self.running):
                for i in [i for i in running if self.finish[i] == self.now]:
                    running.remove(i)
                    finished.append(i)
                    changed = True
                for taken in [taken for taken in self.taken[device] if taken[1] == self.now]:
                    self.taken[device].remove(taken)
                    self.begin(device, taken[0], *taken[2:])
                    changed = True
        self.done.update(finished)
        for i in finished:
            for k in self.outputs[i]:
                if self.on[self.edges[k][1]] == self.on[i]:
                    self.sent[k] = self.arrived[k] = self.now
                    self.there.add(k)
        if self.runtime.transfers == "aggregated":
            self.pull()
        else:
            self.push(finished)
        changed = True
        while changed:
            changed = self.go()
            for message in [m for m in self.going if m.arrival == self.now]:
                self.going.remove(message)
                self.arrive(message)
                changed = True
            changed |= self.share()

    def begin(self, device: int, i: int, beside: int, entry: float) -> None:
        duration = float(self.problem.cost[i, device]) * self.factor[i] * (1.0 + self.runtime.overlap * beside)
        self.start[i], self.finish[i], self.stretch[i] = self.now, (self.now + entry) + duration, 1.0
        self.running[device].add(i)
        self.moments += [(self.now, False), (self.finish[i], False)]

    def slow_each_other_down(self) -> None:
        """What runs beside each other shares the device from now on."""
        if self.runtime.streams == 1:
            return
        for device, running in enumerate(self.running):
            total = math.fsum(float(self.problem.occupancy[i, device]) for i in running)
            for i in running:
                stretch = max(1.0, total)
                if self.stretch[i] != stretch:
                    self.finish[i] = self.now + (self.finish[i] - self.now) * (stretch / self.stretch[i])
                    self.stretch[i] = stretch

    # Choices.

    def choose(self, device: int) -> bool:
        """Let a device take one operator, if it can, and then spend the host's time if it is its own host."""
        beside = len(self.running[device]) + len(self.taken[device])
        if beside >= self.runtime.streams or self.other_has_the_turn(device):
            return False
        dispatch = self.runtime.dispatch
        if self.lists is not None:
            row = self.lists[device]
            if not row or not self.there.issuperset(self.inputs[row[0]]) or self.issue(device) > self.now:
                return False
            i = row.pop(0)
            if self.problem.asynchronous[device]:
                dispatch = 0.0
        else:
            ready = [
                i
                for i in self.urgency
                if self.on[i] == device and i not in self.launched[device] and self.there.issuperset(self.inputs[i])
            ]
            if not ready:
                return False
            i = min(ready, key=self.turn)
        self.launched[device].append(i)
        entry = self.entry(device, i)
        if self.now + dispatch == self.now:
            self.begin(device, i, beside, entry)
        else:
            self.taken[device].append((i, self.now + dispatch, beside, entry))
        return True

    def other_has_the_turn(self, device: int) -> bool:
        """Whether another device of a synchronous one and its host runs something."""
        synchronous = self.problem.synchronous.tolist()
        hosts = [k for k, ahead in enumerate(self.problem.asynchronous.tolist()) if not ahead and not synchronous[k]]
        group = [k for k, waits in enumerate(synchronous) if waits] + hosts[:1] if any(synchronous) else []
        return device in group and any(self.running[k] or self.taken[k] for k in group if k != device)

    def entry(self, device: int, i: int) -> float:
        """Time to enter the partition that an operator begins, 0 if it belongs to the latest one of its device."""
        before = [self.finish[self.edges[k][0]] for k in self.inputs[i] if self.on[self.edges[k][0]] != device]
        since = self.entered[device]
        seconds = float(self.problem.partition_overhead[device])
        if seconds == 0 or (since is not None and max(before, default=0.0) <= since):
            return 0.0
        self.entered[device] = self.now
        return seconds

    def turn(self, i: int) -> tuple[float, int]:
        """What comes first is served first: the arrival of the last input, or the urgency."""
        if self.runtime.order == "ready":
            return max((self.arrived[k] for k in self.inputs[i]), default=0.0), self.urgency[i][1]
        return self.urgency[i]

    def issue(self, device: int) -> float:
        """Time at which the host that runs ahead of a device has issued the next operator of its list [s]."""
        ahead = self.lists is not None and self.lists[device] and self.problem.asynchronous[device]
        return (len(self.launched[device]) + 1) * self.runtime.dispatch if ahead else 0.0

    def ahead(self) -> list[float]:
        """Times of all pending events [s]."""
        times = [self.finish[i] for running in self.running for i in running]
        times += [m.arrival for m in self.going]
        times += [m.arrival if m.flow_from <= self.now else m.flow_from for m in self.flows]
        times += [taken[1] for row in self.taken for taken in row]
        times += [time for time in map(self.issue, range(self.problem.num_devices)) if time > self.now]
        return times

    def run(self) -> Run:
        while True:
            self.settle()
            if any([self.choose(device) for device in range(self.problem.num_devices)]):
                continue
            self.slow_each_other_down()
            times = self.ahead()
            if not times:
                break
            upcoming = min(times)
            assert upcoming > self.now
            self.flow(upcoming)
            self.now = upcoming
        assert len(self.done) == self.problem.num_operators, "deadlock"
        return Run(self.start, self.finish, self.sent, self.arrived, self.fragile())

    def fragile(self) -> bool:
        """True if the end of a flow coincided, up to rounding, with another event."""
        moments = sorted(self.moments)
        return any(
            (flow or other) and later - earlier <= NEAR * max(later, 1e-300)
            for (earlier, flow), (later, other) in zip(moments[:-1], moments[1:], strict=True)
        )


def simulate(
    problem: Problem,
    assignment: Sequence[int],
    order: Sequence[Sequence[int]] | None = None,
    priority: Sequence[float] | None = None,
    runtime: Runtime | None = None,
) -> Run:
    """Run a schedule, given by device orders or by priorities, under any runtime."""
    return Simulation(problem, assignment, order, priority, runtime or Runtime()).run()
