"""Dataflow graphs: the operator vocabulary, importers, generators and the zoo of real models."""

from hetgym.graph.dataflow import FEATURES, DataflowGraph, Edge, Feature
from hetgym.graph.ops import FAMILIES, KINDS, FusionClass, Operator, OpKind, Tensor

__all__ = [
    "FAMILIES",
    "FEATURES",
    "KINDS",
    "DataflowGraph",
    "Edge",
    "Feature",
    "FusionClass",
    "OpKind",
    "Operator",
    "Tensor",
]
