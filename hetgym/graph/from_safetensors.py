"""Import of language models from safetensors files, the files of Hugging Face, by their headers alone."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetgym._input.files import as_path, is_folder, read_text
from hetgym._input.json import noun, parse
from hetgym._sums import summed
from hetgym._text import plain
from hetgym.errors import GraphError, shown, size
from hetgym.graph.formats import FORMATS
from hetgym.graph.from_config import QUANTISED, from_document, read_config
from hetgym.graph.hugging_face_names import Target, target
from hetgym.graph.language_model import LanguageModel
from hetgym.graph.ops import DTYPE_BYTES
from hetgym.graph.safetensors_header import FLOATS, MOST_TENSORS, StoredTensor, read_header

INDEX = "model.safetensors.index.json"
_LARGEST_INDEX = 32 << 20  # [byte]
_MOST_FILES = 1000
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors")
_TOLERANCE = 0.02  # of the bits of a packed weight
_CONTRADICTION = 0.01  # of the size of a model that an index states

PACKED = {
    "g_idx": "gptq", "qzeros": "awq", "qweight": "gptq", "absmax": "nf4", "biases": "mlx", "blocks": "mxfp4",
    "weight_scale_2": "nvfp4", "weight_global_scale": "nvfp4", "weight_packed": "int4",
}  # fmt: skip
"""Part of a packed weight -> begin of the name of the format that is taken where several have as many bits."""


@dataclass
class _Stored:
    """The tensors of a file that are parts of the same weights."""

    module: str
    bytes: int = 0
    numbers: int = 0
    dtypes: set[str] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)

    def add(self, found: Target, tensor: StoredTensor) -> None:
        self.bytes += tensor.bytes
        self.numbers += tensor.size
        self.dtypes.add(tensor.dtype)
        self.parts.add(found.part)


def from_safetensors(path: str | os.PathLike[str]) -> LanguageModel:
    """A language model from the headers of its safetensors files and the ``config.json`` beside them.

    The configuration states the architecture, the headers the formats of the weights. The parts of a packed weight
    (such as ``qweight``, ``qzeros`` and ``scales``) are added up, and the format of :mod:`~hetgym.graph.formats` with
    as many bits is taken. Weights in files that are missing have the formats of the configuration.

    Args:
        path: ``model.safetensors.index.json``, a ``.safetensors`` file, or the folder that holds them.

    Raises:
        GraphError: no ``config.json``, a malformed header, a weight that is missing or has another size than in the
            configuration, a packed weight whose bits no format has, or an index without its files whose
            ``total_size`` contradicts the configuration.
    """
    file = as_path(path, "a language model", GraphError)
    folder = file if is_folder(file) else file.parent
    index, names = _files(file)
    if not (folder / "config.json").is_file():
        raise GraphError(f"{folder / 'config.json'}: no such file; it states the architecture of the model")
    where = str(folder / "config.json")
    document = read_config(folder / "config.json")
    there = [folder / name for name in names if (folder / name).is_file()]
    complete = len(there) == len(names) > 0
    title = plain(folder.resolve().name)
    model = from_document(_unquantised(document) if complete else document, where, title)
    if not there:
        _check_size(index, model, document, str(folder / INDEX if is_folder(file) else file))
        return model
    found = _stored(there, model.family)
    dtypes = {weight.name: weight.dtype for weight in model.weights}
    numbers = {weight.name: weight.size for weight in model.weights}
    missing = set(dtypes)
    for weights, stored in found.items():
        if missing.issuperset(weights):
            missing.difference_update(weights)
            dtypes |= dict.fromkeys(weights, _format(stored, summed(numbers[name] for name in weights), str(folder)))
    if missing and complete:
        first = next(weight.name for weight in model.weights if weight.name in missing)
        raise GraphError(f"{folder}: the files lack {first}, which {where} asks for")
    return model.formatted(dtypes)


def has_safetensors(folder: Path) -> bool:
    """Whether a folder has an index or a file of tensors."""
    return (folder / INDEX).is_file() or next(folder.glob("*.safetensors"), None) is not None


def _files(file: Path) -> tuple[Mapping[str, Any], list[str]]:
    """What an index holds, and the names of the files of a model."""
    if is_folder(file):
        if not (file / INDEX).is_file():
            names = sorted(one.name for one in file.glob("model*.safetensors"))
            return {}, (names or sorted(one.name for one in file.glob("*.safetensors")))[:_MOST_FILES]
        file = file / INDEX
    if file.name.endswith(".json"):
        index = _index(file)
        return index, sorted(set(index["weight_map"].values()))
    shard = _SHARD.fullmatch(file.name)
    if shard is None or not 0 < int(shard[3]) <= _MOST_FILES:
        return {}, [file.name]
    return {}, [f"{shard[1]}-{k + 1:05}-of-{shard[3]}.safetensors" for k in range(int(shard[3]))]


def _index(file: Path) -> Mapping[str, Any]:
    """An index whose names of files are checked."""
    where = str(file)
    index = parse(read_text(file, _LARGEST_INDEX, GraphError), where, GraphError)
    places = index.get("weight_map") if isinstance(index, Mapping) else None
    if not isinstance(places, Mapping) or not 0 < len(places) <= MOST_TENSORS:
        raise GraphError(f"{where}: {noun(index)} without a weight_map, not an index of safetensors files")
    for name in places.values():
        whole = isinstance(name, str) and name.endswith(".safetensors") and re.fullmatch(r"[\w.@+-]{1,255}", name)
        if not whole:
            raise GraphError(f"{where}: weight_map names the file {shown(name)}; it must lie beside the index")
    if len(set(places.values())) > _MOST_FILES:
        raise GraphError(f"{where}: weight_map names more than {_MOST_FILES} files")
    return index  # type: ignore[no-any-return]


def _check_size(index: Mapping[str, Any], model: LanguageModel, document: Mapping[str, Any], where: str) -> None:
    """Compare the size that an index states with that of the configuration; it may hold more than the language model.

    Raises:
        GraphError: they differ by more than a hundredth.
    """
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if type(total) is not int:
        return
    more = any(target(name, model.family) is None for name in index["weight_map"]) or "vision_config" in document
    more = more or any(_layer(name) >= len(model.layers) for name in index["weight_map"])
    low, high = model.bytes * (1 - _CONTRADICTION), model.bytes * (1 + _CONTRADICTION)
    if total < low or (total > high and not more):
        raise GraphError(
            f"{where}: total_size is {total} bytes, but by config.json the weights take {size(model.bytes)}; the two "
            "files belong to different models"
        )


def _layer(name: str) -> int:
    match = re.search(r"(?:layers|h)\.(\d{1,4})\.", name)
    return int(match[1]) if match else -1


def _unquantised(document: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without formats of its weights, which the headers state."""
    kept = {key: value for key, value in document.items() if key not in QUANTISED}
    inner = kept.get("text_config")
    return kept | {"text_config": _unquantised(inner)} if isinstance(inner, Mapping) else kept


