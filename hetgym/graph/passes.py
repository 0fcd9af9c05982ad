"""Passes of language models that are known by their numbers: graphs by name, configuration or file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetgym._input.files import is_folder, read_text
from hetgym._input.json import parse
from hetgym.errors import GraphError, shown, suggestion
from hetgym.graph import zoo
from hetgym.graph.assembly import check_batch
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.decoder import PHASES, decoder
from hetgym.graph.json_reader import FORMAT
from hetgym.graph.language_model import cache_formats
from hetgym.graph.model_names import load_language_model, model_names
from hetgym.graph.serialization import LIMIT_BYTES

OPTIONS = (*zoo.OPTIONS, "quant", "cache")
"""Arguments of a pass beside the batch: those of the zoo's language models, and formats of weights and of caches."""

FILES = (".gguf", ".safetensors", ".safetensors.index.json")
"""Ends of names of files that hold a language model."""


def is_language_model(source: str, options: Mapping[str, Any]) -> bool:
    """Whether a source is a language model that is known by its numbers.

    A name that the zoo has, too, is the zoo's, unless an option asks for what the zoo lacks.

    Raises:
        GraphError: a ``.json`` file that is missing or damaged.
    """
    if source in zoo.LANGUAGE_MODELS:
        return source in model_names() and not options.keys().isdisjoint(("quant", "cache"))
    if source in zoo.MODELS:
        return source in model_names() and not options.keys().isdisjoint(OPTIONS)
    if source in model_names() or source.endswith(FILES):
        return True
    return _is_configuration(source) if source.endswith(".json") else is_folder(Path(source))


def _is_configuration(source: str) -> bool:
    """Whether a JSON file states the type of a model."""
    text = read_text(Path(source), LIMIT_BYTES, GraphError)
    if '"model_type"' not in text:
        return False
    document = parse(text, source, GraphError)
    return isinstance(document, Mapping) and "model_type" in document and document.get("format") != FORMAT


def load_pass(source: str, batch: int = 1, **options: Any) -> DataflowGraph:
    """A pass of a language model.

    Args:
        source: see :func:`~hetgym.graph.model_names.load_language_model`.
        batch: number of sequences.
        **options: :data:`OPTIONS`: tokens of a sequence, phase (``forward``, ``prefill`` or ``decode``), format of
            activations, ``quant`` of the weights, ``cache`` of cached keys and values, such as ``q8_0``.

    Raises:
        UnknownName: an unknown phase or format of weights.
        GraphError: an unknown option, one out of range, or an error of a reader.
    """
    for option in options:
        if option not in OPTIONS:
            raise GraphError(f"{source}: no option {option!r}; {suggestion(option, OPTIONS)}")
    quant, cache = options.pop("quant", ""), options.pop("cache", "")
    for what, value in (("quant", quant), ("cache", cache)):
        if not isinstance(value, str):
            raise GraphError(f"{source}: {what} is {shown(value)}; it must be the name of a format")
    model = load_language_model(source, quant)
    found = decoder(model, check_batch(batch), cache=cache_formats(cache) if cache else (), **options)
    phase = options.get("phase", PHASES[0])
    title = model.name if phase == PHASES[0] else f"{model.name}-{phase}"
    return DataflowGraph(found.operators, found.edges, title, found.notes)
