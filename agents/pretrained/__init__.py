"""Pretrained policies: trained, measured and shipped with the package, by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, overload

from hetgym.agents import candidates
from hetgym.agents.artefact import load_pair
from hetgym.agents.candidates import CandidatePolicy
from hetgym.agents.place import artefact as place
from hetgym.agents.place.planner import PlacePlanner
from hetgym.errors import unknown_name

FOLDER = Path(__file__).parent

CASES: dict[str, tuple[str, ...]] = {
    "place": ("topcuoglu", "arabnejad-barbosa"),
    "dispatch": ("topcuoglu", "arabnejad-barbosa"),
    "split": ("alexnet on even-pair", "squeezenet on core-pair"),
    "pipeline": ("resnet50 on cpu-gpu-npu", "bert_base on cpu-2gpu-nvlink"),
}
"""Kind of decision -> problems whose makespans cards tell; see :func:`replay`."""


def names() -> list[str]:
    """Names of the shipped policies."""
    return sorted(path.stem for path in FOLDER.glob("*.safetensors"))


@overload
def load(name: Literal["place-v1"]) -> PlacePlanner: ...
@overload
def load(name: Literal["dispatch-v1", "split-v1", "pipeline-v1"]) -> CandidatePolicy: ...
@overload
def load(name: str) -> PlacePlanner | CandidatePolicy: ...
def load(name: str) -> PlacePlanner | CandidatePolicy:
    """A shipped policy, ready to plan; it needs no PyTorch.

    Args:
        name: see :func:`names`.

    Returns:
        A :class:`~hetgym.agents.PlacePlanner` for ``place-v1``, a :class:`~hetgym.agents.CandidatePolicy` for the
        others.

    Raises:
        UnknownName: no such policy.

    >>> import hetgym
    >>> planner = hetgym.agents.load("place-v1")
    >>> planner.plan(hetgym.workloads.textbook("topcuoglu")).makespan
    73.0
    """
    if name not in names():
        raise unknown_name("policy", name, names())
    return read(name)


@cache
def read(name: str) -> PlacePlanner | CandidatePolicy:
    """Read a shipped policy's files."""
    card, _ = load_pair(FOLDER / name, place.FORMAT, candidates.FORMAT)
    return (place.load_planner if card["format"] == place.FORMAT else candidates.load_policy)(FOLDER / name)


def replay(policy: PlacePlanner | CandidatePolicy, case: str) -> float:
    """The makespan that a policy gives on one of :data:`CASES` [s], which its card tells too."""
    from hetgym.graph import load_graph
    from hetgym.platform import load_platform
    from hetgym.workloads import textbook

    network, _, platform = case.partition(" on ")
    if isinstance(policy, PlacePlanner):
        return policy.plan(textbook(case)).makespan
    if policy.kind in ("place", "dispatch"):
        makespan = policy.play(problem=textbook(case))["makespan"]
    elif policy.kind == "split":
        makespan = policy.plan(load_graph(network, batch=8), load_platform(platform), costs="roofline").makespan
    else:
        makespan = policy.play(graph=network, platform=platform, costs="roofline")["value"]
    return float(makespan)
