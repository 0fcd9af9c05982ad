"""Slow, plain-Python reference of online runs, written from their documentation; not for fair sharing.

At every moment it determines anew which operators have finished, which are ready, and which could start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from oracle import kahn

from hetgym import Problem, Runtime
from hetgym.sim import Loss, SlowDown


class Run:
    """One run; decisions may use the attributes without an underscore."""

    def __init__(self, problem: Problem, runtime: Runtime, release: Sequence[float], changes: Sequence[Any]) -> None:
        n, d = problem.num_operators, problem.num_devices
        self.problem, self.runtime, self.release = problem, runtime, list(release)
        self.changes = sorted(changes, key=lambda change: change.at)
        self.now, self.asked_at = 0.0, -1.0
        self.place = {i: k for k, i in enumerate(kahn(problem))}
        self.factor = np.exp(runtime.noise * np.random.default_rng(runtime.seed).standard_normal(n)).tolist()
        self.slow, self.alive = [1.0] * d, [True] * d
        self.on: dict[int, int] = {}  # committed operators, also finished ones
        self.issue: dict[int, float] = {}
        self.queues: list[list[int]] = [[] for _ in range(d)]
        self.running: list[list[int]] = [[] for _ in range(d)]
        self.stretch: dict[int, float] = {}  # of what runs, how much slower than alone
        self.done: set[int] = set()
        self.start, self.finish = [math.nan] * n, [math.nan] * n
        self.sent, self.arrived = [math.inf] * problem.num_edges, [math.inf] * problem.num_edges
        self.host = [0.0] * d
        self.booked: dict[Any, float] = {}
        ends = zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True)
        self.edges = [(k, u, v) for k, (u, v) in enumerate(ends)]

    def inputs(self, operator: int) -> list[tuple[int, int]]:
        return [(k, u) for k, u, v in self.edges if v == operator]

    @property
    def ready(self) -> list[int]:
        n = self.problem.num_operators
        free = [i for i in range(n) if i not in self.on and self.release[i] <= self.now]
        return sorted((i for i in free if all(u in self.done for _, u in self.inputs(i))), key=lambda i: self.place[i])

    def transfer(self, a: int, b: int, size: float) -> tuple[float, float]:
        p, places = self.problem, list[Any]()
        if self.runtime.communication == "fifo":
            begin, end = p.route_pointer[a * p.num_devices + b : a * p.num_devices + b + 2].tolist()
            places = p.route_link[begin:end].tolist()
        if self.runtime.communication == "endpoint":
            places = [("send", a), ("receive", b)]
        sent = max([self.now, *(self.booked.get(place, 0.0) for place in places)])
        arrived = sent + (float(p.latency[a, b]) + size / float(p.bandwidth[a, b]))
        self.booked |= dict.fromkeys(places, arrived)
        return sent, arrived

    def commit(self, operator: int, device: int) -> None:
        p, size = self.problem, self.problem.edge_bytes.tolist()
        self.on[operator] = device
        self.queues[device].append(operator)
        self.issue[operator] = 0.0
        if p.arrays.asynchronous[device]:
            self.host[device] = max(self.host[device], self.now) + self.runtime.dispatch
            self.issue[operator] = self.host[device]
        remote: dict[int, list[int]] = {}
        for k, u in self.inputs(operator):
            if self.on[u] == device:
                self.sent[k] = self.arrived[k] = self.finish[u]
            else:
                remote.setdefault(self.on[u], []).append(k)
        if self.runtime.transfers == "aggregated":
            for a in sorted(remote):
                message = self.transfer(a, device, math.fsum(size[k] for k in remote[a]))
                for k in remote[a]:
                    self.sent[k], self.arrived[k] = message
            return
        for k, u in self.inputs(operator):
            if self.on[u] == device:
                continue
            copies = [
                j
                for j, source, target in self.edges
                if self.runtime.transfers == "cached"
                and source == u
                and j != k
                and self.sent[j] < math.inf
                and p.edge_tensor[j] == p.edge_tensor[k]
                and self.on.get(target) == device
                and size[j] >= size[k]
            ]
            if copies:
                self.sent[k], self.arrived[k] = self.sent[copies[0]], self.arrived[copies[0]]
            else:
                self.sent[k], self.arrived[k] = self.transfer(self.on[u], device, size[k])

    def due(self, operator: int) -> float:
        """Time at which the first operator of a queue can start, if its device is free [s]."""
        return max([self.issue[operator], *(self.arrived[k] for k, _ in self.inputs(operator))])

    def take(self) -> bool:
        """Start one operator on every device that can."""
        took = False
        for device, queue in enumerate(self.queues):
            beside = len(self.running[device])
            if not queue or beside >= self.runtime.streams or self.due(queue[0]) > self.now:
                continue
            operator = queue.pop(0)
            later = 0.0 if self.problem.arrays.asynchronous[device] else self.runtime.dispatch
            self.start[operator] = self.now + later
            work = float(self.problem.cost[operator, device]) * (self.factor[operator] * self.slow[device])
            self.finish[operator] = self.start[operator] + work * (1.0 + self.runtime.overlap * beside)
            self.stretch[operator] = 1.0
            self.running[device].append(operator)
            took = True
        return took

    def share(self) -> None:
        """What runs beside each other shares the device from now on."""
        if self.runtime.streams == 1:
            return
        for device, running in enumerate(self.running):
            begun = [i for i in running if self.start[i] <= self.now]
            stretch = max(1.0, math.fsum(float(self.problem.occupancy[i, device]) for i in begun))
            for i in begun:
                if self.stretch[i] != stretch:
                    self.finish[i] = self.now + (self.finish[i] - self.now) * (stretch / self.stretch[i])
                    self.stretch[i] = stretch

    def happen(self) -> bool:
        """Process due finishes, then due changes; return true if either ends a wait for decisions."""
        news = self.now in self.release and self.now > self.asked_at
        for device in range(len(self.running)):
            for operator in [i for i in self.running[device] if self.finish[i] == self.now]:
                self.running[device].remove(operator)
                self.done.add(operator)
                news = True
        while self.changes and self.changes[0].at <= self.now:
            change = self.changes.pop(0)
            news = True
            if isinstance(change, SlowDown):
                ratio = change.factor / self.slow[change.device]
                self.slow[change.device] = change.factor
                for i in self.running[change.device]:
                    since = max(self.now, self.start[i])
                    self.finish[i] = since + (self.finish[i] - since) * ratio
            elif self.alive[change.device]:
                assert isinstance(change, Loss)
                self.lose(change.device)
        self.asked_at = self.now
        return news

    def lose(self, device: int) -> None:
        self.alive[device] = False
        back = set(self.queues[device]) | set(self.running[device])
        self.queues[device], self.running[device] = [], []
        for queue in self.queues:
            for i in list(queue):
                if any(self.on[u] == device and self.arrived[k] > self.now for k, u in self.inputs(i)):
                    queue.remove(i)
                    back.add(i)
        while True:
            open_ = {i for i in range(self.problem.num_operators) if i not in self.on} | back
            again = {u for _, u, v in self.edges if v in open_ and u in self.done and self.on[u] == device}
            if again <= back:
                break
            back |= again
        for i in back:
            self.done.discard(i)
            del self.on[i]
            for k, _ in self.inputs(i):
                self.sent[k] = self.arrived[k] = math.inf

    def next_moment(self) -> float:
        moments = [self.finish[i] for row in self.running for i in row]
        moments += [self.start[i] for row in self.running for i in row]
        moments += [self.due(queue[0]) for queue in self.queues if queue]
        moments += [t for i, t in enumerate(self.release) if i not in self.on]
        moments += [change.at for change in self.changes]
        return min((t for t in moments if t > self.now), default=math.inf)


def online(problem: Problem, decide: Any, runtime: Runtime, release: Sequence[float], changes: Sequence[Any]) -> Run:
    run = Run(problem, runtime, release, changes)
    waits = False
    while True:
        waits = not run.happen() and waits
        while run.ready and not waits:
            run.share()
            decision = decide(run)
            if decision is None:
                waits = True
            else:
                run.commit(*decision)
        if run.take() and (runtime.streams > 1 or any(run.finish[i] == run.now for row in run.running for i in row)):
            continue
        if len(run.done) == problem.num_operators:
            return run
        run.share()
        run.now = run.next_moment()
        assert run.now < math.inf, "stuck"
