"""PyTorch's execution traces (ExecutionTraceObserver): which operator reads what another one wrote.

The JSON has ``nodes`` with ``id``, ``inputs`` and ``outputs``; a tensor is a list that starts with its own id and that
of its storage. Nodes carry the record function id under which Kineto lists the same operator, in ``rf_id`` or, from
version 1.0.2 on, among ``attrs``. The files hold no times, so they are read beside Kineto's trace of the same run.

Source: pytorch.org/docs/stable/profiler.html; schema "1.1.1-chakra.0.0.4" of PyTorch's execution_trace_observer.cpp.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hetgym._input.json import noun
from hetgym.errors import GraphError
from hetgym.graph.traces.chrome import Event
from hetgym.graph.traces.streams import Work


class Dataflow:
    """Storages that operators read and write, by record function id; GraphError about a document of another format."""

    def __init__(self, document: Any, where: str) -> None:
        if not is_execution_trace(document):
            raise GraphError(f"{where}: not an execution trace of PyTorch (an object with 'schema' and 'nodes')")
        self.where = where
        self.names: dict[int, str] = {}
        self.reads: dict[int, list[int]] = {}
        self.writes: dict[int, list[int]] = {}
        for i, node in enumerate(document["nodes"]):
            if not isinstance(node, Mapping):
                raise GraphError(f"{where}: nodes[{i}] is {noun(node)}, not an object")
            key = _record(node)
            if key:
                self.names[key] = str(node.get("name"))
                self.reads[key] = _storages(node.get("inputs"))
                self.writes[key] = _storages(node.get("outputs"))

    def link(self, host: Sequence[Event], rows: Sequence[Sequence[Work]]) -> None:
        """Let work on a stream wait for work on other streams that wrote what it reads.

        Work belongs to the innermost operator around its launch that the execution trace has.

        Traces of before 2024 have no record function ids; their external ids are the same numbers if both observers
        began together. Operators are matched if their names are equal, too.

        Raises:
            GraphError: fewer than half of the operators match, so the files are not of one run.
        """
        numbered = [
            (event, record)
            for event in host
            if not event.runtime and (record := event.number("Record function id", "External id", "external id"))
        ]
        records = {id(event): record for event, record in numbered if self.names.get(record) == event.name}
        if 2 * len(records) < min(len(numbered), len(self.names)) or not records:
            raise GraphError(
                f"{self.where}: only {len(records)} of the trace's {len(numbered)} operators match by record function "
                "id and name; pass the execution trace of the same run"
            )
        parts: dict[int, list[Work]] = defaultdict(list)
        for row in rows:
            for work in row:
                around = work.launch
                while around is not None and id(around) not in records:
                    around = around.parent
                if around is not None:
                    parts[records[id(around)]].append(work)
        writer: dict[int, Work] = {}
        for record, works in sorted(parts.items(), key=lambda item: min(work.issued for work in item[1])):
            works.sort(key=lambda work: work.event.start)
            for storage in self.reads[record]:
                source = writer.get(storage)
                if source is not None and source.event.finish <= works[0].event.start:
                    works[0].step.after.append((source.step, "data"))
            writer.update(dict.fromkeys(self.writes[record], works[-1]))


def is_execution_trace(document: object) -> bool:
    """True if a document looks like this format."""
    return isinstance(document, Mapping) and "schema" in document and isinstance(document.get("nodes"), list)


def _record(node: Mapping[str, Any]) -> int | None:
    """Record function id of a node; None if it has none."""
    value = node.get("rf_id")
    for attribute in node.get("attrs") or () if isinstance(node.get("attrs"), list) else ():
        if isinstance(attribute, Mapping) and attribute.get("name") == "rf_id":
            value = attribute.get("value")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _storages(side: Any) -> list[int]:
    """Ids of the storages of the tensors of one side; lists of tensors are looked into."""
    found: list[int] = []
    pending = [side.get("values") if isinstance(side, Mapping) else side]
    while pending:
        value = pending.pop()
        if not isinstance(value, list):
            continue
        if len(value) == 6 and isinstance(value[5], str) and isinstance(value[1], int):
            found.append(value[1])
        else:
            pending += value
    return found
