"""Formats of quantised weights: blocks of numbers that share scales, and the bytes that a block takes.

A format is a dtype like any other: a tensor of dtype ``q4_k`` takes 144 bytes for each 256 numbers of a row. Programs
convert blocks in registers, so arithmetic stays in the dtype of the operator's outputs.

Notes:
    Blocks are those of ggml: ggml-common.h and gguf-py/gguf/constants.py of llama.cpp. Others: GPTQ and AWQ with groups
    of 128 and packed zeros; compressed-tensors; bitsandbytes 0.49 (NF4, blocks of 64; nested scales in blocks of 256:
    Dettmers et al., QLoRA, NeurIPS 2023); MLX with groups of 64 and 16-bit scale and bias; OCP Microscaling (MXFP4).
"""

from typing import NamedTuple


class Format(NamedTuple):
    """Blocks of a quantised format."""

    elements: int  # numbers of a block
    bytes: float  # size of a block [byte]
    ggml: int = -1  # number of the type in a GGUF file; -1 for none


FORMATS: dict[str, Format] = {
    "q4_0": Format(32, 18, 2), "q4_1": Format(32, 20, 3), "q5_0": Format(32, 22, 6), "q5_1": Format(32, 24, 7),
    "q8_0": Format(32, 34, 8), "q2_k": Format(256, 84, 10), "q3_k": Format(256, 110, 11), "q4_k": Format(256, 144, 12),
    "q5_k": Format(256, 176, 13), "q6_k": Format(256, 210, 14),
    "iq1_s": Format(256, 50, 19), "iq1_m": Format(256, 56, 29), "iq2_xxs": Format(256, 66, 16),
    "iq2_xs": Format(256, 74, 17), "iq2_s": Format(256, 82, 22), "iq3_xxs": Format(256, 98, 18),
    "iq3_s": Format(256, 110, 21), "iq4_nl": Format(32, 18, 20), "iq4_xs": Format(256, 136, 23),
    "tq1_0": Format(256, 54, 34), "tq2_0": Format(256, 66, 35), "mxfp4": Format(32, 17, 39),
    "nvfp4": Format(64, 36, 40), "q1_0": Format(128, 18, 41),
    "gptq2": Format(128, 34.25), "gptq3": Format(128, 50.375),
    "gptq4": Format(128, 66.5), "gptq4_64": Format(64, 34.5), "gptq4_32": Format(32, 18.5),
    "gptq8": Format(128, 131), "gptq8_64": Format(64, 67), "gptq8_32": Format(32, 35),
    "awq4": Format(128, 66.5), "awq4_64": Format(64, 34.5), "awq4_32": Format(32, 18.5),
    "int4_128": Format(128, 66), "int4_64": Format(64, 34), "int4_32": Format(32, 18), "int8_128": Format(128, 130),
    "fp8_128": Format(16384, 16388), "nf4": Format(64, 36), "nf4_nested": Format(16384, 8452),
    "mlx2": Format(64, 20), "mlx3": Format(64, 28), "mlx4": Format(64, 36), "mlx5": Format(64, 44),
    "mlx6": Format(64, 52), "mlx8": Format(64, 68), "mlx4_32": Format(32, 20), "mlx8_32": Format(32, 36),
}  # fmt: skip
"""Format -> its blocks."""

PLAIN = {
    0: "float32", 1: "float16", 24: "int8", 25: "int16", 26: "int32", 27: "int64", 28: "float64", 30: "bfloat16"
}  # fmt: skip
"""Number of a type in a GGUF file -> dtype, of types without blocks."""

GGML = PLAIN | {one.ggml: name for name, one in FORMATS.items() if one.ggml >= 0}
"""Number of a type in a GGUF file -> dtype."""


_FLOATS = ("float32", "float16", "bfloat16")
_BOTH = ("mxfp4", "nvfp4")

IN_GGUF = frozenset((*_FLOATS, *(name for name, one in FORMATS.items() if one.ggml >= 0)))
"""Formats of weights that programs around llama.cpp load; those of safetensors files must be converted."""

IN_SAFETENSORS = frozenset((*_FLOATS, *_BOTH, "float8", "int8", "int4", *(FORMATS.keys() - IN_GGUF)))
"""Formats of weights that vLLM and transformers load; they read blocks of ggml slowly or not at all."""


def bytes_of(dtype: str) -> float:
    """Bytes of one number of a format, its share of the block's scales included.

    >>> bytes_of("q4_0")
    0.5625
    """
    return FORMATS[dtype].bytes / FORMATS[dtype].elements
