"""``hetgym check-agent``: whether the returns of an agent mean anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hetgym.cli.options import ImportOption, JsonOption, import_files

if TYPE_CHECKING:
    from hetgym.agents.audit import Audit


def check_agent(
    agent: Annotated[str, typer.Argument(help="A policy or rule (see 'hetgym list policies'), or policy.safetensors.")],
    suite: Annotated[
        str | None,
        typer.Option(help="Problems to play: a name or a YAML file; see 'hetgym list suites'. Default: random ones."),
    ] = None,
    episodes: Annotated[int, typer.Option(metavar="N", min=2, max=10_000, help="Episodes of each player.")] = 32,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the first episode.")] = 1_000_000,
    imports: ImportOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check whether the returns of an agent mean anything.

    Plays it beside random legal actions and a greedy rule, and says whether its actions are legal, whether the problems
    are those of its training, whether there is anything to choose, and what its discount does to the return. Exit code
    1 if something makes the returns doubtful.
    """
    import gymnasium as gym

    from hetgym.agents.audit import audit
    from hetgym.agents.pretrained import load
    from hetgym.agents.recipe import Recipe
    from hetgym.agents.rules import RULES, rule
    from hetgym.cli.console import print_json
    from hetgym.envs.core.kinds import IDS

    import_files(imports)
    policy = rule(agent) if agent in RULES else load(agent)
    arguments: dict[str, Any] = {"observation": "candidates"} | policy.arguments
    problems: dict[str, Any] = {"split": "test"} if suite is None else {"suite": suite}
    training = None
    if "recipe" in policy.card and policy.kind in ("place", "dispatch"):
        recipe = Recipe(**policy.card["recipe"])
        training = gym.make(recipe.env, **recipe.environment())
    discount = policy.card.get("recipe", {}).get("settings", {}).get("gamma", 1.0)
    env = gym.make(IDS[policy.kind], **problems, **arguments)
    found = audit(env, policy, training, episodes, seed, discount)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    return 1 if found.findings else 0


def _print(found: Audit) -> None:
    """One screen: returns, what was found of the problems, and the findings."""
    from hetgym.cli.console import print_table, say
    from hetgym.cli.tables import table_of

    table = table_of("player", "return", "±", "illegal actions", left=("player",))
    for name, score in found.scores.items():
        table.add_row(name, f"{score.mean:+.4f}", f"{score.error:.4f}", f"{score.illegal:.1%}")
    print_table(table)
    overlap = "" if found.overlap is None else f", {found.overlap:.0%} of them drawn in training, too"
    played = f"{found.env_id}: {found.episodes} episodes on {found.problems} problems{overlap}"
    steps = f"{found.steps:.0f} steps each, {found.choice:.0%} of them with a choice"
    say(f"{played}; {steps}; the last reward weighs {found.last_weight:.2f}")
    for finding in found.findings:
        say(f"doubtful: {finding}")
    if not found.findings:
        say("nothing makes these returns doubtful")
