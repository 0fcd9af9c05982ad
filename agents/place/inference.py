"""Inference: the place policy's encoder in compiled code; for the reasons see :mod:`hetgym.agents.inference`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import jit, lean, step
from hetgym._kernels.records import record
from hetgym._memory import check_memory
from hetgym._types import FloatArray, IntArray
from hetgym.agents.inference import HeadWeights, add_product, linear, rectify
from hetgym.problem import Problem

ARRAYS = 5  # Arrays of a vector for each pair of operator and device in the encoder


@record
class EncoderWeights(NamedTuple):
    """An :class:`~hetgym.agents.networks.OperatorDeviceEncoder`; matrices are [inputs, outputs]."""

    embed0: FloatArray  # first layer of the embedding
    embed0_bias: FloatArray
    embed1: FloatArray  # its second layer
    embed1_bias: FloatArray
    norm: FloatArray  # [l, h] layer normalisation
    norm_bias: FloatArray  # [l, h]
    node: FloatArray  # [l, 2, 2h, h] of messages from producers, and from consumers
    node_bias: FloatArray  # [l, 2, h]
    edge: FloatArray  # [l, 2, e, h] of the edges' features in these messages
    update0: FloatArray  # [l, 5h, h]
    update0_bias: FloatArray  # [l, h]
    update1: FloatArray  # [l, h, h]
    update1_bias: FloatArray  # [l, h]


def encoder_weights(state: Mapping[str, npt.NDArray[np.float32]]) -> EncoderWeights:
    """Extract an encoder's weights from a state dictionary; their names begin with ``encoder.``."""
    prefix = "encoder."

    def get(name: str) -> FloatArray:
        return np.ascontiguousarray(state[prefix + name].astype(np.float64).T)

    layers = sum(name.endswith(".norm.weight") for name in state if name.startswith(prefix))

    size = len(get("embed.2.bias"))

    def each(*names: str, of: tuple[int, ...] = (size,)) -> FloatArray:
        found = [get(f"layers.{k}.{name}") for k in range(layers) for name in names]
        kinds = (len(names),) if len(names) > 1 else ()
        return np.ascontiguousarray(np.array(found).reshape(layers, *kinds, *(found[0].shape if found else of)))

    return EncoderWeights(
        get("embed.0.weight"),
        get("embed.0.bias"),
        get("embed.2.weight"),
        get("embed.2.bias"),
        each("norm.weight"),
        each("norm.bias"),
        each("inputs.node.weight", "outputs.node.weight", of=(2 * size, size)),
        each("inputs.node.bias", "outputs.node.bias"),
        each("inputs.edge.weight", "outputs.edge.weight", of=(1, size)),
        each("update.0.weight", of=(5 * size, size)),
        each("update.0.bias"),
        each("update.2.weight", of=(size, size)),
        each("update.2.bias"),
    )


def encode(problem: Problem, tokens: FloatArray, edge_features: FloatArray, weights: EncoderWeights) -> FloatArray:
    """[n, d, h] embeddings of the pairs of operator and device.

    Args:
        tokens: [n, d, F] features of the pairs.
        edge_features: [m, E] features of the edges.

    Raises:
        ConfigError: they would not fit into memory.
    """
    n, d, _ = tokens.shape
    needed = ARRAYS * 8.0 * n * d * weights.norm.shape[1]
    check_memory(f"the network's states of {n} operators on {d} devices", needed, "use 'portfolio'")
    return _encode(
        problem.edge_source.copy(), problem.edge_target.copy(), tokens, np.ascontiguousarray(edge_features), weights
    )


