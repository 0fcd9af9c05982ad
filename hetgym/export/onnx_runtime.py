"""ONNX Runtime: the execution provider of each node, by the nodes' names or by annotations in the model.

Source: ONNX Runtime, "Graph Partitioning with Annotations and Memory Constraints" and
``onnxruntime_session_options_config_keys.h`` of version 1.31: ``session.name_based_layer_assignment`` and
``session.layer_assignment_settings`` hold ``device(pattern, …); device(pattern, …)``. By name, a pattern is a part of
a node's name, and the longest one applies. By annotation, ``=pattern`` equals the node's metadata ``layer_ann``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetgym._input.files import as_path, read_bytes, write_bytes
from hetgym.errors import ConfigError, GraphError, require
from hetgym.export.placement import Placement, lost
from hetgym.graph import onnx_results

if TYPE_CHECKING:
    import onnx

PROGRAM = "ONNX Runtime"
BY_NAME = "session.name_based_layer_assignment"
BY_ANNOTATION = "session.layer_assignment_settings"
ANNOTATION = "layer_ann"  # Key of a node's metadata that ONNX Runtime reads
LONGEST_OPTION = 8192  # Longest value of a session option that ONNX Runtime takes [characters]
LARGEST_MODEL = 2 << 30  # Largest model file [byte]: protobuf's limit

_RESERVED = ",;()"


def export_onnx_runtime(
    placement: Placement,
    model: str | os.PathLike[str] | None,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    annotated: Path | None = None,
) -> dict[str, Any]:
    """Session options ``{"session_options": {key: value}}`` that give each ONNX node the device of its operator.

    Nodes that hetgym folds into constants have no device in a plan and get none here; ONNX Runtime folds them, too.
    Model, batch and dims are those of :func:`hetgym.graph.from_onnx`. ``annotated`` is a file for a copy of the model
    whose nodes carry the annotations; None to go by the nodes' names.

    Raises:
        ConfigError: the plan uses two devices of a kind, is not of this model, or the nodes' names cannot carry it.
        GraphError: the model cannot be read.
        MissingExtra: onnx is not installed.
    """
    if model is None or not str(os.fspath(model)).endswith(".onnx"):
        raise ConfigError(f"{PROGRAM} places the nodes of an .onnx file; plan one, not {model or placement.title}")
    placement.one_of_each_kind(PROGRAM)
    onnx = require("onnx", "onnx", "exporting for ONNX Runtime")
    path = as_path(model, "an ONNX model", GraphError)
    results = onnx_results(path, batch, dims)
    if tuple(results) != placement.names:
        unknown = next((name for name in placement.names if name not in results), placement.names[0])
        raise ConfigError(
            f"the plan is not of the nodes of {path} as they are in the file: operator {unknown!r} is not among them "
            "(fusing, training steps and other sizes make operators that no node computes)"
        )
    proto = onnx.ModelProto.FromString(read_bytes(path, LARGEST_MODEL, GraphError))
    kinds = {value: placement.where(i).kind for i, value in enumerate(results.values())}
    missing = kinds.keys() - {value for node in proto.graph.node for value in node.output}
    if missing:
        raise ConfigError(
            f"{PROGRAM} places the nodes inside functions of the model, such as the one of {min(missing)!r}, one by one"
        )
    if annotated is None:
        rules = _by_names(onnx, proto.graph.node, kinds)
        return {"session_options": {BY_NAME: _settings(rules)}}
    external = any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in proto.graph.initializer)
    if external and annotated.parent.resolve() != path.parent.resolve():
        raise ConfigError(f"the weights of {path} lie in files beside it; export to a model in the same folder")
    _annotate(proto.graph.node, kinds)
    write_bytes(annotated, proto.SerializeToString(), ConfigError)
    return {"session_options": {BY_ANNOTATION: _settings({kind: [f"={kind}"] for kind in sorted(set(kinds.values()))})}}


def _settings(rules: Mapping[str, Sequence[str]]) -> str:
    """The value of either session option."""
    return "; ".join(f"{kind}({', '.join(patterns)})" for kind, patterns in rules.items() if patterns)


def _annotate(nodes: Sequence[onnx.NodeProto], kinds: Mapping[str, str]) -> None:
    """Write the device's kind into the metadata of each node that has one; bodies of loops inherit it."""
    for node in nodes:
        others = [entry for entry in node.metadata_props if entry.key != ANNOTATION]
        del node.metadata_props[:]
        node.metadata_props.extend(others)
        kind = next((kinds[value] for value in node.output if value in kinds), None)
        if kind is not None:
            node.metadata_props.add(key=ANNOTATION, value=kind)


