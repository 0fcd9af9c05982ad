"""Prices of fused operators: the price of the anchor, to which the others were fused, plus additional traffic.

Cost models are fitted to single operators. Operators that are fused to an anchor work on its results while these are
in registers. A fused operator therefore costs as much as its anchor plus the memory traffic that the anchor alone
would not have.
"""

from hetgym.graph.ops import Attribute, Operator, Tensor

_OWN = ("anchor", "anchor_output", "anchor_inner", "operands", "fused", "shapes", "flops", "reads")


def anchor_of(operator: Operator) -> tuple[Operator, float]:
    """The anchor of a fused operator, with its own operands and result, and the bytes that are moved in addition to it.

    For an operator that is not fused, the operator itself and 0.

    >>> x, w = Tensor((4, 8)), Tensor((8, 2), constant=True)
    >>> y, b = Tensor((4, 2)), Tensor((4, 2))
    >>> attributes = {"anchor": "MatMul", "operands": 2, "anchor_output": (4, 2), "flops": 136.0, "reads": 224.0}
    >>> anchor, more = anchor_of(Operator("fc", "Fused-matmul", (x, w, b), (y,), attributes))
    >>> anchor.kind, len(anchor.inputs), more
    ('MatMul', 2, 32.0)
    """
    kind, shape = operator.attributes.get("anchor"), operator.attributes.get("anchor_output")
    count = operator.attributes.get("operands")
    fused = operator.kind.startswith("Fused-") and isinstance(kind, str) and isinstance(count, int)
    if not fused or not isinstance(shape, tuple) or not operator.outputs:
        return operator, 0.0
    assert isinstance(kind, str) and isinstance(count, int)
    attributes: dict[str, Attribute] = {key: v for key, v in operator.attributes.items() if key not in _OWN}
    result = Tensor(tuple(int(size) for size in shape), operator.outputs[0].dtype)
    inner = operator.attributes.get("anchor_inner")
    operands = list(operator.inputs[: count - isinstance(inner, tuple)])
    if isinstance(inner, tuple):
        operands.insert(inner[0], Tensor(tuple(inner[1:]), result.dtype))
    anchor = Operator(operator.name, kind, tuple(operands), (result,), attributes)
    moved = operator.bytes_read + operator.bytes_written - anchor.bytes_read - anchor.bytes_written
    return anchor, max(0.0, moved)
