"""Names of formats of weights as people write them: mixes of llama.cpp, methods of quantised files, dtypes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hetgym.errors import GraphError, shown, unknown_name
from hetgym.graph.formats import FORMATS
from hetgym.graph.language_model import LanguageModel
from hetgym.graph.mixes import MIXES, mixed
from hetgym.graph.ops import DTYPE_BYTES
from hetgym.graph.quantised_config import read_quantisation


def _linear(bits: int, kind: str = "int", **more: Any) -> dict[str, Any]:
    """Matrices of layers as compressed-tensors packs them."""
    group = {"targets": ["Linear"], "weights": {"num_bits": bits, "type": kind, **more}}
    return {"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {"group": group}}


METHODS: dict[str, Mapping[str, Any]] = {
    "awq": {"quant_method": "awq"}, "gptq": {"quant_method": "gptq"}, "gptq8": {"quant_method": "gptq", "bits": 8},
    "int4": _linear(4, group_size=128), "int8": _linear(8), "fp8": _linear(8, "float"),
    "nvfp4": _linear(4, "float", group_size=16), "mxfp4": {"quant_method": "mxfp4"},
    "nf4": {"quant_method": "bitsandbytes"},
    **{f"mlx{bits}": {"bits": bits, "group_size": 64} for bits in (2, 3, 4, 5, 6, 8)},
}  # fmt: skip
"""Method -> what a ``config.json`` with its usual settings states."""

SAME = {
    "awq4": "awq", "gptq4": "gptq", "w4a16": "int4", "w8a8": "int8", "w8a16": "int8", "8bit": "int8", "float8": "fp8",
    "bnb4bit": "nf4", "4bit": "nf4", "fp16": "f16", "fp32": "f32", "q2": "q2_k", "q3": "q3_k_m", "q4": "q4_k_m",
    "q5": "q5_k_m", "q6": "q6_k", "q8": "q8_0", "q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m",
    **{f"mlx{bits}bit": f"mlx{bits}" for bits in (2, 3, 4, 5, 6, 8)},
}  # fmt: skip
"""Name of a format in lower case without hyphens -> the name that it stands for."""

_LOOSE = ("4bit", "8bit", "q2", "q3", "q4", "q5", "q6", "q8", "q3_k", "q4_k", "q5_k")  # these name several formats
_UNRULY = re.compile(r"(?:ud[-_])?(i?q\d_[a-z0-9_]+?|tq\d_\d)(?:_x?l)?")


def quantised(model: LanguageModel, quant: str) -> LanguageModel:
    """A copy of a model whose weights have a format.

    Files named ``UD-`` or ``XL`` follow no rule: the nearest mix stands for them, and a note of the model says so.

    Args:
        model: the model; weights that it has packed are unpacked first.
        quant: a mix of :data:`~hetgym.graph.mixes.MIXES`, a method of :data:`METHODS`, or a dtype of all weights; in
            any case, with or without hyphens.

    Raises:
        UnknownName: there is no such format.
        GraphError: MXFP4 for a model without experts.
    """
    written = quant.strip().lower()
    name = written.replace("-", "") if not written.startswith("ud") else written
    note = f"{quant} names several formats: that of {SAME[name].upper()} is taken." if name in _LOOSE else ""
    name = SAME.get(name, name)
    unruly = _UNRULY.fullmatch(name)
    if unruly and name.upper() not in MIXES and (name.endswith("l") or name.startswith("ud")):
        nearest = [mix for end in ("", "_M", "_0") if (mix := _base(unruly[1]) + end) in MIXES]
        if nearest:
            note = f"{quant} follows no rule: {nearest[-1]} stands for it; give the GGUF file for the exact sizes."
            name = nearest[-1].lower()
    found = _in_format(model, name)
    if found is None:
        raise unknown_name("format of weights", quant, [*MIXES, *METHODS, *DTYPE_BYTES])
    return replace(found, notes=(*found.notes, note)) if note else found


def _base(name: str) -> str:
    """The name of a mix without the last letter of Q8_K, whose mix is Q8_0."""
    return name.upper().replace("Q8_K", "Q8")


def _in_format(model: LanguageModel, name: str) -> LanguageModel | None:
    if name.upper() in MIXES:
        return mixed(model, name.upper())
    if name in METHODS:
        if name == "mxfp4" and not model.experts:
            raise GraphError(f"{shown(model.name)} has no experts, which MXFP4 packs; use another format")
        plain = {w.name: "bfloat16" if w.dtype in FORMATS else w.dtype for w in model.weights}
        return model.formatted(plain | read_quantisation(METHODS[name], name).dtypes(model))
    return model.cast(name) if name in DTYPE_BYTES else None
