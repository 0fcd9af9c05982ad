"""Inference: candidate heads in compiled code, the same on every machine.

The networks of :mod:`hetgym.agents.networks` are trained in PyTorch, in float32. Here their weights are
applied in float64 by plain loops without reordering of sums, so that a decision does not depend on the
machine, on a BLAS library or on the number of threads, and loading a policy needs no PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import jit, step
from hetgym._kernels.records import record
from hetgym._types import BoolArray, FloatArray
from hetgym.agents.actions import NEGLIGIBLE
from hetgym.errors import ArtefactError
from hetgym.search.proposals import Network


@record
class HeadWeights(NamedTuple):
    """The weights of a :class:`~hetgym.agents.networks.CandidateHead` with F features, h of them embeddings."""

    own: FloatArray  # [F, k]
    own_bias: FloatArray  # [k]
    all: FloatArray  # [F, k]
    mix: FloatArray  # [k, k]
    mix_bias: FloatArray  # [k]
    score: FloatArray  # [k]
    rule: FloatArray  # [F]


def head_weights(state: Mapping[str, npt.NDArray[np.float32]], prefix: str = "head.") -> HeadWeights:
    """Extract a candidate head's weights from a state dictionary; their names begin with ``prefix``."""

    def get(name: str) -> FloatArray:
        return np.ascontiguousarray(state[prefix + name].astype(np.float64).T)

    own, bias, whole, mix, mix_bias = map(get, ("own.weight", "own.bias", "all.weight", "mix.weight", "mix.bias"))
    return HeadWeights(own, bias, whole, mix, mix_bias, np.ascontiguousarray(get("score.weight")[:, 0]), get("rule"))


def proposal_network(weights: Mapping[str, npt.NDArray[Any]], features: int, what: str) -> Network:
    """The weights of a :class:`~hetgym.agents.networks.proposal.ProposalNetwork` as searches take them.

    Raises:
        ArtefactError: not such weights, or not finite.
    """
    try:
        enter, bias, leave = (
            np.asarray(weights[name], np.float64) for name in ("enter.weight", "enter.bias", "leave.weight")
        )
    except (KeyError, ValueError) as error:
        raise ArtefactError(f"not the weights of a {what} policy ({error})") from error
    if bias.ndim != 1 or enter.shape != (len(bias), features) or leave.shape != (1, len(bias)):
        raise ArtefactError(f"the weights belong to a {what} policy with other features")
    network = Network(np.ascontiguousarray(enter.T), bias, leave[0])
    if not all(np.isfinite(part).all() for part in network):
        raise ArtefactError(f"the weights of the {what} policy are not finite")
    return network


@step
def add_product(x: FloatArray, matrix: FloatArray, out: FloatArray) -> None:
    """Add ``x @ matrix`` to ``out``, row by row: the inner loop adds to independent sums, so that it vectorises.

    Four rows at a time, in their order, so that sums are loaded and stored a quarter as often.
    """
    whole = len(x) - len(x) % 4
    for k in range(0, whole, 4):
        first, second, third, fourth = x[k], x[k + 1], x[k + 2], x[k + 3]
        for h in range(len(out)):
            total = out[h] + first * matrix[k, h]
            total += second * matrix[k + 1, h]
            total += third * matrix[k + 2, h]
            out[h] = total + fourth * matrix[k + 3, h]
    for k in range(whole, len(x)):
        for h in range(len(out)):
            out[h] += x[k] * matrix[k, h]


@step
def linear(x: FloatArray, matrix: FloatArray, bias: FloatArray, out: FloatArray) -> None:
    """Write ``x @ matrix + bias`` to ``out``."""
    for h in range(len(out)):
        out[h] = bias[h]
    add_product(x, matrix, out)


@step
def rectify(x: FloatArray) -> None:
    """Replace negative numbers by 0."""
    for h in range(len(x)):
        x[h] = max(0.0, x[h])


# For each lane: ``common`` is the part of the first layer that all actions share, from the mean over legal actions;
# ``best`` is the largest score so far. Only a strictly larger score replaces it, so ties go to the smaller number.
# O(A (F k + k^2)) a lane, k being the width of the hidden layers.
@jit
def decide(actions: FloatArray, legal: BoolArray, noise: FloatArray, head: HeadWeights) -> npt.NDArray[np.int64]:
    """[L] the legal action of the largest score plus noise in each lane, the smaller number on ties; 0 without any.

    Args:
        actions: [L, A, F] features of each action.
        legal: [L, A] true where legal.
        noise: [L, A] added to scores: zeros for the most probable action, Gumbel noise to draw one by the softmax.
        head: weights of the head of an :class:`~hetgym.agents.networks.ActorCritic` of the level ``candidates``, which
            takes 2 F features.
    """
    lanes, count, features = actions.shape
    chosen = np.zeros(lanes, np.int64)
    rows, mean = np.empty((count, 2 * features)), np.empty(2 * features)
    common, first, second = np.empty(len(head.score)), np.empty(len(head.score)), np.empty(len(head.score))
    for lane in range(lanes):
        _widen(actions[lane], legal[lane], rows, mean)
        common[:] = 0.0
        add_product(mean, head.all, common)
        best = -np.inf
        for a in range(count):
            if not legal[lane, a]:
                continue
            linear(rows[a], head.own, head.own_bias, first)
            for h in range(len(first)):
                first[h] = max(0.0, first[h] + common[h])
            linear(first, head.mix, head.mix_bias, second)
            rectify(second)
            score = noise[lane, a]
            for h in range(len(second)):
                score += second[h] * head.score[h]
            for f in range(2 * features):
                score -= rows[a, f] * head.rule[f]
            if score > best:
                best, chosen[lane] = score, a
    return chosen


@step
def _widen(actions: FloatArray, legal: BoolArray, rows: FloatArray, mean: FloatArray) -> None:
    """Add to each feature its distance from the mean of the legal actions, in standard deviations.

    Values are taken relative to the least one first, so that a feature that is equal for all actions gives exactly 0.

    Args:
        actions: [A, F] features of each action.
        legal: [A] true where legal.
        rows: [A, 2 F] filled in for legal actions: the features, then the distances.
    """
    count, features = actions.shape
    many = 0
    for a in range(count):
        many += legal[a]
    for f in range(features):
        least, total, square = np.inf, 0.0, 0.0
        for a in range(count):
            if legal[a]:
                least = min(least, actions[a, f])
        for a in range(count):
            if legal[a]:
                total += actions[a, f] - least
        middle = total / max(1, many)
        for a in range(count):
            if legal[a]:
                apart = actions[a, f] - least - middle
                square += apart * apart
        scale = 1.0 / (np.sqrt(square / max(1, many)) + NEGLIGIBLE)
        apart = 0.0
        for a in range(count):
            if legal[a]:
                rows[a, f] = actions[a, f]
                rows[a, features + f] = (actions[a, f] - least - middle) * scale
                apart += rows[a, features + f]
        mean[f] = least + middle if many else 0.0
        mean[features + f] = apart / max(1, many)
