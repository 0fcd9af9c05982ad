"""Transforms: functions from a graph to an equivalent graph, such as fusion, splitting and data parallelism."""

from hetgym.graph.transforms.casting import FLOATS, cast
from hetgym.graph.transforms.collectives import ALGORITHMS, COLLECTIVES, collective
from hetgym.graph.transforms.data_parallel import BUCKET_BYTES, data_parallel
from hetgym.graph.transforms.dominators import post_dominators
from hetgym.graph.transforms.fusion import Fusion, apply_groups, fuse
from hetgym.graph.transforms.pieces import AXES, pieces, sizes
from hetgym.graph.transforms.replicated import Replicated
from hetgym.graph.transforms.splitting import split
from hetgym.graph.transforms.training import OPTIMIZERS, training

__all__ = [
    "ALGORITHMS", "AXES", "BUCKET_BYTES", "COLLECTIVES", "FLOATS", "OPTIMIZERS", "Fusion", "Replicated", "apply_groups",
    "cast", "collective", "data_parallel", "fuse", "pieces", "post_dominators", "sizes", "split", "training",
]  # fmt: skip
