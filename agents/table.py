"""The table of policies and rules that schedule problems; functions are named and not imported."""

from __future__ import annotations

from typing import Any

from hetgym.planning.baseline import Baseline

_CORSINI = "hetgym; self-labelling after Corsini et al., NeurIPS 2024; roll-outs after PEFT"
_LISTS = "hetgym: a graph network, decoded by list scheduling; REINFORCE after Williams, Machine Learning 8, 1992"
_RUNS = "hetgym: a graph network, followed during runs; REINFORCE after Williams, Machine Learning 8, 1992"
_OUTCOMES = "hetgym: region annealing whose regions a network proposes"


_NETWORK = ("torch", "torch_geometric")

EPISODE, ROLLED, PLANNED = 1_000, 10_000, 2_000
"""Operators up to which networks that look at the whole graph before each decision plan within a few minutes; the
dispatch rule, which rolls out each action; and the one that improves a plan before each decision."""


def _row(name: str, function: str, citation: str, complexity: str, **fields: Any) -> Baseline:
    kind = fields.pop("kind", "policy")
    return Baseline(name, kind, f"hetgym.agents.schedulers:{function}", citation, complexity, **fields)


ROWS: tuple[Baseline, ...] = (
    _row(
        "dispatch", "dispatch", "hetgym", "O(n k d (e + n))", kind="rule", aliases={"dispatch-v1": ""}, largest=ROLLED
    ),
    _row(
        "planned-dispatch",
        "planned_dispatch",
        "hetgym",
        "O(n t (e + n)) with t changes a decision",
        kind="rule",
        aliases={"dispatch-v2": ""},
        largest=PLANNED,
    ),
    _row(
        "doppler",
        "doppler",
        "Yao et al., ICLR 2026",
        "O(n (e h + h^2))",
        needs=_NETWORK,
        largest=EPISODE,
        model="links",
    ),
    _row("giph", "giph", "Hu et al., MLSys 2023", "O(n d (n + e) h^2)", needs=_NETWORK, largest=EPISODE, model="links"),
    _row("l2d", "l2d", "Zhang et al., NeurIPS 2020", "O(n (n + e) h^2)", needs=_NETWORK, largest=EPISODE),
    _row("gnn-dispatch-v1", "gnn_dispatch_v1", _RUNS, "O(n d (h^2 + e))"),
    _row("gnn-v1", "gnn_v1", _LISTS, "O(n d (h^2 + e))"),
    _row("place-v1", "place_v1", _CORSINI, "O(n p (e p + h^2))"),
    _row("place-v1-search", "place_v1_search", _CORSINI, "O(trials (e + n))"),
    _row("place-v2", "place_v2", _OUTCOMES, "O(n^2), more where trials end late"),
    _row("place-v2-search", "place_v2_search", _OUTCOMES, "O(trials (e + n))"),
    _row("slim-place", "slim_place", "Corsini et al., NeurIPS 2024", "O(n d h^2)", needs=_NETWORK, model="links"),
    _row(
        "gdp",
        "gdp",
        "Zhou et al., 2019 (arXiv 1910.01578)",
        "O(n d h^2 + n^2 d h)",
        needs=_NETWORK,
        largest=EPISODE,
        model="links",
    ),
    _row("readys", "readys", "Grinsztajn et al., CLUSTER 2021", "O(n d (e + n) h^2)", needs=_NETWORK, largest=EPISODE),
    _row("slim", "slim", "Corsini et al., NeurIPS 2024", "O(n j^2 h)", needs=_NETWORK),
    _row(
        "placeto",
        "placeto",
        "Addanki et al., NeurIPS 2019",
        "O(n d (e + n) h^2)",
        needs=_NETWORK,
        largest=EPISODE,
        model="links",
    ),
    _row(
        "maskable-ppo-graph",
        "maskable_ppo_graph",
        "Huang & Ontanon, FLAIRS 2022",
        "O(n d (e + n) h^2)",
        needs=_NETWORK,
        model="links",
        largest=EPISODE,
    ),
)
