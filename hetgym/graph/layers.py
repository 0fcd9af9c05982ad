"""Layers of a model, inferred from the names of its operators."""

import re

_LAYER = re.compile(r"^((?:[^./]+\.)*?(?:layers?|blocks?|h)\.\d+)\.")


def layer_of(operator: str) -> str:
    """The layer to which an operator belongs; empty for those before, after or between the layers.

    A layer is the first part of a name that ends in a number after ``layers``, ``layer``, ``blocks``, ``block`` or
    ``h``, as in the language models of the zoo and in graphs of Hugging Face's modules. The operators that
    :func:`~hetgym.graph.transforms.training` adds belong to the layers of the operators and weights that they
    are named after.

    >>> layer_of("layers.3.self_attn.q_proj"), layer_of("decoder.layers.11.mlp.up_proj/backward"), layer_of("lm_head")
    ('layers.3', 'decoder.layers.11', '')
    >>> layer_of("encoder.block.2.layer.1.DenseReluDense.wo.weight/update"), layer_of("transformer.h.0.attn.c_attn")
    ('encoder.block.2', 'transformer.h.0')
    """
    match = _LAYER.match(operator)
    return match[1] if match else ""
