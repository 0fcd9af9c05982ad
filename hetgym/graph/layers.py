"""Layers of a model, inferred from the names of its operators."""

import re

_LAYER = re.compile(r"^((?:[^./]+\.)*?(?:layers?|blocks?|h)\.\d+)(?![^./])")
_EXPERTS = re.compile(r"\.experts[./]")


def layer_of(operator: str) -> str:
    """The layer to which an operator belongs; empty for those before, after or between the layers.

    A layer is the first part of a name that ends in a number after ``layers``, ``layer``, ``blocks``, ``block`` or
    ``h``, as in the language models of the zoo and in graphs of Hugging Face's modules. An operator may be a layer by
    itself. The operators that
    :func:`~hetgym.graph.transforms.training` adds belong to the layers of the operators and weights that they
    are named after.

    >>> layer_of("layers.3.self_attn.q_proj"), layer_of("decoder.layers.11.mlp.up_proj/backward"), layer_of("lm_head")
    ('layers.3', 'decoder.layers.11', '')
    >>> layer_of("encoder.block.2.layer.1.DenseReluDense.wo.weight/update"), layer_of("transformer.h.0.attn.c_attn")
    ('encoder.block.2', 'transformer.h.0')
    >>> layer_of("blocks.2"), layer_of("layers.3/backward"), layer_of("layers.3x")
    ('blocks.2', 'layers.3', '')
    """
    match = _LAYER.match(operator)
    return match[1] if match else ""


def of_experts(operator: str) -> bool:
    """Whether an operator belongs to the experts of a layer, a few for each token.

    The router does not, nor do shared experts, through which every token passes.

    >>> of_experts("layers.3.mlp.experts.down_proj"), of_experts("model.layers.3.block_sparse_moe.experts.0.w1.linear")
    (True, True)
    >>> of_experts("layers.3.mlp.gate"), of_experts("layers.3.mlp.shared_experts.up_proj")
    (False, False)
    """
    return bool(layer_of(operator)) and _EXPERTS.search(operator) is not None
