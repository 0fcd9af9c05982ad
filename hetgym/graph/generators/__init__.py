"""Graph generators: random topologies, numerical kernels and networks of any size.

Each generator is a pure function. Random ones take a ``numpy.random.Generator`` as their first argument; the same
state of it gives the same graph. All raise :class:`~hetgym.errors.GraphError` if a parameter is out of range.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from hetgym.errors import ConfigError, suggestion, unknown_name
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.decoding import decoding
from hetgym.graph.generators.language_model import language_model
from hetgym.graph.generators.linear_algebra import cholesky, fft, gaussian_elimination, lu, qr
from hetgym.graph.generators.networks import inception, lstm_grid, mixture_of_experts, sharded_product, transformer
from hetgym.graph.generators.stencils import wavefront
from hetgym.graph.generators.topologies import daggen, fork_join, inception_like, layered

GENERATORS: dict[str, Callable[..., DataflowGraph]] = {
    "cholesky": cholesky, "daggen": daggen, "decoding": decoding, "fft": fft, "fork_join": fork_join,
    "gaussian_elimination": gaussian_elimination, "inception": inception, "inception_like": inception_like,
    "language_model": language_model, "layered": layered, "lstm_grid": lstm_grid,
    "lu": lu, "mixture_of_experts": mixture_of_experts, "qr": qr, "sharded_product": sharded_product,
    "transformer": transformer, "wavefront": wavefront,
}  # fmt: skip
"""Name -> generator."""


def generate_graph(name: str, rng: np.random.Generator | None = None, **parameters: Any) -> DataflowGraph:
    """Run a generator by name.

    Args:
        name: a key of :data:`GENERATORS`.
        rng: source of randomness; needed by the random topologies only.
        **parameters: keyword arguments of that generator.

    Raises:
        UnknownName: no such generator.
        ConfigError: the generator has no such parameter, or needs a source of randomness.
        GraphError: a parameter is out of range.

    >>> generate_graph("cholesky", tiles=4)
    DataflowGraph('cholesky', 20 operators, 30 edges)
    >>> generate_graph("cholesky", tils=4)
    Traceback (most recent call last):
    hetgym.errors.ConfigError: generator 'cholesky' has no parameter 'tils'; did you mean 'tiles' or 'tile'?
    """
    if name not in GENERATORS:
        raise unknown_name("generator", name, GENERATORS)
    generator = GENERATORS[name]
    known = [parameter for parameter in inspect.signature(generator).parameters if parameter != "rng"]
    for parameter in parameters:
        if parameter not in known:
            raise ConfigError(f"generator {name!r} has no parameter {parameter!r}; {suggestion(parameter, known)}")
    if len(known) == len(inspect.signature(generator).parameters):
        return generator(**parameters)
    if rng is None:
        raise ConfigError(f"generator {name!r} draws at random: pass rng=numpy.random.default_rng(seed)")
    return generator(rng, **parameters)


__all__ = [
    "GENERATORS", "cholesky", "daggen", "decoding", "fft", "fork_join", "gaussian_elimination", "generate_graph",
    "inception", "inception_like", "language_model", "layered", "lstm_grid", "lu", "mixture_of_experts", "qr",
    "sharded_product", "transformer", "wavefront",
]  # fmt: skip
