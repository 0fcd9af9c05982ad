"""Workers that load one mutated file after another under limits, and the process that watches them."""

from __future__ import annotations

import json
import os
import re
import resource
import selectors
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hetgym.errors import HetgymError, HetgymWarning
from tests.fuzz.corpus import Entry, corpus
from tests.fuzz.loaders import LOADERS
from tests.fuzz.mutations import mutated

MEMORY = 1 << 30
"""Address space that a worker may take beyond what it had before the first input [byte]."""

SECONDS = 10.0
"""Processor time that one input may take [s]; the slowest legitimate one takes a tenth."""

WALL = 180.0
"""Time after which a worker that uses no processor is given up [s]."""

PROGRESS = 10_000
"""Inputs from one line of progress to the next."""

RECYCLE = 5_000
"""Inputs after which a worker is replaced, so that what caches hold does not count as an input's memory."""


def input_of(name: str, entries: list[Entry], seed: int, index: int) -> tuple[Entry, bytes]:
    """The file that an input mutates, and the mutated content."""
    rng = np.random.default_rng([seed, sorted(LOADERS).index(name), index])
    entry = entries[int(rng.integers(len(entries)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = mutated(entry.data, LOADERS[name].form, [other.data for other in entries], rng)
    return entry, data


def load(name: str, entry: Entry, data: bytes, folder: Path) -> str:
    """The outcome of loading a file: ``loaded``, ``refused``, or a finding, the first line of which names its place."""
    path = folder / entry.name
    path.write_bytes(data)
    for other, content in entry.beside.items():
        (folder / other).write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", HetgymWarning)
            LOADERS[name].read(path)
        return "loaded"
    except HetgymError as error:
        text = str(error)
        if text and len(text) <= 1000 and text.isprintable():
            return "refused"
        return f"a message that is no sentence\n{text!r}"
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "hetgym" in frame.filename]
        last = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} at {Path(last.filename).name}:{last.name}"
        return f"{place}\n{traceback.format_exc()[-6000:]}"


@dataclass
class Worker:
    """A forked process and what it is at."""

    process: int
    pipe: int
    todo: list[int]
    at: int = -1
    began: float = 0.0
    used: float = 0.0
    rest: bytes = b""


@dataclass
class Fuzzer:
    """A run.

    Args:
        names: of the loaders; input k goes to loader k modulo their number.
        seed: of all mutations.
        out: folder for findings.

    Attributes:
        outcomes: (loader, outcome) -> number of inputs.
        findings: place -> number of inputs.
        seconds: loader -> processor time of its inputs, together [s].
    """

    names: list[str]
    seed: int
    out: Path
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def run(self, first: int, last: int, workers: int) -> None:
        """Load the inputs ``first .. last - 1``."""
        with tempfile.TemporaryDirectory(prefix="fuzz-") as made:
            self.entries = corpus(Path(made))
            selector = selectors.DefaultSelector()
            pending = [list(range(k, min(k + RECYCLE, last))) for k in range(first, last, RECYCLE)]
            if len(pending) < workers:
                pending = [list(range(first + k, last, workers)) for k in range(workers)]
            pending.reverse()
            running: dict[int, Worker] = {}
            shown = 0
            while pending or running:
                done = sum(self.outcomes.values())
                if done >= shown + PROGRESS:
                    shown = done
                    print(
                        f"{done} of {last - first} inputs, {len(self.findings)} findings", file=sys.stderr, flush=True
                    )
                while pending and len(running) < workers:
                    worker = self._start(pending.pop())
                    running[worker.pipe] = worker
                    selector.register(worker.pipe, selectors.EVENT_READ)
                for key, _ in selector.select(timeout=1.0):
                    worker = running[key.fd]
                    data = os.read(worker.pipe, 1 << 16)
                    if data:
                        self._hear(worker, data)
                        continue
                    selector.unregister(worker.pipe)
                    del running[worker.pipe]
                    rest = self._ended(worker)
                    if rest:
                        pending.append(rest)
                for worker in running.values():
                    self._watch(worker)

    def _start(self, todo: list[int]) -> Worker:
        read, write = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(read)
            try:
                self._work(todo, write)
            finally:
                os._exit(0)
        os.close(write)
        return Worker(process, read, todo, began=time.monotonic())

    def _work(self, todo: list[int], pipe: int) -> None:
        """The life of a worker: say which input is next, load it, say what came of it."""
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        with tempfile.TemporaryDirectory(prefix="fuzz-") as made:
            for index in todo:
                os.write(pipe, json.dumps([index, None, 0.0]).encode() + b"\n")
                name = self.names[index % len(self.names)]
                entry, data = input_of(name, self.entries[name], self.seed, index)
                began = time.process_time()
                outcome = load(name, entry, data, Path(made))
                os.write(pipe, json.dumps([index, outcome, time.process_time() - began]).encode() + b"\n")

    def _hear(self, worker: Worker, data: bytes) -> None:
        *lines, worker.rest = (worker.rest + data).split(b"\n")
        for line in lines:
            index, outcome, seconds = json.loads(line)
            worker.at, worker.began, worker.used = index, time.monotonic(), _processor_time(worker.process)
            if outcome is None:
                continue
            worker.todo = worker.todo[worker.todo.index(index) + 1 :]
            worker.at = -1
            self.seconds[self.names[index % len(self.names)]] += seconds
            if seconds > SECONDS:
                outcome = f"took {seconds:.0f} s\n"
            self._count(index, outcome)

    def _watch(self, worker: Worker) -> None:
        """End a worker that an input keeps for too long."""
        if worker.at >= 0 and (
            _processor_time(worker.process) - worker.used > SECONDS or time.monotonic() - worker.began > WALL
        ):
            os.kill(worker.process, signal.SIGKILL)

    def _ended(self, worker: Worker) -> list[int]:
        """Inputs that a worker that has ended leaves undone; the input that it ended at is a finding."""
        os.close(worker.pipe)
        _, status = os.waitpid(worker.process, 0)
        if worker.at < 0:
            return worker.todo
        code = os.waitstatus_to_exitcode(status)
        self._count(worker.at, f"{'took too long' if code == -signal.SIGKILL else f'ended by {code}'}\n")
        return worker.todo[worker.todo.index(worker.at) + 1 :]

    def _count(self, index: int, outcome: str) -> None:
        name = self.names[index % len(self.names)]
        if outcome in ("loaded", "refused"):
            self.outcomes[name, outcome] += 1
            return
        self.outcomes[name, "found"] += 1
        place, _, detail = outcome.partition("\n")
        key = f"{name}: {place}"
        self.findings[key] += 1
        if self.findings[key] > 1:
            return
        stem = re.sub(r"[^\w.-]+", "-", key)[:120]
        entry, data = input_of(name, self.entries[name], self.seed, index)
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / f"{stem}--{entry.name}").write_bytes(data)
        (self.out / f"{stem}.txt").write_text(f"{key}\n--one {name}:{index} --seed {self.seed}\n\n{detail}", "utf-8")

    def summary(self) -> str:
        """A table of outcomes, and the findings."""
        lines = [f"{'loader':20}{'inputs':>9}{'loaded':>9}{'refused':>9}{'found':>9}{'ms each':>9}"]
        for name in self.names:
            counts = [self.outcomes[name, what] for what in ("loaded", "refused", "found")]
            each = 1e3 * self.seconds[name] / max(1, sum(counts))
            lines.append(f"{name:20}{sum(counts):>9}" + "".join(f"{count:>9}" for count in counts) + f"{each:>9.2f}")
        lines.append(f"{'all':20}{sum(self.outcomes.values()):>9}")
        return "\n".join(lines + [f"{count:>7}  {key}" for key, count in self.findings.most_common()])


def _processor_time(process: int) -> float:
    """Seconds of processor time that a process has used."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one(name: str, index: int, seed: int, out: Path) -> int:
    """Write one input to a folder, and load it in this process."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as made:
        entry, data = input_of(name, corpus(Path(made))[name], seed, index)
    out.mkdir(parents=True, exist_ok=True)
    outcome: Any = load(name, entry, data, out)
    print(out / entry.name, outcome)
    return 0 if outcome in ("loaded", "refused") else 1