def _stored(files: Sequence[Path], family: str) -> dict[tuple[str, ...], _Stored]:
    """GGUF names of weights that are stored side by side -> what the files hold of them."""
    found: dict[tuple[str, ...], _Stored] = {}
    seen: set[str] = set()
    for file in files:
        for name, tensor in read_header(file).items():
            if name in seen:
                raise GraphError(f"{file}: tensor {shown(name)} is in two files of the model")
            seen.add(name)
            place = target(name, family)
            if place is not None:
                found.setdefault(place.weights, _Stored(place.module)).add(place, tensor)
    return found


def _format(stored: _Stored, numbers: int, where: str) -> str:
    """The dtype of weights with that many numbers."""
    (dtype, *others) = stored.dtypes
    if not others and dtype in FLOATS and stored.parts <= {"weight", "bias"}:
        if stored.numbers != numbers:
            raise GraphError(
                f"{where}: {shown(plain(stored.module))} has {stored.numbers} numbers; by config.json it has {numbers}"
            )
        return FLOATS[dtype]
    bits = 8 * stored.bytes / numbers
    hint = next((name for part, name in PACKED.items() if any(part in one for one in stored.parts)), "-")
    widths = {name: 8 * DTYPE_BYTES[name] for name in _candidates(stored.dtypes)}
    best = min(widths, key=lambda name: (round(abs(widths[name] - bits), 9), not name.startswith(hint)))
    if abs(widths[best] - bits) > _TOLERANCE * widths[best]:
        raise GraphError(
            f"{where}: {shown(plain(stored.module))} takes {bits:.3g} bits a weight, as none of the known formats does"
        )
    return best


def _candidates(dtypes: set[str]) -> list[str]:
    """Formats that parts of some dtypes may make up."""
    found = [name for name, one in FORMATS.items() if one.ggml < 0 or name.endswith("fp4")]
    if not any(dtype.startswith("F8_E") and dtype != "F8_E8M0" for dtype in dtypes):
        found.remove("fp8_128")
        return [*found, "float32", "bfloat16", *(["int8"] if "I8" in dtypes else [])]
    return [*found, "float32", "bfloat16", "float8"]
