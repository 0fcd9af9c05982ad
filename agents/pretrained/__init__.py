"""Pretrained policies: trained, measured and shipped with the package, by name."""

from __future__ import annotations

import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any, Literal, overload

from hetgym.agents import candidates
from hetgym.agents.artefact import HUB_CARD, HUB_WEIGHTS, NETWORK_FORMAT, PolicyFiles, read_card, read_policy
from hetgym.agents.candidates import CandidatePolicy, PipelinePolicy, SchedulePolicy, SplitPolicy
from hetgym.agents.lists import dispatcher
from hetgym.agents.lists import planner as lists
from hetgym.agents.lists.dispatcher import ListDispatcher
from hetgym.agents.lists.planner import ListPlanner
from hetgym.agents.place import planner as place
from hetgym.agents.place.planner import PlacePlanner
from hetgym.agents.play import Policy
from hetgym.agents.regions import planner as regions
from hetgym.agents.regions.planner import RegionPlanner
from hetgym.agents.rules import FORMER, rule
from hetgym.agents.splits import planner as splits
from hetgym.agents.splits.planner import SplitPlanner
from hetgym.errors import ConfigError, HetgymWarning, unknown_name

FOLDER = Path(__file__).parent

FILES: tuple[PolicyFiles[Policy], ...] = (
    lists.FILES, dispatcher.FILES, place.FILES, regions.FILES, splits.FILES, candidates.FILES,
)  # fmt: skip
"""The formats of compiled policies."""

CASES: dict[str, tuple[str, ...]] = {
    "place": ("topcuoglu", "arabnejad-barbosa"),
    "dispatch": ("topcuoglu", "arabnejad-barbosa"),
    "split": ("alexnet on even-pair", "squeezenet on core-pair"),
    "pipeline": ("resnet50 on cpu-gpu-npu", "bert_base on cpu-2gpu-nvlink"),
}
"""Kind of decision -> problems whose makespans the cards hold; see :func:`replay`."""


def names() -> list[str]:
    """Names of the shipped policies."""
    return sorted(path.stem for path in FOLDER.glob("*.safetensors"))


@overload
def load(policy: Literal["gnn-dispatch-v1"]) -> ListDispatcher: ...
@overload
def load(policy: Literal["gnn-v1"]) -> ListPlanner: ...
@overload
def load(policy: Literal["place-v1"]) -> PlacePlanner: ...
@overload
def load(policy: Literal["place-v2"]) -> RegionPlanner: ...
@overload
def load(policy: Literal["split-v2"]) -> SplitPlanner: ...
@overload
def load(policy: Literal["pipeline-v1"]) -> PipelinePolicy: ...
@overload
def load(policy: str | Path) -> Policy: ...
def load(policy: str | Path) -> Policy:
    """Load a trained policy, which can plan and act: a shipped one by name, or any other from its file.

    Args:
        policy: see :func:`names`; or the path of a ``.safetensors`` file that ``hetgym train`` wrote, which needs
            PyTorch, or of a compiled policy with its card beside it, which does not; or a folder with either in the
            layout of the Hugging Face Hub (:func:`~hetgym.agents.write_hub_folder`).

    Returns:
        A :class:`~hetgym.agents.ListPlanner` for ``gnn-v1``, a :class:`~hetgym.agents.ListDispatcher` for
        ``gnn-dispatch-v1``, a :class:`~hetgym.agents.PlacePlanner` for ``place-v1``, a
        :class:`~hetgym.agents.RegionPlanner` for ``place-v2``, a :class:`~hetgym.agents.SplitPlanner` for ``split-v2``;
        :class:`~hetgym.agents.Policy` describes the common interface. For a former name of a rule,
        :func:`~hetgym.agents.rule` and a warning.

    Raises:
        UnknownName: no shipped policy of that name.
        ArtefactError: the file is missing, damaged, or not a policy.

    >>> import hetgym
    >>> planner = hetgym.agents.load("place-v1")
    >>> planner.plan(hetgym.workloads.textbook("topcuoglu")).makespan
    73.0
    """
    if not isinstance(policy, str | Path):
        raise ConfigError(f"a policy is loaded by its name or path, not by {type(policy).__name__}")
    if str(policy).endswith(".safetensors"):
        return _read_file(Path(policy))
    if (new := FORMER.get(str(policy))) is not None:
        warnings.warn(f"{policy} is a rule: hetgym.agents.rule({new!r})", HetgymWarning, stacklevel=2)
        return rule(new)
    if str(policy) not in names() and os.path.isdir(policy):
        return _read_pair(Path(policy), Path(policy) / HUB_CARD)
    if str(policy) not in names():
        raise unknown_name("policy", str(policy), names())
    return read(str(policy))


def _read_file(path: Path) -> Policy:
    """A policy of the user's own."""
    if path.name == HUB_WEIGHTS and os.path.exists(path.parent / HUB_CARD):
        return _read_pair(path.parent, path.parent / HUB_CARD)
    if path.with_suffix(".json").exists():
        return _read_pair(path.with_suffix(""), path.with_suffix(".json"))
    from hetgym.agents.network_policy import load_policy

    return load_policy(path)


def _read_pair(path: Path, page: Path) -> Policy:
    """A policy whose card is a file of its own, at ``page``; for ``path`` see :func:`load_pair`."""
    if read_card(page).get("format") != NETWORK_FORMAT:
        return read_policy(path, *FILES)
    from hetgym.agents.network_policy import load_policy

    return load_policy(path)


def card(name: str) -> dict[str, Any]:
    """The card of a shipped policy, which is read without its weights."""
    return read_card(FOLDER / f"{name}.json")


@cache
def read(name: str) -> Policy:
    """Read a shipped policy's files, once in each process."""
    return _read_pair(FOLDER / name, FOLDER / f"{name}.json")


def replay(policy: Policy, case: str) -> float:
    """The makespan of a policy on one of :data:`CASES` [s]; the policy's card holds the same figure."""
    from hetgym.graph import load_graph
    from hetgym.platform import load_platform
    from hetgym.workloads import textbook

    network, _, platform = case.partition(" on ")
    if isinstance(policy, ListPlanner | PlacePlanner | RegionPlanner):
        return policy.plan(textbook(case)).makespan
    if isinstance(policy, SplitPlanner | SplitPolicy):
        return policy.plan(load_graph(network, batch=8), load_platform(platform), costs="roofline").makespan
    if isinstance(policy, SchedulePolicy | ListDispatcher):
        return float(policy.play(problem=textbook(case))["makespan"])
    assert isinstance(policy, CandidatePolicy)
    return float(policy.play(graph=network, platform=platform, costs="roofline")["value"])
