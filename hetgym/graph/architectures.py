"""Architectures of language models: the weights and the cache of each layer, by the keys of ``config.json``.

An architecture is how a layer attends and how it feeds forward; :data:`ARCHITECTURES` composes them. Weights have the
names of GGUF files.

Notes:
    Keys and layers: ``src/transformers/models/*/configuration_*.py`` and ``modeling_*.py`` of Hugging Face's
    transformers. Recurrent states: ``src/llama-hparams.cpp`` of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hetgym.errors import GraphError, shown
from hetgym.graph.language_model import Layer, Weight

LARGEST = 1 << 24  # of a size: published models have up to 262 208 words and layers 53 248 wide
MOST_LAYERS = 1000
MOST_EXPERTS = 4096


class Keys:
    """The numbers of a configuration; a missing one is collected in ``missing``, and 1 stands for it."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        self.config, self.where = config, where
        self.missing: list[str] = []

    def whole(self, *names: str, default: int | None = None, low: int = 1, most: int = LARGEST) -> int:
        """The first of some keys that is stated, a whole number; ``default`` if none is.

        Raises:
            GraphError: not a whole number from ``low`` to ``most``.
        """
        for name in names:
            value = self.config.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= most:
                raise GraphError(f"{self.where}: {name} is {shown(value)}; it must be a whole number, {low} to {most}")
            return value
        if default is None:
            self.missing.append(names[0])
            return max(1, low)
        return default

    def flag(self, name: str, default: bool = False) -> bool:
        """A key that is true or false; ``default`` if it is not stated."""
        value = self.config.get(name)
        if value is not None and not isinstance(value, bool):
            raise GraphError(f"{self.where}: {name} is {shown(value)}; it must be true or false")
        return default if value is None else value

    def wholes(self, name: str) -> tuple[int, ...]:
        """A key that is a list of whole numbers; empty if it is not stated."""
        value = self.config.get(name) or ()
        if not isinstance(value, list | tuple) or not all(type(x) is int for x in value):
            raise GraphError(f"{self.where}: {name} is {shown(value)}; it must be a list of whole numbers")
        return tuple(value)

    def words(self, name: str) -> tuple[str, ...]:
        """A key that is a list of texts; empty if it is not stated."""
        value = self.config.get(name) or ()
        if not isinstance(value, list | tuple) or not all(isinstance(x, str) for x in value):
            raise GraphError(f"{self.where}: {name} is {shown(value)}; it must be a list of texts")
        return tuple(value)

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.whole("hidden_size", "n_embd")

    @property
    def layers(self) -> int:
        """Number of layers."""
        return self.whole("num_hidden_layers", "n_layer", most=MOST_LAYERS)

    @property
    def heads(self) -> int:
        """Heads of queries."""
        return self.whole("num_attention_heads", "n_head", most=1 << 16)

    @property
    def head_size(self) -> int:
        """Numbers of a head: ``head_dim``, else its share of the hidden size."""
        stated = self.config.get("head_dim")
        if stated is None and self.hidden % self.heads and not self.missing:
            raise GraphError(
                f"{self.where}: {self.heads} heads do not divide hidden_size {self.hidden}; state head_dim"
            )
        return self.whole("head_dim", default=max(1, self.hidden // self.heads))


Part = Callable[[Keys, str, int], Layer]  # keys, prefix of names, number of the layer -> the weights of a part


class Architecture(NamedTuple):
    """How the layers of a family attend and feed forward."""

    attention: Part
    feed: Part
    norms: int = 2  # norms of a layer beside those of its parts
    bias: bool = False  # whether norms have a bias
    tied: bool = False  # whether the table of words scores words unless the configuration says otherwise
    needs: tuple[str, ...] = ()  # keys for which the family's default is another model's number


def matrix(name: str, rows: int, columns: int, bias: bool = False) -> list[Weight]:
    """The weight of a product, and its bias."""
    return [Weight(f"{name}.weight", (rows, columns)), *([Weight(f"{name}.bias", (rows,))] if bias else [])]


def norm(name: str, size: int, bias: bool = False) -> list[Weight]:
    """The weight of a norm, and its bias."""
    return [Weight(f"{name}.{part}", (size,)) for part in ("weight", "bias")[: 1 + bias]]


def layer_kinds(keys: Keys, count: int) -> tuple[str, ...]:
    """``full_attention``, ``sliding_attention`` or ``linear_attention`` for each layer.

    Raises:
        GraphError: ``layer_types`` has another length, or names another kind.
    """
    family, full, sliding = keys.config.get("model_type"), "full_attention", "sliding_attention"
    stated = keys.words("layer_types")
    if stated:
        if len(stated) != count:
            raise GraphError(f"{keys.where}: layer_types has {len(stated)} entries for {count} layers")
        odd = [kind for kind in stated if kind not in (full, sliding, "linear_attention")]
        if odd:
            raise GraphError(f"{keys.where}: unknown kind of layer {shown(odd[0])} in layer_types")
        return stated
    if family in ("gemma2", "gemma3", "gemma3_text"):
        every = 2 if family == "gemma2" else keys.whole("sliding_window_pattern", default=6)
        return tuple(full if (i + 1) % every == 0 else sliding for i in range(count))
    if family == "gpt_oss":
        return tuple(full if i % 2 else sliding for i in range(count))
    if family in _HYBRID:
        every = keys.whole("full_attention_interval", default=4)
        return tuple(full if (i + 1) % every == 0 else "linear_attention" for i in range(count))
    if str(family).startswith("qwen"):
        first = keys.whole("max_window_layers", default=0, low=0) if keys.flag("use_sliding_window") else count
        return tuple(full if i < first else sliding for i in range(count))
    return (sliding if keys.config.get("sliding_window") is not None else full,) * count


_HYBRID = ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")


def heads_attention(
    qkv_bias: bool | str = False, out_bias: bool | str = False, norms: bool = False, fused: bool = False,
    sinks: bool = False, gate: bool = False,
) -> Part:  # fmt: skip
    """Attention with grouped heads; a bias may be a key of the configuration that states it."""

    def part(keys: Keys, at: str, i: int) -> Layer:
        h, a, d = keys.hidden, keys.heads, keys.head_size
        k = keys.whole("num_key_value_heads", default=a, most=1 << 16)
        if a % k:
            raise GraphError(f"{keys.where}: {k} heads of keys and values do not divide {a} heads")
        bias, out = (keys.flag(x) if isinstance(x, str) else x for x in (qkv_bias, out_bias))
        if fused:
            weights = matrix(f"{at}attn_qkv", (a + 2 * k) * d, h, bias)
        else:
            weights = matrix(f"{at}attn_q", a * d * (1 + gate), h, bias)
            weights += [w for name in "kv" for w in matrix(f"{at}attn_{name}", k * d, h, bias)]
        weights += matrix(f"{at}attn_output", h, a * d, out)
        weights += [w for name in "qk"[: 2 * norms] for w in norm(f"{at}attn_{name}_norm", d)]
        weights += [Weight(f"{at}attn_sinks", (a,))] if sinks else []
        return Layer(tuple(weights), a, k, d, d)

    return part


def hybrid_attention(keys: Keys, at: str, i: int) -> Layer:
    """Attention with gated queries in some layers, gated delta rules, whose state does not grow, in the others."""
    if layer_kinds(keys, keys.layers)[i] != "linear_attention":
        return heads_attention(norms=True, gate=True)(keys, at, i)
    h = keys.hidden
    n, groups = (keys.whole(f"linear_num_{x}_heads", most=1 << 16) for x in ("value", "key"))
    own, size = (keys.whole(f"linear_{x}_head_dim") for x in ("value", "key"))
    taps = keys.whole("linear_conv_kernel_dim", most=1 << 10)
    inner, mixed = n * own, n * own + 2 * groups * size
    weights = matrix(f"{at}attn_qkv", mixed, h) + matrix(f"{at}attn_gate", inner, h)
    weights += matrix(f"{at}ssm_alpha", n, h) + matrix(f"{at}ssm_beta", n, h)
    weights += [Weight(f"{at}ssm_conv1d.weight", (mixed, taps))]
    weights += [Weight(f"{at}ssm_dt.bias", (n,)), Weight(f"{at}ssm_a", (n,))]
    weights += norm(f"{at}ssm_norm", own) + matrix(f"{at}ssm_out", h, inner)
    return Layer(tuple(weights), n, state=(taps - 1) * mixed + size * inner)


def latent_attention(keys: Keys, at: str, i: int) -> Layer:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): one latent vector is cached for all heads."""
    h, a, c = keys.hidden, keys.heads, keys.whole("kv_lora_rank")
    nope, rope, own = (keys.whole(x) for x in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    rank, bias = keys.whole("q_lora_rank", default=0), keys.flag("attention_bias")
    if rank:
        weights = matrix(f"{at}attn_q_a", rank, h, bias) + norm(f"{at}attn_q_a_norm", rank)
        weights += matrix(f"{at}attn_q_b", a * (nope + rope), rank)
    else:
        weights = matrix(f"{at}attn_q", a * (nope + rope), h)
    weights += matrix(f"{at}attn_kv_a_mqa", c + rope, h, bias) + norm(f"{at}attn_kv_a_norm", c)
    weights += matrix(f"{at}attn_kv_b", a * (nope + own), c) + matrix(f"{at}attn_output", h, a * own, bias)
    return Layer(tuple(weights), a, 1, c + rope, 0)


def whole_attention(keys: Keys, at: str, i: int) -> Layer:
    """Attention with one product for queries, keys and values, and biases (GPT-2, GPT-NeoX)."""
    h, a = keys.hidden, keys.heads
    weights = matrix(f"{at}attn_qkv", 3 * h, h, True) + matrix(f"{at}attn_output", h, h, True)
    return Layer(tuple(weights), a, a, keys.head_size, keys.head_size)


def falcon_attention(keys: Keys, at: str, i: int) -> Layer:
    """Attention with one head of keys and values, or some in the new architecture of Falcon."""
    h, a, d, bias = keys.hidden, keys.heads, keys.head_size, keys.flag("bias")
    k = 1 if keys.flag("multi_query", True) else a
    if keys.flag("new_decoder_architecture"):
        k = keys.whole("num_kv_heads", default=a, most=1 << 16)
    weights = matrix(f"{at}attn_qkv", (a + 2 * k) * d, h, bias) + matrix(f"{at}attn_output", h, a * d, bias)
    two = keys.flag("new_decoder_architecture") or not keys.flag("parallel_attn", True)
    weights += norm(f"{at}attn_norm_2", h, True) if two else []
    return Layer(tuple(weights), a, k, d, d)


def gated(bias: bool | str = False, fused: bool = False) -> Part:
    """A feed-forward layer whose first product is gated by another."""

    def part(keys: Keys, at: str, i: int) -> Layer:
        h, f = keys.hidden, keys.whole("intermediate_size")
        own = keys.flag(bias) if isinstance(bias, str) else bias
        weights = [] if fused else matrix(f"{at}ffn_gate", f, h, own)
        weights += matrix(f"{at}ffn_up", f * (1 + fused), h, own)
        return Layer(tuple(weights + matrix(f"{at}ffn_down", h, f, own)))

    return part


def plain(bias: bool | str = True) -> Part:
    """A feed-forward layer of two products."""

    def part(keys: Keys, at: str, i: int) -> Layer:
        h = keys.hidden
        f = keys.whole("intermediate_size", "n_inner", "ffn_hidden_size", default=4 * h)
        own = keys.flag(bias) if isinstance(bias, str) else bias
        return Layer(tuple(matrix(f"{at}ffn_up", f, h, own) + matrix(f"{at}ffn_down", h, f, own)))

    return part


def mixture(
    count: str, width: str = "moe_intermediate_size", shared: str = "", shared_gate: bool = False, bias: bool = False
) -> Part:
    """Experts, each for some tokens, shared experts, and dense layers among the layers; arguments are keys."""

    def part(keys: Keys, at: str, i: int) -> Layer:
        names = dict.fromkeys((count, "num_local_experts"))  # transformers 5 writes the second one for some families
        e = keys.whole(*names, default=0 if count == "n_routed_experts" else None, most=MOST_EXPERTS)
        if not e or _dense(keys, i):
            return gated()(keys, at, i)
        h, f = keys.hidden, keys.whole(width)
        most = MOST_EXPERTS if keys.missing else e
        top = keys.whole("num_experts_per_tok", "experts_per_token", most=most)
        weights = matrix(f"{at}ffn_gate_inp", e, h, bias)
        for name, rows, columns in (("gate", f, h), ("up", f, h), ("down", h, f)):
            weights += [Weight(f"{at}ffn_{name}_exps.weight", (e, rows, columns))]
            weights += [Weight(f"{at}ffn_{name}_exps.bias", (e, rows))] if bias else []
        if keys.config.get("model_type") == "deepseek_v3":
            weights += [Weight(f"{at}exp_probs_b.bias", (e,))]
        if shared:
            counted = shared == "n_shared_experts"
            own = keys.whole(shared, default=0 if counted else None, low=0) * (f if counted else 1)
            for name, rows, columns in (("gate", own, h), ("up", own, h), ("down", h, own)) if own else ():
                weights += matrix(f"{at}ffn_{name}_shexp", rows, columns)
            weights += [Weight(f"{at}ffn_gate_inp_shexp.weight", (h,))] if own and shared_gate else []
        return Layer(tuple(weights), top=top)

    return part


def _dense(keys: Keys, i: int) -> bool:
    """Whether a layer of a mixture has no experts."""
    step = keys.whole("decoder_sparse_step", default=1)
    return (
        i in keys.wholes("mlp_only_layers")
        or (i + 1) % step != 0
        or i < keys.whole("first_k_dense_replace", default=0, low=0)
    )


_LLAMA = heads_attention("attention_bias", "attention_bias")
_QWEN3 = heads_attention("attention_bias", "attention_bias", norms=True)
_SHARED = mixture("num_experts", shared="shared_expert_intermediate_size", shared_gate=True)
_DEEPSEEK = Architecture(latent_attention, mixture("n_routed_experts", shared="n_shared_experts"))
_NEXT = Architecture(hybrid_attention, _SHARED, needs=("head_dim",))
_DENSE_NEXT = Architecture(hybrid_attention, gated(), needs=("head_dim",))
_GEMMA3 = Architecture(heads_attention(norms=True), gated(), norms=4, tied=True, needs=("head_dim", "sliding_window"))

ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture(_LLAMA, gated("mlp_bias")),
    "mistral": Architecture(heads_attention(), gated()),
    "mixtral": Architecture(heads_attention(), mixture("num_local_experts", "intermediate_size")),
    "qwen2": Architecture(heads_attention(True), gated()),
    "qwen2_moe": Architecture(heads_attention(True), _SHARED),
    "qwen3": Architecture(_QWEN3, gated(), needs=("head_dim",)),
    "qwen3_moe": Architecture(_QWEN3, mixture("num_experts"), needs=("head_dim",)),
    "qwen3_next": _NEXT, "qwen3_5_moe": _NEXT, "qwen3_5_moe_text": _NEXT,
    "qwen3_5": _DENSE_NEXT, "qwen3_5_text": _DENSE_NEXT,
    "gemma2": Architecture(heads_attention(), gated(), norms=4, tied=True, needs=("head_dim", "sliding_window")),
    "gemma3": _GEMMA3, "gemma3_text": _GEMMA3,
    "phi3": Architecture(heads_attention(fused=True), gated(fused=True)),
    "gpt_oss": Architecture(
        heads_attention(True, True, sinks=True), mixture("num_local_experts", "intermediate_size", bias=True),
        needs=("head_dim", "sliding_window"),
    ),
    "deepseek_v2": _DEEPSEEK, "deepseek_v3": _DEEPSEEK,
    "falcon": Architecture(falcon_attention, plain("bias"), norms=1, bias=True, tied=True),
    "gpt2": Architecture(whole_attention, plain(), bias=True, tied=True),
    "gpt_neox": Architecture(whole_attention, plain(), bias=True),
}  # fmt: skip
"""``model_type`` of a configuration -> its architecture."""
