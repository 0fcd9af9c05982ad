"""Paths of modules in transformers: where the causal model of a family has its table, its layers and its head.

Notes:
    ``src/transformers/models/*/modeling_*.py`` of Hugging Face's transformers; InternLM2 and EXAONE 3 bring their own
    code in their repositories.
"""

from typing import NamedTuple


class Paths(NamedTuple):
    """Paths of the modules of a family's causal model."""

    words: str = "model.embed_tokens"  # the table of words
    before: tuple[str, ...] = ("model.rotary_emb",)  # other modules and tensors before the layers
    layers: str = "model.layers"  # the list of layers
    norm: str = "model.norm"  # the norm behind them
    head: str = "lm_head"  # the product that scores words
    positions: str = ""  # the table of positions; empty if there is none
    inside: bool = False  # whether modules of a layer have the names that operators of a layer have here

    @property
    def front(self) -> tuple[str, ...]:
        """All that comes before the layers."""
        return (self.words, *((self.positions,) if self.positions else ()), *self.before)


_GPT2 = Paths(
    "transformer.wte", ("transformer.drop",), "transformer.h", "transformer.ln_f", positions="transformer.wpe"
)
_FALCON = Paths("transformer.word_embeddings", ("transformer.rotary_emb",), "transformer.h", "transformer.ln_f")
_NEOX = Paths(
    "gpt_neox.embed_in", ("gpt_neox.emb_dropout", "gpt_neox.rotary_emb"), "gpt_neox.layers",
    "gpt_neox.final_layer_norm",
)  # fmt: skip
_BIGCODE = _GPT2._replace(before=("transformer.drop", "transformer.bias"))  # the bias is a mask
_PHI = Paths(before=("model.rotary_emb", "model.embed_dropout"), norm="model.final_layernorm")
_USUAL = Paths()

_PATHS = {
    "gpt2": _GPT2, "gpt": _GPT2, "gpt_bigcode": _BIGCODE, "starcoder": _BIGCODE,
    "falcon": _FALCON, "gpt_neox": _NEOX, "gptneox": _NEOX, "phi": _PHI, "phi2": _PHI,
    "bloom": _FALCON._replace(before=("transformer.word_embeddings_layernorm",)),
    "exaone": _FALCON._replace(words="transformer.wte", before=("transformer.drop", "transformer.rotary")),
    "internlm2": Paths("model.tok_embeddings", (), head="output"),
}  # fmt: skip
"""Family, by its name in a configuration or a GGUF file -> its paths, where they are not Llama's."""

_ALIKE = (
    "llama", "mistral", "granite", "smollm3", "seed_oss", "ernie4_5", "phi3", "qwen2", "qwen3", "gemma", "gemma2",
    "gemma3_text", "cohere", "cohere2", "olmo2", "olmo3", "exaone4", "stablelm",
)  # fmt: skip
"""Families whose layers consist of the modules that :mod:`.generators.decoder` names."""

_EACH_LAYER = ("model.embed_tokens_per_layer", "model.per_layer_model_projection", "model.per_layer_projection_norm")


def module_paths(family: str, of_each_layer: bool = False) -> Paths:
    """The paths of a family; ``of_each_layer``: whether the model has a table of words of each layer (Gemma).

    >>> module_paths("gpt_neox").layers, module_paths("qwen3").words
    ('gpt_neox.layers', 'model.embed_tokens')
    """
    paths = _PATHS.get(family, _USUAL)._replace(inside=family in _ALIKE)
    return paths._replace(before=(*_EACH_LAYER, *paths.before)) if of_each_layer else paths
