"""Neural: a small committee of multi-layer perceptrons for each kind of operator."""

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.costs.learned_models.seen import Seen
from hetgym.costs.regressor import Arrays, check_rows, checked, grouped_folds, one_thread, refuse_others, settled

WIDTH = 32
HIDDEN = 2
MEMBERS = 5
STEPS = 4000  # Most optimiser steps; training stops early once no member's validation error falls any more

_CHECK = 50  # steps between two checks of the validation error
_PATIENCE = 20  # checks without an improvement of any member before training stops
_RATE = 2e-2
_DECAY = (0.01, 0.1)  # weight decay, from many rows to few
_HUBER = 0.05  # errors of more than 5 % count linearly
_MOST_MEMBERS, _MOST_WIDTH = 64, 1024

Layers = tuple[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]], ...]


@dataclass(frozen=True)
class Neural:
    """The mean of five perceptrons with two hidden layers of 32 units, each validated on different shapes.

    The shape groups are divided into five parts. Each member trains on four of them and keeps the weights with the
    least error on the fifth. Activations are SiLU, so that predictions are smooth in the logarithms of the
    dimensions. The loss is Huber's on the log ratio, the optimiser AdamW with a decreasing learning rate. Training
    needs torch and uses one thread; predicting needs NumPy only. Equal seeds give equal weights on one machine;
    another processor may round differently.
    """

    name: ClassVar[str] = "neural"
    seen: Seen  # the range of the fit
    scale: FloatArray  # [f] standard deviation of each column; 0 where it never varied
    layers: Layers  # weights [m, in, out] and biases [m, 1, out] of the members, layer by layer

    @classmethod
    def fit(cls, x: FloatArray, y: FloatArray, groups: IntArray, seed: int) -> Self:
        """Train the committee; see :meth:`~hetgym.costs.regressor.Regressor.fit`; needs torch."""
        check_rows(x, y, groups)
        seen = Seen.fit(x, y)
        scale = np.where(seen.varying, x.std(axis=0), 0.0)
        rng = np.random.default_rng(seed)
        part = grouped_folds(groups, MEMBERS, rng)
        with one_thread("fitting a neural cost model") as torch:
            (first, bias), *rest = _train(torch, _standard(seen, scale, x), y - seen.median, part, rng)
        first[:, scale == 0] = 0.0  # weights of columns that never varied have no effect; zeros compress best
        return cls(seen, scale, ((first, bias), *rest))

    def predict(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """[n] log ratios within the fitted ones, [n] True where the row lies in the fitted range."""
        within = self.seen.holds(x)
        value = np.asarray(_standard(self.seen, self.scale, x)[None], np.float64)
        for number, (weight, bias) in enumerate(self.layers):
            value = value @ weight.astype(np.float64) + bias
            if number < len(self.layers) - 1:
                value = value * _sigmoid(value)
        return settled(self.seen.median + value[:, :, 0].mean(axis=0), self.seen.low, self.seen.high), within

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as plain arrays."""
        named: dict[str, npt.NDArray[Any]] = {"scale": self.scale}
        for number, (weight, bias) in enumerate(self.layers):
            named |= {f"weight{number}": weight, f"bias{number}": bias}
        return self.seen.arrays() | named

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See :meth:`~hetgym.costs.regressor.Regressor.from_arrays`."""
        names = [f"{what}{number}" for number in range(HIDDEN + 1) for what in ("weight", "bias")]
        refuse_others(arrays, (*Seen.names(), "scale", *names), cls.name)
        seen = Seen.from_arrays(arrays, cls.name)
        scale = checked(arrays, "scale", cls.name, (len(seen.lower),), low=0.0, high=1e12)
        inside, members, layers = len(seen.lower), None, []
        for number in range(HIDDEN + 1):
            outside = 1 if number == HIDDEN else None
            shape = (members, inside, outside)
            weight = checked(arrays, f"weight{number}", cls.name, shape, np.float32, -1e6, 1e6)
            members, _, inside = weight.shape
            sizes = np.array([members, inside])
            checked({"weight": sizes}, "weight", f"{cls.name}: sizes", (2,), np.int64, 1, _MOST_WIDTH)
            checked({"weight": sizes[:1]}, "weight", f"{cls.name}: members", (1,), np.int64, 1, _MOST_MEMBERS)
            bias = checked(arrays, f"bias{number}", cls.name, (members, 1, inside), np.float32, -1e6, 1e6)
            layers.append((weight, bias))
        return cls(seen, scale, tuple(layers))


def _standard(seen: Seen, scale: FloatArray, x: FloatArray) -> FloatArray:
    """[n, f] rows moved into the fitted range and standardised; 0 for columns that never varied."""
    return np.divide(seen.inward(x) - seen.centre, scale, out=np.zeros(x.shape), where=scale > 0)


def _sigmoid(value: FloatArray) -> FloatArray:
    return 0.5 * (1.0 + np.tanh(0.5 * value))


def _train(torch: Any, x: FloatArray, y: FloatArray, part: IntArray, rng: np.random.Generator) -> Layers:
    """Train all members at once; a layer of all members is one product of three-dimensional arrays."""
    members = int(part.max()) + 1
    unit = float(y.std()) or 1.0
    features, target = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    everything = np.arange(len(y))
    train = [np.flatnonzero(part != m) if members > 1 else everything for m in range(members)]
    held = torch.tensor(np.stack([part == m if members > 1 else part >= 0 for m in range(members)]))
    held = held / held.sum(dim=1, keepdim=True)
    sizes = [x.shape[1], *(WIDTH,) * HIDDEN, 1]
    values: list[Any] = []
    for inside, outside in itertools.pairwise(sizes):
        start = rng.standard_normal((members, inside, outside)) * np.sqrt(2.0 / max(1, inside))
        values.append(torch.tensor(start, dtype=torch.float32, requires_grad=True))
        values.append(torch.zeros((members, 1, outside), requires_grad=True))

    def output(rows: Any) -> Any:
        for number in range(0, len(values), 2):
            rows = torch.baddbmm(values[number + 1], rows, values[number])
            if number < len(values) - 2:
                rows = torch.nn.functional.silu(rows)
        return rows[:, :, 0] * unit

    def loss(rows: Any, wanted: Any) -> Any:
        return torch.nn.functional.huber_loss(output(rows), wanted, delta=_HUBER, reduction="none")

    batch = int(np.clip(len(y) // 16, 16, 512))
    optimiser = torch.optim.AdamW(values, lr=_RATE, weight_decay=float(np.clip(100 / len(y), *_DECAY)), fused=True)
    steps = min(STEPS, max(400, 20 * len(y)))
    queue = [np.zeros(0, np.int64)] * members
    least, kept, waited = torch.full((members,), torch.inf), [value.detach().clone() for value in values], 0
    for step in range(steps):
        for m, rows in enumerate(train):
            if len(queue[m]) < batch:
                queue[m] = np.concatenate([queue[m], *(rng.permutation(rows) for _ in range(1 + batch // len(rows)))])
        drawn = torch.tensor(np.stack([rows[:batch] for rows in queue]))
        queue = [rows[batch:] for rows in queue]
        for group in optimiser.param_groups:
            group["lr"] = _RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        optimiser.zero_grad()
        loss(features[drawn], target[drawn]).mean(dim=1).sum().backward()
        optimiser.step()
        if step % _CHECK == _CHECK - 1:
            with torch.no_grad():
                error = (loss(features.expand(members, -1, -1), target.expand(members, -1)) * held).sum(dim=1)
                better = error < least
                waited = 0 if better.any() else waited + 1
                least = torch.minimum(least, error)
                for old, value in zip(kept, values, strict=True):
                    old[better] = value[better]
            if waited == _PATIENCE:
                break
    found = [value.numpy().copy() for value in kept]
    found[-2], found[-1] = found[-2] * np.float32(unit), found[-1] * np.float32(unit)
    return tuple(zip(found[::2], found[1::2], strict=True))
