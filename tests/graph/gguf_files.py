"""GGUF files as llama.cpp writes them, with holes where the weights would be."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetgym.graph.formats import GGML
from hetgym.graph.language_model import LanguageModel

TYPES = {dtype: number for number, dtype in GGML.items()}

Tensors = list[tuple[str, tuple[int, ...], int, int]]  # name, shape as in the file, type, offset


def of(value: Any) -> bytes:
    """A value with its type."""
    if isinstance(value, bool):
        return struct.pack("<i?", 7, value)
    if isinstance(value, str):
        return struct.pack("<i", 8) + text(value)
    if isinstance(value, float):
        return struct.pack("<if", 6, value)
    if isinstance(value, list):
        kind, pack = (8, text) if isinstance(value[0], str) else (5, lambda x: struct.pack("<i", x))
        kind, pack = (7, lambda x: struct.pack("<?", x)) if isinstance(value[0], bool) else (kind, pack)
        return struct.pack("<iiQ", 9, kind, len(value)) + b"".join(map(pack, value))
    return struct.pack("<iI", 4, value)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def header(pairs: Mapping[str, Any], tensors: Tensors, version: int = 3) -> bytes:
    """The bytes of a header, without padding."""
    head = struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(pairs))
    head += b"".join(text(key) + of(value) for key, value in pairs.items())
    for name, shape, kind, offset in tensors:
        head += text(name) + struct.pack(f"<I{len(shape)}qiQ", len(shape), *shape, kind, offset)
    return head


def write(path: Path, pairs: Mapping[str, Any], weights: Mapping[str, tuple[tuple[int, ...], str, int]]) -> None:
    """Write a file of weights (shape, dtype, bytes), whose data are a hole."""
    tensors: Tensors = []
    at = 0
    for name, (shape, dtype, size) in weights.items():
        tensors.append((name, shape[::-1], TYPES[dtype], at))
        at += -(-size // 32) * 32
    head = header(pairs, tensors)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(-(-len(head) // 32) * 32 + at)


def write_model(path: Path, model: LanguageModel, family: str, **more: Any) -> None:
    """Write the file of a model with full attention."""
    first = next(layer for layer in model.layers if layer.kv_heads)
    sizes = {
        "context_length": model.positions, "block_count": len(model.layers),
        "embedding_length": model.hidden, "attention.head_count": first.heads,
        "attention.head_count_kv": first.kv_heads, "attention.key_length": first.key_size,
        "attention.value_length": first.value_size or first.key_size,
        **({"expert_used_count": first.top} if first.top else {}), **more,
    }  # fmt: skip
    pairs = {"general.architecture": family, **{f"{family}.{key}": value for key, value in sizes.items()}}
    pairs["tokenizer.ggml.model"] = "no_vocab"
    pairs["tokenizer.ggml.tokens"] = ["a", "bc"] * 3000
    write(path, pairs, {w.name: (w.shape, w.dtype, int(w.bytes)) for w in model.weights})
