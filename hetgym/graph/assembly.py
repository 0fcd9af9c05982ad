"""Assembly of a checked :class:`DataflowGraph` from steps that read and write named values.

Every importer ends here, so all imported graphs have the same properties: no dead steps, unique and readable names,
no outputs without readers, and a price for every operator.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from hetgym.errors import GraphError, shown
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import DTYPE_BYTES, GENERIC, Attribute, Operator, Tensor

MAX_ELEMENTS = 1 << 48  # Most elements of a tensor, and the largest size of a dimension
MAX_RANK = 64  # Most dimensions of a tensor: NumPy's limit
MAX_BATCH = 1 << 24  # Largest batch that a graph is bound to

_NUMBERED = re.compile(r"[a-z_]?\d+")  # "n17" says less than "Conv_17", unlike "mm17"


@dataclass(slots=True)
class Step:
    """One operator whose operands are still names of values."""

    name: str  # the model's name for it; may be empty, need not be unique
    kind: str  # a key of KINDS, or any other word
    inputs: Sequence[str]  # names of values, in the kind's order
    outputs: Sequence[str]  # names of values; no other step writes them
    attributes: dict[str, Attribute] = field(default_factory=dict)  # those that the FLOP formula needs


def assemble(
    name: str, values: Mapping[str, Tensor], steps: Sequence[Step], results: Iterable[str], notes: Sequence[str] = ()
) -> DataflowGraph:
    """Build the graph of the steps that the results depend on.

    Args:
        name: name of the graph.
        values: type of every value that a step reads or writes; constants without a name get one.
        steps: the steps, in topological order.
        results: names of the values that the graph returns.
        notes: what the importer left out; a sentence about operators of unknown kind comes first.

    Raises:
        GraphError: no step is left, or an operator has operands that its kind cannot have.
    """
    alive, wanted = living(steps, results)
    if not alive:
        raise GraphError(f"graph {name!r}: nothing is computed; all outputs are inputs or constants")
    operators: list[Operator] = []
    edges: list[tuple[int, int, int]] = []
    producer: dict[str, tuple[int, int]] = {}
    names = _unique_names(alive)
    types = dict(values) | _named_constants(alive, values)
    for i, step in enumerate(alive):
        kept = [value for value in step.outputs if value in wanted]
        producer.update({value: (i, slot) for slot, value in enumerate(kept)})
        edges += [(*producer[value], i) for value in step.inputs if value in producer]
        inputs = tuple(types[value] for value in step.inputs)
        outputs = tuple(types[value] for value in kept)
        operator = Operator(names[i], step.kind, inputs, outputs, dict(step.attributes))
        check_operator(operator, f"graph {name!r}")
        operators.append(operator)
    return DataflowGraph(operators, edges, name, (*_unknown_kinds(operators), *notes))


def living(steps: Sequence[Step], results: Iterable[str]) -> tuple[list[Step], set[str]]:
    """The steps that the results depend on, and all values that these steps read or that are results.

    Step k of the list becomes operator k of the graph. Of a step's outputs, its operator has those that are read.
    """
    wanted = set(results)
    alive: list[Step] = []
    for step in reversed(steps):
        if not wanted.isdisjoint(step.outputs):
            alive.append(step)
            wanted.update(step.inputs)
    return alive[::-1], wanted


def _unique_names(steps: Sequence[Step]) -> list[str]:
    taken: set[str] = set()
    seen: Counter[str] = Counter()
    names = []
    for i, step in enumerate(steps):
        stem = f"{step.kind}_{i}" if not step.name or _NUMBERED.fullmatch(step.name) else step.name
        name = stem
        while name in taken:
            seen[stem] += 1
            name = f"{stem}_{seen[stem] + 1}"
        taken.add(name)
        names.append(name)
    return names


def _named_constants(steps: Sequence[Step], values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    taken = {tensor.name for tensor in values.values()}
    free = (name for name in map("constant_{}".format, count()) if name not in taken)
    named: dict[str, Tensor] = {}
    for value in (value for step in steps for value in step.inputs if value not in named):
        tensor = values[value]
        if tensor.constant and not tensor.name:
            named[value] = replace(tensor, name=next(free))
    return named


def check_operator(operator: Operator, where: str) -> None:
    """Refuse (GraphError) an operator that the formulas of its kind cannot price, or price below 0 or at infinity."""
    try:
        counts = (operator.flops, operator.bytes_read, operator.bytes_written)
    except (ArithmeticError, IndexError, LookupError, TypeError, ValueError) as cause:
        shapes = ", ".join(str(list(t.shape)) for t in operator.inputs) or "nothing"
        raise GraphError(
            f"{where}: operator {operator.name!r} is not a valid {operator.kind}: operands {shapes} or attributes "
            f"{dict(operator.attributes)} do not fit"
        ) from cause
    if not all(math.isfinite(count) and count >= 0 for count in counts):
        raise GraphError(f"{where}: operator {operator.name!r} ({operator.kind}) has a negative or infinite cost")


def check_tensor(tensor: Tensor, where: str) -> Tensor:
    """The tensor; GraphError if its dtype is unknown or :data:`MAX_RANK` or :data:`MAX_ELEMENTS` is exceeded."""
    if tensor.dtype not in DTYPE_BYTES:
        raise GraphError(f"{where}: unknown dtype {shown(tensor.dtype)}; known: {', '.join(DTYPE_BYTES)}")
    if len(tensor.shape) > MAX_RANK:
        raise GraphError(f"{where}: a shape has {len(tensor.shape)} dimensions; a tensor has at most {MAX_RANK}")
    if any(not 0 <= size <= MAX_ELEMENTS for size in tensor.shape) or tensor.size > MAX_ELEMENTS:
        raise GraphError(f"{where}: shape {_short(tensor.shape)} is out of range; a tensor has 0 to 2**48 elements")
    return tensor


def _short(shape: tuple[int, ...]) -> str:
    text = "[" + ", ".join(str(size) if abs(size) < 10**18 else "…" for size in shape[:12])
    return text + (", …]" if len(shape) > 12 else "]")


def check_batch(batch: object) -> int:
    """The batch; GraphError if it is not a whole number from 1 to :data:`MAX_BATCH`."""
    if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= MAX_BATCH:
        raise GraphError(f"batch must be a whole number from 1 to {MAX_BATCH}, not {shown(batch)}")
    return batch


def _unknown_kinds(operators: Iterable[Operator]) -> list[str]:
    """A note about the kinds that :data:`~hetgym.graph.KINDS` lacks, in alphabetical order; none if it has all."""
    kinds = sorted({operator.kind for operator in operators if operator.spec is GENERIC})
    if not kinds:
        return []
    return [
        f"operators of unknown kind are priced by the bytes they move: {', '.join(kinds)}; add a kind to "
        "hetgym.graph.KINDS to price them better"
    ]
