"""Key-value caches of transformers as arguments and results of modules that are imported.

``torch.export`` accepts tensors in containers that are registered as trees. This module registers ``DynamicCache`` and
``EncoderDecoderCache``; their leaves are the keys and values of each layer.
"""

import sys
from typing import Any

from hetgym.errors import GraphError

_CACHES = ("DynamicCache", "EncoderDecoderCache")


def register_caches(torch: Any) -> None:
    """Register the caches of transformers, if that package has been imported; repeated calls do nothing."""
    module = sys.modules.get("transformers.cache_utils")
    tree = torch.utils._pytree
    for name in _CACHES:
        cache = getattr(module, name, None)
        if cache is None or cache in tree.SUPPORTED_NODES:
            continue
        tree.register_pytree_node(
            cache,
            _leaves,
            lambda leaves, context, cache=cache: _cache(module, cache, list(leaves), context),
            flatten_with_keys_fn=lambda held, tree=tree: (
                [(tree.SequenceKey(i), leaf) for i, leaf in enumerate(_leaves(held)[0])],
                _leaves(held)[1],
            ),
            serialized_type_name=f"{cache.__module__}.{name}",
        )


def _leaves(cache: Any) -> tuple[list[Any], Any]:
    """Keys and values of all layers, and what :func:`_cache` needs to put them back: the type of each layer."""
    if hasattr(cache, "self_attention_cache"):
        parts = [_leaves(part) for part in (cache.self_attention_cache, cache.cross_attention_cache)]
        return [leaf for leaves, _ in parts for leaf in leaves], [context for _, context in parts]
    filled = [layer for layer in cache.layers if layer.is_initialized]
    return [leaf for layer in filled for leaf in (layer.keys, layer.values)], [type(layer).__name__ for layer in filled]


def _cache(module: Any, cache: Any, leaves: list[Any], context: Any) -> Any:
    """A cache that holds the leaves themselves; its own constructor would copy them."""
    if cache is module.EncoderDecoderCache:
        first = 2 * len(context[0])
        parts = (leaves[:first], context[0]), (leaves[first:], context[1])
        return cache(*(_cache(module, module.DynamicCache, *part) for part in parts))
    made = cache()
    for number, kind in enumerate(context):
        if kind != "DynamicLayer":
            raise GraphError(f"layer {number} of the cache is a {kind}; expected DynamicLayer, without a window")
        layer = module.DynamicLayer()
        keys, values = leaves[2 * number : 2 * number + 2]
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        made.layers.append(layer)
    return made
