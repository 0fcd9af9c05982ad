"""Inference: a list policy's network in compiled code; for the reasons see :mod:`hetgym.agents.inference`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import jit, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray
from hetgym.agents.inference import linear, rectify
from hetgym.agents.lists.tokens import View
from hetgym.agents.place.inference import EncoderWeights, encode, encoder_weights
from hetgym.errors import ArtefactError
from hetgym.problem import Problem


@record
class HeadWeights(NamedTuple):
    """A perceptron of one hidden layer, or a linear map, whose hidden layer is empty."""

    enter: FloatArray  # [h, k]
    enter_bias: FloatArray  # [k]
    leave: FloatArray  # [k, o], or [h, o] for a linear map
    leave_bias: FloatArray  # [o]


class ListWeights(NamedTuple):
    """The weights of a :class:`~hetgym.agents.networks.lists.ListNetwork`."""

    encoder: EncoderWeights | None
    pair: HeadWeights
    operator: HeadWeights


def list_weights(state: Mapping[str, npt.NDArray[Any]]) -> ListWeights:
    """Extract the weights from a state dictionary."""
    encoded = any(name.startswith("encoder.") for name in state)
    return ListWeights(encoder_weights(state) if encoded else None, _head(state, "pair"), _head(state, "operator"))


def _head(state: Mapping[str, npt.NDArray[Any]], name: str) -> HeadWeights:
    def get(part: str) -> FloatArray:
        return np.ascontiguousarray(state[f"{name}.{part}"].astype(np.float64).T)

    if f"{name}.2.weight" not in state:
        leave = get("0.weight")
        return HeadWeights(np.zeros((len(leave), 0)), np.zeros(0), leave, get("0.bias"))
    return HeadWeights(get("0.weight"), get("0.bias"), get("2.weight"), get("2.bias"))


def checked(state: Mapping[str, npt.NDArray[Any]], tokens: int, edge_features: int, whole: int) -> ListWeights:
    """The weights of a network that takes such features, and has ``whole`` outputs for an operator.

    Raises:
        ArtefactError: they are not, or not finite.
    """
    try:
        weights = list_weights(state)
        fits = _fits(weights, tokens, edge_features, whole)
    except (IndexError, KeyError, ValueError) as error:
        raise ArtefactError(f"not the weights of a list policy ({error})") from error
    if not fits:
        raise ArtefactError("the weights belong to a list policy with other features")
    if not all(np.isfinite(weight).all() for weight in state.values()):
        raise ArtefactError("the weights of the list policy are not finite")
    return weights


def _fits(weights: ListWeights, tokens: int, edge_features: int, whole: int) -> bool:
    size, encoder = tokens, weights.encoder
    if encoder is not None:
        size = encoder.embed1.shape[1]
        if encoder.embed0.shape[0] != tokens or (encoder.edge.size and encoder.edge.shape[2] != edge_features):
            return False
    heads = (weights.pair, 1), (weights.operator, whole)
    return all(
        len(head.enter) == size
        and head.leave.shape == (len(head.enter_bias) or size, count)
        and head.leave_bias.shape == (count,)
        for head, count in heads
    )


def outputs(problem: Problem, seen: View, weights: ListWeights) -> FloatArray:
    """[n, width] what the decoder needs of each operator."""
    hidden = seen.tokens
    if weights.encoder is not None:
        hidden = encode(problem, seen.tokens, seen.edge_features, weights.encoder)
    n, d, _ = hidden.shape
    found = np.zeros((n, d + len(weights.operator.leave_bias)))
    _heads(hidden, weights.pair, weights.operator, seen.priority, seen.bonus, found)
    return found


@jit
def _heads(
    hidden: FloatArray,
    pair: HeadWeights,
    operator: HeadWeights,
    priority: FloatArray,
    bonus: FloatArray,
    out: FloatArray,
) -> None:
    n, d, size = hidden.shape
    mean, one, wide = np.empty(size), np.empty(1), np.empty(max(len(pair.enter_bias), len(operator.enter_bias)))
    whole = np.empty(len(operator.leave_bias))
    for i in range(n):
        mean[:] = 0.0
        for a in range(d):
            _apply(hidden[i, a], pair, wide, one)
            out[i, 1 + a] = bonus[i, a] + one[0]
            for h in range(size):
                mean[h] += hidden[i, a, h] / d
        _apply(mean, operator, wide, whole)
        out[i, 0] = priority[i] + whole[0]
        for k in range(1, len(whole)):
            out[i, d + k] = whole[k]


@step
def _apply(x: FloatArray, head: HeadWeights, wide: FloatArray, out: FloatArray) -> None:
    """Write the outputs of a head; ``wide`` is scratch."""
    if len(head.enter_bias) == 0:
        linear(x, head.leave, head.leave_bias, out)
        return
    linear(x, head.enter, head.enter_bias, wide[: len(head.enter_bias)])
    rectify(wide)
    linear(wide, head.leave, head.leave_bias, out)
