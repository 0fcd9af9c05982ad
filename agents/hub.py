"""Policies as folders in the layout of the Hugging Face Hub: weights, card, and a page with metadata for people.

Nothing is uploaded, and ``huggingface_hub`` is not needed: ``hf upload user/name folder`` publishes the folder, and
``hetgym.agents.load(huggingface_hub.snapshot_download("user/name"))`` reads it again elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hetgym._input.artefacts import save_tensors
from hetgym._input.files import as_path, write_bytes
from hetgym._text import plain
from hetgym.agents import artefact
from hetgym.agents.pretrained import FILES, FOLDER, load, names
from hetgym.errors import ArtefactError, shown

PAGE = "README.md"


def write_hub_folder(policy: str | Path, folder: str | Path, *, name: str | None = None, licence: str = "") -> Path:
    """Write a policy as ``model.safetensors``, ``config.json`` (its card) and ``README.md`` with YAML front matter.

    Equal policies give equal bytes. Files of these names in the folder are replaced, other files are kept.

    Args:
        policy: a shipped policy's name, or the path of a policy; see :func:`hetgym.agents.load`.
        folder: the folder, made if it is missing.
        name: title of the page; the policy's own name or the folder's if it is None.
        licence: identifier of the weights' licence on the Hub, such as ``mit``; none is stated if it is empty.

    Returns:
        The folder, which :func:`hetgym.agents.load` and everything that takes a scheduler's name can read.

    Raises:
        UnknownName: no shipped policy of that name.
        ArtefactError: the policy cannot be read, or the folder cannot be written.

    >>> import tempfile, hetgym
    >>> folder = write_hub_folder("place-v1", tempfile.mkdtemp())
    >>> sorted(path.name for path in folder.iterdir())
    ['README.md', 'config.json', 'model.safetensors']
    >>> hetgym.agents.load(folder).plan(hetgym.workloads.textbook("topcuoglu")).makespan
    73.0
    """
    target = as_path(folder, "a folder", ArtefactError)
    load(policy)  # refuses what is none
    card, weights = _parts(policy)
    title = name or str(card.get("name") or target.resolve().name)
    readme, text = page(card, title, licence).encode(), artefact.card_text(card)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtefactError(f"{target}: no folder can be made there ({error.strerror})") from error
    save_tensors(target / artefact.HUB_WEIGHTS, weights, ArtefactError)
    write_bytes(target / artefact.HUB_CARD, text, ArtefactError)
    write_bytes(target / PAGE, readme, ArtefactError)
    return target


def page(card: Mapping[str, Any], title: str, licence: str = "") -> str:
    """The page of a model: front matter that the Hub reads, then how to load the policy and what its card says.

    Raises:
        ArtefactError: the recipe or the evaluation of the card is not a mapping, or a figure is not finite.
    """
    artefact.check_recipe(card)
    recipe = card.get("recipe", {})
    environment = card.get("env") or recipe.get("env") or "HetSchedule-v0"
    title, environment, scores = plain(title), plain(str(environment)), _scores(card)
    front: dict[str, Any] = {
        "library_name": "hetgym",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["hetgym", "reinforcement-learning", "scheduling", environment],
    }
    if licence:
        front["license"] = licence
    if "return" in scores:
        task = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
        metric = {"type": "mean_reward", "name": "mean return", "value": scores["return"]}
        found = {"task": task, "dataset": {"name": environment, "type": environment}, "metrics": [metric]}
        front["model-index"] = [{"name": title, "results": [found]}]
    lines = [f"# {title}", "", f"A policy for hetgym's `{environment}`.", "", "```python", "import hetgym", ""]
    lines += ['policy = hetgym.agents.load("path/of/this/folder")', "```", ""]
    if recipe.get("description"):
        lines += [plain(f"Trained by `{recipe.get('algorithm')}`: {' '.join(str(recipe['description']).split())}."), ""]
    if scores:
        lines += ["Measured on held-out problems after training (`ratio_x` is the mean makespan relative to `x`):", ""]
        rows = [f"| `{key}` | {value:.4g} |" for key, value in scores.items()]
        lines += ["| figure | value |", "|---|---|", *rows, ""]
    lines += ["`config.json` holds the whole card: the recipe, its seed, and the versions of the libraries."]
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n\n" + "\n".join(lines) + "\n"


def _parts(policy: str | Path) -> tuple[dict[str, Any], artefact.Weights]:
    """Card and weights of a policy that :func:`~hetgym.agents.load` reads."""
    formats = (*(files.form for files in FILES), artefact.NETWORK_FORMAT)
    path = FOLDER / str(policy) if str(policy) in names() else Path(policy)
    if path.name == artefact.HUB_WEIGHTS and (path.parent / artefact.HUB_CARD).exists():
        path = path.parent
    elif path.suffix == ".safetensors":
        if not path.with_suffix(".json").exists():
            return artefact.load(path, artefact.policy_file(*formats))
        path = path.with_suffix("")
    return artefact.load_pair(path, *formats)


def _scores(card: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a card's evaluation; ArtefactError if it is not a mapping, or a figure is not finite."""
    scores = card.get("evaluation", {})
    if not isinstance(scores, dict):
        raise ArtefactError(f"the evaluation of the card is {shown(scores)}, not figures by name")
    figures = {key: value for key, value in sorted(scores.items()) if isinstance(value, int | float)}
    for key, value in figures.items():
        if not abs(value) <= sys.float_info.max:
            raise ArtefactError(f"the evaluation of the card has {shown(key)} = {shown(value)}, not a finite number")
    return {plain(key): float(value) for key, value in figures.items()}
