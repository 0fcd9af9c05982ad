"""Transforms: from a graph to a graph that computes the same in other pieces."""

from hetgym.graph.transforms.dominators import post_dominators
from hetgym.graph.transforms.fusion import Fusion, fuse

__all__ = ["Fusion", "fuse", "post_dominators"]
