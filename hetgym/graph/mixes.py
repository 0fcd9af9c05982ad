"""Mixes such as Q4_K_M: which format llama.cpp gives each weight of a model that it quantises.

A mix has a base, and better or worse formats for some roles and some layers. Prefer the header of the file where there
is one: the rules have changed over the years, and files named ``UD-``, ``XL`` or ``AD-`` follow none.

Notes:
    ``src/llama-quant.cpp`` of llama.cpp, commit 007dbbf. The mixes of Llama-3.1-8B take the bits that
    ``tools/quantize/README.md`` states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hetgym.errors import check_name
from hetgym.graph.formats import FORMATS
from hetgym.graph.language_model import LanguageModel, Weight


class Place(NamedTuple):
    """Where a weight stands: what a rule asks for."""

    i: int  # number of the layer; of weights of values, their number among these
    total: int  # number of layers, or of weights of values
    shared: int  # heads of queries for each head of keys and values
    experts: int  # experts of the model
    matrix: bool  # whether an importance matrix guides the quantisation


Rule = tuple[str, Callable[[Place], bool]]  # a format, and the places that have it; the first that fits counts


def _always(at: Place) -> bool:
    return True


def _more(at: Place) -> bool:
    """The first and last eighth, and every third between them."""
    eighth = at.total // 8
    return at.i < eighth or at.i >= 7 * at.total // 8 or (at.i - eighth) % 3 == 2


def _grouped(at: Place) -> bool:
    return at.shared >= 4


def _few(at: Place) -> bool:
    """Weights of values that several heads of queries, or several experts, share."""
    return at.shared >= 4 or at.experts >= 4


def _part(whole: int) -> Callable[[Place], bool]:
    return lambda at: at.i < at.total // whole


def _first(number: int) -> Callable[[Place], bool]:
    return lambda at: at.i < number


def _guided(at: Place) -> bool:
    return at.matrix and at.i < at.total // 8


def _unguided(at: Place) -> bool:
    return not at.matrix and at.i < at.total // 8


def _middle(at: Place) -> bool:
    return at.total // 8 <= at.i < 7 * at.total // 8


class Mix(NamedTuple):
    """The rules of a mix; a role without a rule that fits has the base."""

    base: str
    value: tuple[Rule, ...] = ()  # weights of values, also where they are part of a larger one
    output: tuple[Rule, ...] = ()  # the product behind attention
    down: tuple[Rule, ...] = ()  # the last product of a feed-forward layer
    query: tuple[Rule, ...] = ()  # weights of queries and of keys
    wide: tuple[Rule, ...] = ()  # the first products of a feed-forward layer
    experts: tuple[Rule, ...] = ()  # all weights of experts
    head: str = "q6_k"  # the weight that scores words
    table: str = ""  # the table of words that does not score them; empty for the base


def _all(format: str) -> tuple[Rule, ...]:
    return ((format, _always),)


_Q4_IF_GROUPED: tuple[Rule, ...] = (("q4_k", _grouped),)
_SIX: tuple[Rule, ...] = (("q6_k", _more),)


def _small(base: str, value: str, output: str = "", table: str = "q2_k") -> Mix:
    """A mix of one or two bits."""
    down = "iq3_s" if value == "iq3_s" else "q2_k"
    return Mix(
        base, (("q4_k", _few), *_all(value)), _all(output) if output else (), ((down, _part(8)),),
        head="q5_k", table=table,
    )  # fmt: skip


MIXES: dict[str, Mix] = {
    "F32": Mix("float32", head="float32"), "F16": Mix("float16", head="float16"),
    "BF16": Mix("bfloat16", head="bfloat16"),
    "Q2_K": Mix("q2_k", (("q4_k", _grouped), *_all("q3_k")), _all("q3_k"), _all("q3_k")),
    "Q2_K_S": Mix("q2_k", _Q4_IF_GROUPED, (), (("q4_k", _part(8)),)),
    "Q3_K_S": Mix("q3_k"),
    "Q3_K_M": Mix(
        "q3_k", (("q5_k", _first(2)), *_all("q4_k")), _all("q4_k"), (("q5_k", _part(16)), *_all("q4_k")),
    ),
    "Q3_K_L": Mix("q3_k", _all("q5_k"), _all("q5_k"), _all("q5_k")),
    "Q4_0": Mix("q4_0", down=(("q4_1", _guided),)), "Q4_1": Mix("q4_1"),
    "Q5_0": Mix("q5_0", down=(("q5_1", _guided),)), "Q5_1": Mix("q5_1"),
    "Q4_K_S": Mix("q4_k", (("q5_k", _first(4)),), (), (("q5_k", _part(8)),)),
    "Q4_K_M": Mix("q4_k", _SIX, (), _SIX),
    "Q5_K_S": Mix("q5_k"), "Q5_K_M": Mix("q5_k", _SIX, (), _SIX),
    "Q6_K": Mix("q6_k"), "Q8_0": Mix("q8_0", head="q8_0"),
    "IQ4_XS": Mix("iq4_xs", (("q5_k", _grouped),), (), (("q5_k", _unguided),)),
    "IQ4_NL": Mix("iq4_nl", (("q5_k", _grouped),), (), (("q5_k", _unguided),)),
    "IQ3_M": Mix("iq3_s", _all("q4_k"), _all("q4_k"), (("q4_k", _part(8)),)),
    "IQ3_S": Mix("iq3_s", _Q4_IF_GROUPED),
    "IQ3_XS": Mix("iq3_s", _Q4_IF_GROUPED, query=_all("iq3_xxs"), wide=(("iq3_xxs", _middle),)),
    "IQ3_XXS": Mix(
        "iq3_xxs", _Q4_IF_GROUPED, _all("iq3_s"), query=_all("iq2_s"), head="q5_k", table="iq3_s",
    ),
    "IQ2_M": _small("iq2_s", "iq3_s", "iq3_s", "iq3_s"), "IQ2_S": _small("iq2_xs", "iq3_s", "iq3_s", "iq3_s"),
    "IQ2_XS": _small("iq2_xs", "q2_k"), "IQ2_XXS": _small("iq2_xxs", "q2_k"),
    "IQ1_S": _small("iq1_s", "q2_k", "iq2_xxs"), "IQ1_M": _small("iq1_m", "q2_k", "iq2_xxs"),
    "TQ1_0": Mix("tq1_0", table="q4_k"), "TQ2_0": Mix("tq2_0", table="q4_k"),
    "MXFP4_MOE": Mix("q8_0", experts=_all("mxfp4"), head="q8_0"),
}  # fmt: skip
"""Name of a mix -> its rules."""

_VALUES = ("attn_v", "attn_qkv", "attn_kv_b")
_KEPT = ("ffn_gate_inp", "ffn_gate_inp_shexp", "position_embd", "ssm_conv1d")  # as they are; so are norms and vectors
_ROWS_OF_32 = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"} | dict.fromkeys(
    ("q2_k", "q3_k", "tq1_0", "tq2_0"), "q4_0"
)
_EIGHT = ("Q2_K", "Q2_K_S", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "IQ3_M", "IQ3_S", "IQ3_XS", "IQ3_XXS")


def mixed(model: LanguageModel, mix: str, matrix: bool = False) -> LanguageModel:
    """A copy of a model whose weights have the formats of a mix.

    Args:
        mix: a key of :data:`MIXES`, such as ``Q4_K_M``.
        matrix: whether an importance matrix guides the quantisation.

    Raises:
        UnknownName: there is no such mix.
    """
    check_name("mix", mix, MIXES)
    dtypes = {weight.name: _outside(model, weight, MIXES[mix]) for weight in (*model.table, *model.head)}
    names = [w.name for layer in model.layers for w in layer.weights if w.role in _VALUES and _mixes(w)]
    number, experts = {name: k for k, name in enumerate(names)}, model.experts
    for i, layer in enumerate(model.layers):
        shared = layer.heads // layer.kv_heads if layer.kv_heads else layer.heads
        at = Place(i, len(model.layers), shared, experts, matrix)
        for weight in layer.weights:
            own = at._replace(i=number[weight.name], total=len(number)) if weight.name in number else at
            dtypes[weight.name] = _inside(weight, mix, own) if _mixes(weight) else "float32"
    return model.formatted(dtypes)


def _mixes(weight: Weight) -> bool:
    """Whether a weight is quantised: norms, vectors and small matrices are kept."""
    matrix = len(weight.shape) > 1 and weight.name.endswith("weight")
    return matrix and weight.role not in _KEPT and not weight.role.endswith("norm")


def _outside(model: LanguageModel, weight: Weight, mix: Mix) -> str:
    """The format of a weight that belongs to no layer."""
    if not _mixes(weight):
        return "float32"
    columns = weight.shape[-1]
    if weight is model.scoring:
        whole = columns % 256 == 0 and model.family != "falcon"
        return _fitting(mix.head if whole or not mix.head.startswith("q") else "q8_0", columns)
    return _fitting(mix.table or mix.base, columns)


def _inside(weight: Weight, mix: str, at: Place) -> str:
    """The format of a weight of a layer."""
    rules, role = MIXES[mix], weight.role
    found = next((format for format, fits in _rules(rules, role) if fits(at)), rules.base)
    if at.experts == 8 and mix in _EIGHT:
        found = {"attn_k": "q8_0", "attn_v": "q8_0", "attn_output": "q5_k"}.get(role, found)
    if role == "attn_v" and at.total == 80 and found in ("q3_k", "q4_k"):
        found = "q5_k"  # models of 70 billion parameters, whose weights of values are small
    return _fitting(found, weight.shape[-1])


def _rules(mix: Mix, role: str) -> tuple[Rule, ...]:
    if mix.experts and role.endswith("_exps"):
        return mix.experts
    if role in _VALUES:
        return mix.value
    if role in ("attn_q", "attn_k"):
        return mix.query
    if role == "attn_output":
        return mix.output
    if role.startswith("ffn_down"):
        return mix.down
    return mix.wide if role.startswith(("ffn_gate", "ffn_up")) else ()


def _fitting(format: str, columns: int) -> str:
    """The format, or the one that llama.cpp takes in its place for rows that are not whole blocks."""
    blocks = FORMATS.get(format)
    if blocks is None or columns % blocks.elements == 0:
        return format
    if columns % 32:
        return "float16"
    return _ROWS_OF_32.get(format, "iq4_nl" if format.startswith("iq") else format)