# Before layer k, hidden holds the embeddings after k layers. Within it: seen is the normalised embedding, others its
# mean over devices, globe its mean over operators, and heard[0], heard[1] the mean messages from producers and from
# consumers. The update's first matrix is applied in five blocks, one for each of these inputs, so that products that
# several pairs share (others, globe) are computed once. O(layers d (n h^2 + m h)) for n operators and m edges.
@jit
def _encode(
    source: IntArray, target: IntArray, tokens: FloatArray, edge_features: FloatArray, weights: EncoderWeights
) -> FloatArray:
    n, d, _ = tokens.shape
    layers, size = weights.norm.shape
    hidden, wide = np.empty((n, d, size)), np.empty(size)
    for i in range(n):
        for a in range(d):
            linear(tokens[i, a], weights.embed0, weights.embed0_bias, wide)
            rectify(wide)
            linear(wide, weights.embed1, weights.embed1_bias, hidden[i, a])
    seen, others, globe = np.empty((n, d, size)), np.empty((n, size)), np.empty((d, size))
    messages, edge, heard = np.empty((n, d, size)), np.empty(size), np.empty((2, n, d, size))
    degree, base, row = np.empty(n), np.empty(size), np.empty((d, size))
    for k in range(layers):
        for i in range(n):
            for a in range(d):
                _normalise(hidden[i, a], weights.norm[k], weights.norm_bias[k], seen[i, a])
        for i in range(n):
            _mean(seen[i], others[i])
        for a in range(d):
            _mean(seen[:, a], globe[a])
        for way in range(2):
            node, bias = weights.node[k, way], weights.node_bias[k, way]
            for i in range(n):
                linear(others[i], node[size:], bias, base)
                for a in range(d):
                    linear(seen[i, a], node[:size], base, messages[i, a])
            sender, receiver = (source, target) if way == 0 else (target, source)
            heard[way] = 0.0
            degree[:] = 0.0
            for e in range(len(sender)):
                edge[:] = 0.0
                add_product(edge_features[e], weights.edge[k, way], edge)
                i, j = sender[e], receiver[e]
                degree[j] += 1.0
                for a in range(d):
                    for h in range(size):
                        heard[way, j, a, h] += max(0.0, messages[i, a, h] + edge[h])
            for j in range(n):
                for a in range(d):
                    for h in range(size):
                        heard[way, j, a, h] /= max(1.0, degree[j])
        first = weights.update0[k]
        for a in range(d):
            linear(globe[a], first[4 * size :], weights.update0_bias[k], row[a])
        for i in range(n):
            base[:] = 0.0
            add_product(others[i], first[size : 2 * size], base)
            for a in range(d):
                linear(seen[i, a], first[:size], base, wide)
                add_product(heard[0, i, a], first[2 * size : 3 * size], wide)
                add_product(heard[1, i, a], first[3 * size : 4 * size], wide)
                for h in range(size):
                    wide[h] = max(0.0, wide[h] + row[a, h])
                for h in range(size):
                    hidden[i, a, h] += weights.update1_bias[k, h]
                add_product(wide, weights.update1[k], hidden[i, a])
    return hidden


@step
def _normalise(x: FloatArray, weight: FloatArray, bias: FloatArray, out: FloatArray) -> None:
    """Layer normalisation, with PyTorch's epsilon."""
    size = len(x)
    mean, variance = 0.0, 0.0
    for h in range(size):
        mean += x[h]
    mean /= size
    for h in range(size):
        variance += (x[h] - mean) * (x[h] - mean)
    factor = 1.0 / np.sqrt(variance / size + 1e-5)
    for h in range(size):
        out[h] = (x[h] - mean) * factor * weight[h] + bias[h]


@step
def _mean(x: FloatArray, out: FloatArray) -> None:
    """Write the mean of rows, 0 of none."""
    for h in range(len(out)):
        total = 0.0
        for k in range(len(x)):
            total += x[k, h]
        out[h] = total / max(1, len(x))


def prepare_head(hidden: FloatArray, weights: HeadWeights) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute the part of the head that stays the same during an episode.

    Args:
        hidden: [n, d, h] embeddings, the last h features of every action.

    Returns:
        [n, d, k] their contribution to the first layer through an action itself, [n, d, k] through the mean over all
        actions, and [n, d] to the rule.
    """
    dynamic = len(weights.rule) - hidden.shape[2]
    n, d, _ = hidden.shape
    size = len(weights.score)
    own, whole, rule = np.empty((n, d, size)), np.empty((n, d, size)), np.empty((n, d, 1))
    _project(hidden, weights.own[dynamic:], weights.own_bias, own)
    _project(hidden, weights.all[dynamic:], np.zeros(size), whole)
    _project(hidden, weights.rule[dynamic:, None], np.zeros(1), rule)
    return own, whole, rule[:, :, 0]


@lean
def _project(x: FloatArray, matrix: FloatArray, bias: FloatArray, out: FloatArray) -> None:
    for i in range(x.shape[0]):
        for a in range(x.shape[1]):
            linear(x[i, a], matrix, bias, out[i, a])
