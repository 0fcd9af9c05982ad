"""from_trace: graphs of what profilers of PyTorch, ONNX Runtime and others recorded."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hetgym._input.files import as_path, read_text
from hetgym._input.json import parse
from hetgym._input.notes import left_out
from hetgym._text import plain
from hetgym.errors import GraphError
from hetgym.graph.measured import MeasuredGraph
from hetgym.graph.traces import chakra, chrome
from hetgym.graph.traces.chrome import Events
from hetgym.graph.traces.chrome_ranks import measured_graph
from hetgym.graph.traces.execution import Dataflow

Source = str | os.PathLike[str]

LIMIT_BYTES = 512 << 20  # Longest file that is accepted, after decompression; 200 000 events take about 50 MB [byte]


def from_trace(
    source: Source | Sequence[Source],
    execution: Source | Sequence[Source] | None = None,
    name: str | None = None,
    *,
    strict: bool = False,
) -> MeasuredGraph:
    """The measured graph of a profiler's trace.

    ======================  ========================================================================================
    format                  written by
    ======================  ========================================================================================
    Kineto                  ``torch.profiler``'s ``export_chrome_trace``; ``.json``, also gzipped
    ONNX Runtime            ``SessionOptions.enable_profiling``; ``.json``
    Chakra                  MLCommons Chakra's converter: ``.et`` (protobuf), or its nodes as ``.json``, also those of
                            ``chakra_jsonizer``
    ======================  ========================================================================================

    Threads and streams become tracks. Nested events of a thread become consecutive nodes, each with the time that
    the event spent outside the events within it. A node waits for the one before it on its track, and for its edges:

    ==============  ==================================  ==============================================================
    edge            from, to                            known from
    ==============  ==================================  ==============================================================
    ``launch``      a call, its kernel                  correlation id; else the external id, or ONNX Runtime's node
    ``sync``        a kernel, the call that waits       the name of the call (``cudaStreamSynchronize``, ...) and
                                                        Kineto's ``cuda_sync`` events; else the last to finish within
                                                        the call, of the kernels issued before
    ``sync``        a kernel, a later launch            a full queue: the most launches that were ever pending on the
                                                        stream, if at least 1000
    ``sync``        a kernel, an unpinned copy          the copy begins within its call, once the stream is done
    ``wait``        kernels of two streams              ``cuda_sync`` events; else ``cudaStreamWaitEvent`` between two
                                                        launches; else a pause of 50 us that ends with another stream
    ``handoff``     two threads                         times: one has nothing to do while the other one works
    ``collective``  all ranks                           kind, process group and order of the collective
    ``data``        kernels of two streams              the execution trace
    ==============  ==================================  ==============================================================

    A launch takes the median latency of the trace, or less if the kernel started sooner. Time that remains between
    the last of these and the start of a node is kept as a delay of that edge, or as a pause of the stream, so that
    the unchanged graph replays exactly. A collective is split in two: each rank arrives, and the transfer starts when
    the last one has; the clocks of ranks are aligned at the ends of their collectives. The span is that of the
    recorded events; the profiler's own window is ignored. Chakra's nodes without start times run first come,
    first served on the threads and streams named.

    Args:
        source: a file, or one for each rank of a run.
        execution: PyTorch's execution trace of the same run (``ExecutionTraceObserver``), from which dependencies
            between streams are taken; one for each Kineto trace.
        name: name of the graph; the file's name without its suffixes if not given.
        strict: refuse a trace if an omission can change its span.

    Returns:
        The graph; :func:`hetgym.workloads.replay` makes it ready for :func:`hetgym.simulate`.

    Raises:
        GraphError: a file is missing, damaged, too long, of no known format or without durations; files of
            different formats; an execution trace that does not belong to its trace; or, with ``strict``, notes.

    Warns:
        HetgymWarning: the graph has notes; one warning lists them all.
    """
    graph = _read(source, execution, name)
    left_out(f"trace {graph.name!r}", graph.notes, strict, GraphError)
    return graph


def _read(
    source: Source | Sequence[Source], execution: Source | Sequence[Source] | None, name: str | None
) -> MeasuredGraph:
    files = _paths(source, "a trace")
    label = _stem(files[0]) if name is None else name
    if execution is None and all(chakra.is_protobuf(file) for file in files):
        return chakra.measured_graph([chakra.read_nodes(file, LIMIT_BYTES) for file in files], label)
    beside = [] if execution is None else _paths(execution, "an execution trace")
    if beside and len(beside) != len(files):
        raise GraphError(f"{len(files)} traces, but {len(beside)} execution traces; each trace needs its own")
    events: list[Events] = []
    nodes: list[list[chakra.Node]] = []
    for file in files:  # one after the other: a parsed document takes far more memory than what is kept of it
        document = _document(file)
        if chrome.is_chrome(document):
            events.append(chrome.read_events(document, str(file)))
        elif chakra.is_chakra(document):
            nodes.append(chakra.nodes_of(document, str(file)))
        else:
            raise GraphError(
                f"{file}: not a trace of a known format (Kineto, ONNX Runtime, Chakra); pass PyTorch's execution "
                "traces, which hold no times, as 'execution' beside Kineto's trace"
            )
        if nodes and (events or beside):
            raise GraphError(f"{file}: a Chakra trace can only be combined with other Chakra traces")
    if nodes:
        return chakra.measured_graph(nodes, label)
    flows: list[Dataflow | None] = [Dataflow(_document(file), str(file)) for file in beside] or [None] * len(files)
    return measured_graph(list(zip(events, flows, strict=True)), label)


def is_trace(document: object) -> bool:
    """True if parsed JSON looks like a trace that :func:`from_trace` reads."""
    return chrome.is_chrome(document) or chakra.is_chakra(document)


def _paths(source: Source | Sequence[Source], what: str) -> list[Path]:
    if isinstance(source, list | tuple):
        if not source:
            raise GraphError(f"{what} needs at least one file")
        return [as_path(item, what, GraphError) for item in source]
    return [as_path(source, what, GraphError)]


def _document(file: Path) -> Any:
    return parse(read_text(file, LIMIT_BYTES, GraphError), str(file), GraphError, lenient=True, several=True)


def _stem(file: Path) -> str:
    name = plain(file.name)
    for suffix in (".gz", ".json", ".trace", ".pt", ".et"):
        name = name.removesuffix(suffix)
    return name or plain(file.name)
