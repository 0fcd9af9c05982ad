"""Parts of a module that no plan shows: the names of its weights, and the paths of a language model's modules."""

import os
from collections.abc import Collection

from hetgym.errors import HetgymError
from hetgym.graph import zoo
from hetgym.graph.from_pt2 import saved_weights
from hetgym.graph.model_names import load_language_model, model_names
from hetgym.graph.module_paths import Paths, module_paths

_UNREAD = {
    "gpt2": ("transformer.wpe.weight",),
    "bert_base": tuple(
        f"embeddings.{name}" for name in ("position_embeddings.weight", "position_ids", "token_type_ids")
    ),
    "vit_b16": ("vit.embeddings.cls_token", "vit.embeddings.position_embeddings"),
}
"""Model of the zoo that came from PyTorch -> weights that no operator reads, or that a container of modules reads."""

_GENERATED = "language_model"  # name of the graphs of hetgym.graph.generators.language_model


def known_weights(title: str, model: str | os.PathLike[str] | None) -> list[str] | None:
    """Names of a module's weights, at least of those that no operator of its own reads; None if they are unknown.

    Args:
        title: name of the problem.
        model: name or file of the model, if it is known.

    Raises:
        GraphError: the model is a saved program that cannot be read.
    """
    name = _name(title, model)
    if name.endswith(".pt2"):
        return saved_weights(name)
    return list(_UNREAD[name]) if name in _UNREAD else None


def known_paths(title: str, model: str | os.PathLike[str] | None, operators: Collection[str]) -> Paths | None:
    """Paths of the modules of a language model whose operators are named as hetgym names them; None if unknown."""
    name = _name(title, model)
    per_layer = "embed_per_layer_token_embd" in operators
    if name in zoo.LANGUAGE_MODELS or (model is None and name == _GENERATED):
        mixture = any(".experts." in operator for operator in operators)
        return module_paths("gpt" if "embed_positions" in operators else "mixtral" if mixture else "llama")
    if model is None and name not in model_names():
        return None
    try:
        return module_paths(load_language_model(name).family, per_layer)
    except HetgymError:
        return None


def _name(title: str, model: str | os.PathLike[str] | None) -> str:
    """Name or file of a model: as given, or of the problem's graph without its phase."""
    if model is not None:
        return os.fspath(model)
    return title.partition("@")[0].removesuffix("-decode").removesuffix("-prefill")
