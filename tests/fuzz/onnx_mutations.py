"""Mutations of ONNX models: a field of a message, at any depth."""

from __future__ import annotations

import copy
from typing import Any

import onnx

from tests.fuzz.draws import NUMBERS, Rng, pick

OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
"""Names of ONNX's operators."""


def in_onnx(data: bytes, rng: Rng) -> bytes:
    """Change a field of a message of a model, at any depth."""
    model = onnx.ModelProto.FromString(data)
    messages: list[Any] = []
    _messages(model, messages)
    message = pick(messages, rng)
    field = pick(list(message.DESCRIPTOR.fields), rng)
    if rng.random() < 0.6 and message.ListFields():
        field = pick([found for found, _ in message.ListFields()], rng)
    value = getattr(message, field.name)
    repeated = not isinstance(value, int | float | str | bytes) and not hasattr(value, "ListFields")
    if field.type == field.TYPE_MESSAGE:
        _change_message(message, field, value, repeated, messages, rng)
    elif repeated:
        items = list(value)
        what = int(rng.integers(4))
        if what == 0 and items:
            items[int(rng.integers(len(items)))] = _scalar(field, messages, rng)
        elif what == 1:
            items.append(_scalar(field, messages, rng))
        elif what == 2:
            items = items[: int(rng.integers(len(items) + 1))]
        else:
            items = items * int(rng.integers(1, 4)) + [_scalar(field, messages, rng)] * int(pick((0, 1, 70, 2000), rng))
        message.ClearField(field.name)
        getattr(message, field.name).extend(items)
    else:
        setattr(message, field.name, _scalar(field, messages, rng))
    return model.SerializeToString()


def _change_message(message: Any, field: Any, value: Any, repeated: bool, messages: list[Any], rng: Rng) -> None:
    """Clear, double, or take from elsewhere what is a message itself."""
    alike = [m for m in messages if m.DESCRIPTOR is field.message_type and m.ByteSize() < 5000]
    what = int(rng.integers(3))
    if what == 0:
        message.ClearField(field.name)
    elif alike:
        other = copy.deepcopy(pick(alike, rng))
        if repeated:
            for _ in range(int(pick((1, 1, 2, 20), rng))):
                value.append(other)
        else:
            value.CopyFrom(other)


def _messages(message: Any, found: list[Any]) -> None:
    if len(found) > 4000:
        return
    found.append(message)
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in (value,) if hasattr(value, "ListFields") else value:
                _messages(part, found)


def _scalar(field: Any, messages: list[Any], rng: Rng) -> Any:
    """A value that a field can hold."""
    if field.type == field.TYPE_STRING:
        nodes = [m for m in messages if m.DESCRIPTOR.name == "NodeProto"]
        known = [name for node in nodes for name in (*node.input, *node.output)]
        return pick([*known, pick(OPERATORS, rng), "", "x", "ai.onnx", "com.microsoft"], rng)
    if field.type == field.TYPE_BYTES:
        return pick((b"", b"\x00" * 8, b"\xff" * 64, b"SAME_UPPER", b"bij,bjk->bik", b"a" * 3000, rng.bytes(8)), rng)
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return pick((0.0, 1.0, -1.0, 1e30, float("nan"), float("inf")), rng)
    if field.type == field.TYPE_ENUM:
        return int(pick([value.number for value in field.enum_type.values], rng))
    wide = field.type in (field.TYPE_INT64, field.TYPE_UINT64)
    low = 0 if field.type in (field.TYPE_UINT64, field.TYPE_UINT32) else -(2**63)
    high = 2**63 - 1 if wide else 2**31 - 1
    return int(pick([n for n in NUMBERS if isinstance(n, int) and max(low, -high) <= n <= high] + [5, 9, 13, 21], rng))
