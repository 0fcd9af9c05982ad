"""Formats of the weights of a quantised file, which ``quantization_config`` states in its ``config.json``.

Methods pack the matrices of layers. Norms, vectors, routers and what a list excludes keep the dtype of the file, and so
do the table of words and the head in most methods.

Notes:
    Keys: ``src/transformers/utils/quantization_config.py`` of transformers, ``quant_config.py`` of compressed-tensors,
    the files of ModelOpt, and ``mlx_lm/utils.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hetgym.errors import GraphError, shown, suggestion
from hetgym.graph.formats import FORMATS
from hetgym.graph.hugging_face_names import modules_of
from hetgym.graph.language_model import LanguageModel, Weight
from hetgym.graph.module_patterns import Modules, listed, modules

KEPT = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "llm_int8_skip_modules")
"""Keys of lists of modules that keep their dtype."""

_ROUTERS = ("ffn_gate_inp", "ffn_gate_inp_shexp", "ssm_conv1d")
_NONE = modules((), "")


class Quantisation(NamedTuple):
    """Which weights are packed, and how.

    Args:
        format: of all packed weights without a format of their own; empty for none.
        own: lists of modules, and the formats that they have; empty for the dtype of the file.
        kept: modules that keep the dtype of the file.
        experts: whether only experts are packed.
        head: whether the weight that scores words is packed.
        whole: whether the table of words and routers are packed, too.
    """

    format: str
    own: tuple[tuple[Modules, str], ...] = ()
    kept: Modules = _NONE
    experts: bool = False
    head: bool = False
    whole: bool = False

    def dtypes(self, model: LanguageModel) -> dict[str, str]:
        """The format of each packed weight by name."""
        found: dict[str, str] = {}
        for weight in model.weights:
            if self._packs(weight):
                names = modules_of(weight.name)
                excluded = any(map(self.kept.hold, names))
                stated = [format for listed, format in self.own if any(map(listed.hold, names))]
                format = "" if excluded else stated[0] if stated else self.format
                found |= {weight.name: format} if format else {}
        return found

    def _packs(self, weight: Weight) -> bool:
        """Whether the method packs weights of a role."""
        if len(weight.shape) < 2 or not weight.name.endswith("weight"):
            return False
        if weight.role in ("token_embd", "output"):
            return self.whole or (self.head and weight.role == "output")
        if weight.role == "position_embd" or (weight.role in _ROUTERS and not self.whole):
            return False
        return not self.experts or weight.role.endswith("_exps")


def read_quantisation(how: Mapping[str, Any], where: str) -> Quantisation:
    """Which weights a configuration packs.

    Args:
        how: ``quantization_config`` of a ``config.json``.
        where: the file, for messages.

    Raises:
        GraphError: an unknown method, a format without a name in :data:`~hetgym.graph.formats.FORMATS`, or a list that
            :func:`~hetgym.graph.module_patterns.modules` refuses.
    """
    method = how.get("quant_method") or ("mlx" if "bits" in how and "group_size" in how else None)
    if not isinstance(method, str) or method not in _METHODS:
        raise GraphError(f"{where}: unknown quant_method {shown(method)}; {suggestion(method, _METHODS)}")
    return _METHODS[method](how, where)._replace(kept=listed(how, KEPT, where))


def _grouped(prefix: str, bits: object, group: object, where: str) -> str:
    """The format of whole numbers in groups; the group of a name without one is the usual one."""
    usual = 64 if prefix == "mlx" else 128
    name = f"{prefix}{bits}" + ("" if group == usual and prefix != "int" else f"_{group}")
    if type(bits) is int and group in (None, -1, 0) and bits in (4, 8):
        return f"int{bits}"
    if type(bits) is not int or type(group) is not int or name not in FORMATS:
        raise GraphError(f"{where}: {prefix} with {shown(bits)} bits in groups of {shown(group)} is not supported")
    return name


def _gptq(how: Mapping[str, Any], where: str) -> Quantisation:
    """GPTQ; ``dynamic`` excludes modules behind ``-:``."""
    dynamic = how.get("dynamic") or {}
    if not isinstance(dynamic, Mapping) or any(not str(key).startswith("-:") for key in dynamic):
        raise GraphError(f"{where}: dynamic is {shown(dynamic)}; only modules that it excludes, behind '-:', are read")
    excluded = modules((f"re:{str(key)[2:]}" for key in dynamic), where)
    format = _grouped("gptq", how.get("bits", 4), how.get("group_size", 128), where)
    return Quantisation(format, ((excluded, ""),), head=how.get("lm_head") is True)


def _awq(how: Mapping[str, Any], where: str) -> Quantisation:
    return Quantisation(_grouped("awq", how.get("bits", 4), how.get("group_size", 128), where))


def _mlx(how: Mapping[str, Any], where: str) -> Quantisation:
    """MLX; a key may be a module with bits of its own, or with false."""
    own = []
    for key, value in how.items():
        if isinstance(value, Mapping) or (value is False and "." in key):
            own.append((modules([key], where), _grouped_mlx(value, where) if value else ""))
    return Quantisation(_grouped_mlx(how, where), tuple(own), whole=True)


def _grouped_mlx(how: Mapping[str, Any], where: str) -> str:
    if how.get("mode") in ("mxfp4", "nvfp4"):
        return str(how["mode"])
    return _grouped("mlx", how.get("bits"), how.get("group_size", 64), where)


def _fp8(how: Mapping[str, Any], where: str) -> Quantisation:
    return Quantisation("fp8_128" if how.get("weight_block_size") else "float8")


def _bitsandbytes(how: Mapping[str, Any], where: str) -> Quantisation:
    if how.get("load_in_8bit"):
        return Quantisation("int8")
    return Quantisation("nf4_nested" if how.get("bnb_4bit_use_double_quant") else "nf4")


def _modelopt(how: Mapping[str, Any], where: str) -> Quantisation:
    """ModelOpt of NVIDIA: groups as compressed-tensors has them, or the name of an algorithm."""
    if how.get("config_groups"):
        return _compressed(how, where)
    known = {"FP8": "float8", "NVFP4": "nvfp4", "MXFP4": "mxfp4", "W4A16_AWQ": "int4_128"}
    algorithm = how.get("quant_algo")
    if not isinstance(algorithm, str) or algorithm not in known:
        raise GraphError(f"{where}: unknown quant_algo {shown(algorithm)}; {suggestion(algorithm, known)}")
    return Quantisation(known[algorithm], head=True)


def _compressed(how: Mapping[str, Any], where: str) -> Quantisation:
    """compressed-tensors: groups of modules, each with a format; a class such as Linear names all modules."""
    sparsity = how.get("sparsity_config")
    if isinstance(sparsity, Mapping) and sparsity.get("format") not in (None, "dense"):
        raise GraphError(f"{where}: sparse weights in the format {shown(sparsity.get('format'))} are not supported")
    groups = how.get("config_groups")
    if not isinstance(groups, Mapping) or not 0 < len(groups) <= 64:
        raise GraphError(f"{where}: config_groups is {shown(groups)}; it must have one to 64 groups of modules")
    everywhere, own = "", []
    for group in groups.values():
        targets = group.get("targets") if isinstance(group, Mapping) else None
        if not isinstance(targets, list | tuple) or not all(isinstance(x, str) for x in targets):
            raise GraphError(f"{where}: config_groups has {shown(group)}; a group has a list of targets")
        format = _scheme(group["weights"], where) if group.get("weights") else ""
        named = [target for target in targets if not target.isidentifier() or not target[:1].isupper()]
        everywhere = format if len(named) < len(targets) else everywhere
        own += [(modules(named, where), format)] if named else []
    return Quantisation(everywhere, tuple(own), head=True)


def _scheme(weights: object, where: str) -> str:
    """The format of a group of compressed-tensors."""
    if not isinstance(weights, Mapping):
        raise GraphError(f"{where}: weights of a group are {shown(weights)}; they must state num_bits and type")
    bits, group, kind = weights.get("num_bits"), weights.get("group_size"), weights.get("type", "int")
    if kind == "int":
        return _grouped("int" if weights.get("symmetric", True) else "gptq", bits, group, where)
    if kind == "float" and bits == 8:
        return "fp8_128" if weights.get("strategy") == "block" else "float8"
    found = {16: "nvfp4", 32: "mxfp4"}.get(group) if kind == "float" and bits == 4 and type(group) is int else None
    if not found:
        raise GraphError(f"{where}: {shown(kind)} of {shown(bits)} bits in groups of {shown(group)} is not supported")
    return found


_METHODS: dict[str, Callable[[Mapping[str, Any], str], Quantisation]] = {
    "gptq": _gptq, "awq": _awq, "mlx": _mlx, "fp8": _fp8, "fbgemm_fp8": _fp8, "bitsandbytes": _bitsandbytes,
    "modelopt": _modelopt, "compressed-tensors": _compressed,
    "mxfp4": lambda how, where: Quantisation("mxfp4", experts=True),
}  # fmt: skip
