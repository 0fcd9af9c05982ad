"""Dataflow graphs: the operator vocabulary, importers, generators and the zoo of real models."""

from hetgym.graph import transforms, zoo
from hetgym.graph.dataflow import FEATURES, DataflowGraph, Edge, Feature
from hetgym.graph.from_graphnet import from_graphnet
from hetgym.graph.from_networkx import from_networkx, to_networkx
from hetgym.graph.from_onnx import from_onnx, onnx_results
from hetgym.graph.from_pt2 import from_pt2
from hetgym.graph.from_torch import from_torch
from hetgym.graph.from_trace import from_trace
from hetgym.graph.from_tvm import TvmFusion, from_tvm, relax_module
from hetgym.graph.generators import GENERATORS, generate_graph
from hetgym.graph.layers import layer_of
from hetgym.graph.loading import load_graph
from hetgym.graph.measured import MeasuredGraph
from hetgym.graph.ops import FAMILIES, KINDS, FusionClass, Operator, OpKind, Tensor
from hetgym.graph.serialization import from_json, to_json

__all__ = [
    "FAMILIES", "FEATURES", "GENERATORS", "KINDS", "DataflowGraph", "Edge", "Feature", "FusionClass", "MeasuredGraph",
    "OpKind", "Operator", "Tensor", "TvmFusion", "from_graphnet", "from_json", "from_networkx", "from_onnx", "from_pt2",
    "from_torch", "from_trace", "from_tvm", "generate_graph", "layer_of", "load_graph", "onnx_results", "relax_module",
    "to_json", "to_networkx", "transforms", "zoo",
]  # fmt: skip
