"""Names of language models as people write them: identifiers of the Hub, tags of ollama, names of files.

Owners, words such as ``Instruct`` and separators make no difference; a format in the name is split off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_HOSTS = re.compile(r"^(?:https?://)?(?:hf\.co|huggingface\.co|ollama\.com/library|registry\.ollama\.ai/library)/")
_FORMAT = re.compile(
    r"(?<![a-z0-9.])(ud-i?q\d\w*|i?q\d_\w+|tq\d_\d|bf16|fp?16|fp8|f32|awq|gptq|bnb-4bit|4-?bit|8-?bit|int[48]|w4a16"
    r"|w8a8|nf4|mxfp4|nvfp4)(?![a-z0-9])"
)
_SILENT = (
    "gguf", "instruct", "it", "chat", "hf", "base", "pt", "qat", "mlx", "meta", "dynamic", "latest", "text", "thinking",
    "unsloth", "bnb", "preview", "dwq", "quantized",
)  # fmt: skip


class Written(NamedTuple):
    """What a name says."""

    key: str  # letters, digits and points of the model
    plain: str  # the same without words that all kinds of a model have
    format: str  # of the weights; empty if the name states none
    packed: bool  # whether the name is that of packed files: a tag of ollama, a repository of GGUF files


def written(text: str) -> Written:
    """What a name says.

    >>> written("unsloth/Qwen3-30B-A3B-Instruct-GGUF:Q4_K_M")
    Written(key='qwen330ba3binstructgguf', plain='qwen330ba3b', format='q4_k_m', packed=True)
    """
    name = _HOSTS.sub("", text.strip().lower())
    packed = "gguf" in name or (":" in name and "/" not in name)
    name = name.rsplit("/", 1)[-1].removesuffix(".gguf")
    found = _FORMAT.search(name)
    format = found[1] if found else ""
    if "mlx" in text.lower() and format.endswith("bit"):
        format = f"mlx{format[0]}"
    name = _FORMAT.sub("", name)
    words = [word for word in re.split(r"[^a-z0-9.]+", name) if word]
    return Written("".join(words), "".join(word for word in words if word not in _SILENT), format, packed)


def is_path(text: str) -> bool:
    """Whether a text is a path rather than a name, which has at most an owner before it."""
    return text.startswith((".", "/", "~")) or "\\" in text or _HOSTS.sub("", text).count("/") > 1


def resolve(said: Written, known: Mapping[str, str]) -> list[str]:
    """Names that a written name stands for; if there are several, it is ambiguous.

    Args:
        said: the name.
        known: all names and aliases -> names of models.
    """
    keys: dict[str, set[str]] = {}
    for alias, name in known.items():
        keys.setdefault(written(alias).key, set()).add(name)
    for key in (said.key, said.plain):
        if key in keys:
            return sorted(keys[key])
    if len(said.plain) < 3:
        return []
    return sorted({name for key, names in keys.items() if key.startswith(said.plain) for name in names})
