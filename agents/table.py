"""The table of policies that schedule problems: a row for each, in which the function is named and not imported."""

from __future__ import annotations

from hetgym.planning.baseline import Baseline

_CORSINI = "hetgym; self-labelling after Corsini et al., NeurIPS 2024; roll-outs after PEFT"
_OUTCOMES = "hetgym: region annealing whose regions a network proposes"


def _row(name: str, function: str, citation: str, complexity: str) -> Baseline:
    return Baseline(name, "policy", f"hetgym.agents.schedulers:{function}", citation, complexity)


ROWS: tuple[Baseline, ...] = (
    _row("dispatch-v1", "dispatch_v1", "hetgym; PPO: Schulman et al., 2017", "O(n k d (e + n))"),
    _row("dispatch-v2", "dispatch_v2", "hetgym", "O(n t (e + n)) with t changes a decision"),
    _row("place-v1", "place_v1", _CORSINI, "O(n p (e p + h^2))"),
    _row("place-v1-search", "place_v1_search", _CORSINI, "O(trials (e + n))"),
    _row("place-v2", "place_v2", _OUTCOMES, "O(n^2), more where trials end late"),
    _row("place-v2-search", "place_v2_search", _OUTCOMES, "O(trials (e + n))"),
)
