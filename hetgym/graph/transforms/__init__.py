"""Transforms: from a graph to a graph that computes the same in other pieces."""

from hetgym.graph.transforms.dominators import post_dominators
from hetgym.graph.transforms.fusion import Fusion, fuse
from hetgym.graph.transforms.pieces import AXES, pieces, sizes
from hetgym.graph.transforms.splitting import split
from hetgym.graph.transforms.training import OPTIMIZERS, training

__all__ = ["AXES", "OPTIMIZERS", "Fusion", "fuse", "pieces", "post_dominators", "sizes", "split", "training"]