def _by_names(onnx: Any, nodes: Sequence[onnx.NodeProto], kinds: Mapping[str, str]) -> dict[str, list[str]]:
    """Patterns for each kind of device; ConfigError if nodes' names are empty, not unique, reserved or too long."""
    instead = "export to a file that ends in .onnx, a copy of the model with annotated nodes"
    wanted: dict[str, str] = {}
    count = Counter(node.name for node in nodes)
    for node in nodes:
        if any(
            attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for attribute in node.attribute
        ):
            lost(PROGRAM, f"assigns no body of {node.op_type} nodes by name; {instead}")
        kind = next((kinds[value] for value in node.output if value in kinds), None)
        if kind is None:
            continue
        name = node.name
        plain = name == name.strip() and not name.startswith("=") and not any(c in name for c in _RESERVED)
        if not name or count[name] > 1 or not plain:
            why = "has no name" if not name else f"is named {name!r}, which is not unique or has a reserved character"
            lost(PROGRAM, f"goes by the names of nodes, and a {node.op_type} node {why}; {instead}")
        wanted[name] = kind
    rules = shortest_rules(wanted)
    found: dict[str, list[str]] = {kind: [] for kind in sorted(set(wanted.values()))}
    for pattern, kind in rules.items():
        found[kind].append(pattern)
    size = len(_settings(found))
    if size > LONGEST_OPTION:
        lost(PROGRAM, f"takes {LONGEST_OPTION} characters of patterns, and the plan needs {size}; {instead}")
    return found


def shortest_rules(wanted: Mapping[str, str]) -> dict[str, str]:
    """Few patterns from which every name gets its value: parts of names; the longest in a name applies.

    >>> shortest_rules({"/h.0/a": "gpu", "/h.0/b": "gpu", "/h.1/a": "cpu", "/h.1/b": "gpu"})
    {'/h.': 'gpu', '/h.1/a': 'cpu'}
    """
    rules: dict[str, str] = {}
    groups: list[tuple[list[str], str]] = [(sorted(wanted), "")]
    while groups:
        names, inherited = groups.pop()
        count = Counter(wanted[name] for name in names)
        if set(count) == {inherited}:
            continue
        prefix = os.path.commonprefix([names[0], names[-1]])
        most = inherited if count[inherited] == max(count.values()) else max(sorted(count), key=count.__getitem__)
        if prefix and prefix == prefix.strip() and most != inherited:
            rules[prefix] = inherited = most
        parts: dict[str, list[str]] = {}
        for name in names:
            parts.setdefault(name[len(prefix) : len(prefix) + 1], []).append(name)
        if len(names) > 1:
            groups += [(part, inherited) for part in reversed(parts.values())]
        elif most != inherited:
            rules[names[0]] = most
    wrong = [name for name in wanted if match(rules, name) != wanted[name]]
    while wrong:  # patterns count anywhere in a name, so a prefix may have matched elsewhere; whole names are longest
        rules |= {name: wanted[name] for name in wrong}
        wrong = [name for name in wanted if match(rules, name) != wanted[name]]
    return rules


def match(rules: Mapping[str, str], name: str) -> str | None:
    """The value of the longest pattern that is a part of the name, of equally long ones the first."""
    found = max((pattern for pattern in rules if pattern in name), key=len, default=None)
    return None if found is None else rules[found]
