"""An episode of planning a training step: what is decided, what may follow, and a bound on what it leads to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hetgym._types import BoolArray, FloatArray
from hetgym.baselines.parallel.exhaustive import Piece
from hetgym.envs.cluster.instance import Choices, StepInstance
from hetgym.parallel import ParallelPlan


@dataclass
class Ahead:
    """What each action leads to; arrays of A actions."""

    legal: BoolArray  # [A] True if it leaves a plan
    bound: FloatArray  # [A] proven lower bound on the step [s]; inf where it is not legal
    estimate: FloatArray  # [A] the step if the rest were shared evenly [s]
    load: FloatArray  # [A] slot of the stage that the layer is in, on the slowest replica [s]
    even: FloatArray  # [A] slot of each stage that is left, if the rest were shared evenly [s]
    left: FloatArray  # [A] share of memory that is left on the stage's GPUs


@dataclass
class Episode:
    """The state of one episode."""

    instance: StepInstance  # the problem
    setting: int = -1  # number of the chosen setting, or -1
    depth: int = 0  # number of stages, or 0
    # closed stages and the current one, or chunks of them; the end of the current one is `turn`
    pieces: list[Piece] = field(default_factory=list)
    turn: int = 0  # number of layers that are decided
    free: int = 0  # number of the GPUs that are left, see Choices.rest
    log: list[int] = field(default_factory=list)  # actions as they were passed
    potential: float = 0.0  # whose decrease is the reward [s]

    @property
    def layers(self) -> int:
        """Number of layers."""
        return self.instance.problem.costs.layers

    @property
    def over(self) -> bool:
        """True if all layers are decided."""
        return self.turn == self.layers

    @property
    def choices(self) -> Choices:
        """What the chosen setting allows."""
        return self.instance.choices[self.setting]

    @property
    def plan(self) -> ParallelPlan:
        """The plan of a finished episode."""
        return self.choices.found.plan(self.pieces)

    def decide(self, action: int) -> None:
        """Take a legal action."""
        if self.setting < 0:
            self.setting, self.free = action, self.instance.choices[action].count - 1
        elif not self.depth:
            self.depth = action + 1
        else:
            if action == 0:
                first, _, option = self.pieces.pop()
            else:
                first, option = self.turn, action - 1
                if len(self.pieces) < self.depth:
                    self.free -= int(self.choices.take[option])
            self.turn += 1
            self.pieces.append((first, self.turn, option))

    def ahead(self, actions: int) -> Ahead:
        """What each of ``actions`` actions leads to."""
        bad = np.full(actions, np.inf)
        found = Ahead(np.zeros(actions, np.bool_), bad, bad.copy(), *(np.zeros(actions) for _ in range(3)))
        if self.setting < 0:
            for k, choices in enumerate(self.instance.choices):
                self._free(found, k, choices, choices.depths[-1])
        elif not self.depth:
            for depth in self.choices.depths:
                self._free(found, depth - 1, self.choices, depth)
        elif not self.over:
            self._stages(found)
        return found

    def _free(self, found: Ahead, action: int, choices: Choices, depth: int) -> None:
        """An action before the first stage; ``depth`` stages may follow it."""
        turns, chunks = choices.found.turns, choices.chunks
        even = max(float(choices.found.longest), float(choices.path[0]) / depth)
        found.legal[action], found.bound[action], found.even[action] = True, choices.bound, even
        found.estimate[action] = float(choices.path[0]) / chunks + (turns - 1 / chunks) * even
        found.left[action] = 1.0

    def _stages(self, found: Ahead) -> None:
        """Staying in the stage, or beginning the next one."""
        choices, j, pieces = self.choices, self.turn, len(self.pieces)
        current = self.pieces[-1] if pieces else None
        fitting = np.zeros(len(found.legal), np.bool_)
        ways = [] if current is None else [(0, current[0], current[2], pieces - 1)]
        if pieces < self.depth * choices.chunks and (choices.chunks > 1 or current is None or self._closes()):
            again = pieces >= self.depth
            begun = [self.pieces[pieces % self.depth][2]] if again else range(len(choices.take))
            ways += [(1 + option, j, option, pieces) for option in begun]
        sums = self._sums()
        for action, first, option, piece in ways:
            left = choices.count - 1 if piece >= self.depth else self.free
            if action > 0 and piece < self.depth:
                if not choices.allowed[left, option]:
                    continue
                left -= int(choices.take[option])
            if not self._leaves(option, first, piece, left):
                continue
            found.legal[action] = True
            share = self._memory_left(option, first, piece)
            found.left[action], fitting[action] = max(0.0, share), share >= 0
            self._value(found, action, sums, option, piece)
        if choices.chunks > 1 and fitting.any():
            found.legal &= fitting
        for values in (found.bound, found.estimate):
            values[~found.legal] = np.inf

    def _closes(self) -> bool:
        """True if the rest can be placed when the current stage ends here."""
        kept = self.choices.kept(self.depth)
        return bool(self.choices.rest(kept[len(self.pieces) :])[self.free, self.turn])

    def _leaves(self, option: int, first: int, piece: int, left: int) -> bool:
        """True if the rest can be placed when a piece holds layers ``first`` to ``turn``, and perhaps more."""
        choices, last = self.choices, self.turn + 1
        if choices.chunks > 1:
            behind = self.depth * choices.chunks - piece - 1
            if self.layers - last < behind:
                return False
            if piece >= self.depth - 1:
                return True
            return bool(choices.rest(choices.kept(self.depth)[piece + 1 :])[left, 0])
        kept = choices.kept(self.depth)
        rest, end = choices.rest(kept[piece + 1 :])[left], int(choices.reach(option, kept[piece])[first])
        return bool(rest[last : end + 1].any())

    def _memory_left(self, option: int, first: int, piece: int) -> float:
        """Share of the memory of the stage's fullest GPU that is left; negative if it is too small."""
        choices, depth = self.choices, self.depth
        found, kept = choices.found, choices.kept(self.depth)[piece % depth]
        spans = [(begin, end) for k, (begin, end, _) in enumerate(self.pieces[:piece]) if k % depth == piece % depth]
        share = 1.0
        for kind in np.unique(found.replicas[option]).tolist():
            need = 0.0
            for begin, end in [*spans, (first, self.turn + 1)]:
                need += (
                    found.state[kind, end]
                    - found.state[kind, begin]
                    + kept * (found.stash[kind, end] - found.stash[kind, begin])
                )
            room = float(found.room[kind]) - float(found.once[kind, first : self.turn + 1].max())
            share = min(share, (room * (1 + 1e-12) - need) / room if room > 0 else -1.0)
        return share

    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """[p, d] slots of the stages, and [d] slots before the current piece, and largest bound of those [s]."""
        choices, data = self.choices, self.choices.found.data
        loads, before, high = np.zeros((self.depth, data)), np.zeros(data), np.zeros(data)
        for k, (first, end, option) in enumerate(self.pieces):
            slot = choices.slots[option, :, end] - choices.slots[option, :, first]
            if k == len(self.pieces) - 1:
                break
            loads[k % self.depth] += slot
            high = np.maximum(high, before + choices.found.turns * slot)
            before = before + slot
        return loads, before, high

    def _value(
        self, found: Ahead, action: int, sums: tuple[FloatArray, FloatArray, FloatArray], option: int, piece: int
    ) -> None:
        """Bound and estimate of an action.

        With one chunk a stage is preceded by a pass of all stages before it, and busy for M slots. With several, every
        group is busy for M slots of its chunks.
        """
        choices, j = self.choices, self.turn
        turns, chunks = choices.found.turns, choices.chunks
        loads, before, high = sums
        slots = choices.slots[option]
        here = slots[:, j + 1] - slots[:, j]
        if self.pieces:
            first, end, old = self.pieces[-1]
            last = choices.slots[old, :, end] - choices.slots[old, :, first]
            if action == 0:
                here = here + last
            else:
                high = np.maximum(high, before + turns * last)
                before = before + last
                loads = loads.copy()
                loads[(len(self.pieces) - 1) % self.depth] += last
        load = loads[piece % self.depth] + here
        rest = float(choices.path[j + 1])
        if chunks == 1:
            proved = np.maximum(high, before + np.maximum(turns * here, here + rest))
        else:
            proved = np.maximum(turns * np.maximum(loads.max(axis=0), load), before + here + rest)
        stages = max(1, self.depth - piece - 1)
        even = rest / stages if piece + 1 < self.depth else 0.0
        longest = max(float(loads.max()), float(load.max()), even)
        found.bound[action] = max(choices.bound, float(proved.max()) * (1 - 1e-9))
        found.estimate[action] = max(
            found.bound[action], float((before + here).max() + rest) / chunks + (turns - 1 / chunks) * longest
        )
        found.load[action], found.even[action] = float(load.max()), even
