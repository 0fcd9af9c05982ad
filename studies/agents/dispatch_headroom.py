"""What planned-dispatch would gain by longer searches for its plans, and by playing its decisions to the end.

    python studies/agents/dispatch_headroom.py tries --first 960000
    python studies/agents/dispatch_headroom.py ahead --first 970000

*tries* gives the environment more changes of the plan for each decision. *ahead* plays each of the best actions, by the
rule, to the end of the run several times before each decision: what has not begun runs with noise that is drawn anew,
the rule takes all later decisions, and its plan is improved on the way, as in the run. An action other
than the rule's is taken if its mean makespan is less by a standard error of the paired differences. No device slows
down there, since the copies would know which. Whatever a policy learns of the values of the rule's actions, this sees
without error of the approximation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hetgym
from hetgym.envs import DISPATCH_CANDIDATE_FEATURES, HetDispatchEnv
from hetgym.envs.core.autoreset import make_lanes
from hetgym.sim.progress import RUNNING
from hetgym.workloads import RandomMix

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _agents import play  # noqa: E402
from _common import command_line, save, show  # noqa: E402
from agents_dispatch import PLATFORMS, ZOO, paired  # noqa: E402

NOISE = 0.2

CONDITIONS: dict[str, Any] = {"observation": "candidates", "noise": NOISE, "runtime": "links"}


class Copies:
    """Runs of one episode side by side."""

    def __init__(self, count: int, tries: int) -> None:
        self.count = count
        self.lanes: Any = make_lanes("HetDispatch-v0", count, tries=tries, **CONDITIONS)
        names = [feature.name for feature in DISPATCH_CANDIDATE_FEATURES]
        self._weights = np.zeros(len(names), np.float32)
        for name, weight in {"completion": 1.0, "flow": 0.3, "is_wait": -1e-5}.items():
            self._weights[names.index(name)] = weight

    def begin(self, problem: hetgym.Problem, conditions: int, actions: Sequence[int] = ()) -> None:
        """Begin the episode in every copy, and take its first actions."""
        for lane in range(self.count):
            options = {"problem": problem, "conditions": conditions}
            self.lanes.prepare(lane, np.random.default_rng(0), options, None)
        self.lanes.open()
        for action in actions:
            self.step(np.full(self.count, action))

    def step(self, actions: Any) -> None:
        """Take an action in every copy that is not over."""
        self.lanes.step(np.asarray(actions, np.int64), ~self.lanes.over)

    def ranked(self) -> list[int]:
        """The legal actions of the first copy, from the least value of the rule on."""
        return np.argsort(self._values()[0], kind="stable")[: int(self.lanes.mask[0].sum())].tolist()

    def finish(self) -> Any:
        """Leave all further decisions to the rule; returns the copies' makespans [s]."""
        while not self.lanes.over.all():
            self.step(np.argmin(self._values(), axis=1))
        return np.array([self.lanes.trace(lane).finish.max() for lane in range(self.count)])

    def redraw(self, factors: Any) -> None:
        """Give what has not begun other noise: factors [copies, n] of run times."""
        for lane in range(self.count):
            run = self.lanes._runs[lane]
            later = run.status < RUNNING
            run.factor[later] = factors[lane, later]

    def _values(self) -> Any:
        return np.where(self.lanes.mask, self.lanes.seen["candidates"] @ self._weights, np.inf)


def ahead(first: int, count: int, actions: int, draws: int, tries: int) -> list[dict[str, Any]]:
    """Makespans of the rule and of play to the end before each decision, over the reference, on random problems."""
    alone, real, copies = Copies(1, 300), Copies(1, 300), Copies(actions * draws, tries)
    rule, played, changed, decisions = [], [], 0, 0
    for seed in range(first, first + count):
        problem, rng = RandomMix()(np.random.default_rng(seed)), np.random.default_rng([seed, 1])
        conditions, taken = int(rng.integers(2**62)), []
        alone.begin(problem, conditions)
        real.begin(problem, conditions)
        reference = real.lanes.instance(0).reference
        rule.append(float(alone.finish()[0]) / reference)
        while not real.lanes.over.all():
            ranked = real.ranked()[:actions]
            best = ranked[0]
            if len(ranked) > 1:
                copies.begin(problem, conditions, taken)
                copies.redraw(
                    np.tile(np.exp(NOISE * rng.standard_normal((draws, problem.num_operators))), (actions, 1))
                )
                copies.step(np.repeat(np.resize(ranked, actions), draws))
                ends = copies.finish().reshape(actions, draws)[: len(ranked)]
                more = ends - ends[0]
                least = int(np.argmin(more.mean(axis=1)))
                if more[least].mean() < -more[least].std() / draws**0.5:
                    best = ranked[least]
            changed, decisions = changed + (best != ranked[0]), decisions + 1
            taken.append(best)
            real.step([best])
        played.append(float(real.finish()[0]) / reference)
        print(f"{seed}: {len(taken)} decisions, {rule[-1]:.4f} -> {played[-1]:.4f}", flush=True)
    what = {"what": "ahead", "actions": actions, "draws": draws}
    return [what | {"rule": rule, "played": played, "changed": changed, "decisions": decisions}]


def more_tries(
    first: int, episodes: int, zoo: int, platforms: Sequence[str], factors: Sequence[int]
) -> list[dict[str, Any]]:
    """Makespans over the reference with more tries for each decision."""
    policy, rows = hetgym.agents.rule("planned-dispatch"), []
    sets: dict[str, tuple[dict[str, Any], int]] = {"random, `links`": ({}, episodes)} if episodes else {}
    sets |= {
        f"networks, `{name}`": ({"graph": list(ZOO), "platform": name}, zoo * len(ZOO))
        for name in (platforms if zoo else ())
    }
    for title, (arguments, count) in sets.items():
        row: dict[str, Any] = {"problems": f"{title} ({count})", "what": "tries", "ratios": {}}
        for factor in (1, *factors):
            tries = factor * policy.arguments["tries"]
            env = HetDispatchEnv(**CONDITIONS, **arguments, slow_downs=1, tries=tries)
            infos = [play(env, policy, seed) for seed in range(first, first + count)]
            row["ratios"][str(tries)] = [info["makespan"] / info["reference"] for info in infos]
        rows.append(row)
    return rows


def show_tries(rows: list[dict[str, Any]]) -> None:
    """The table of *tries*."""
    base, *more = rows[0]["ratios"]

    def ratio(row: dict[str, Any], tries: str) -> str:
        mean, interval = paired([row["ratios"][tries]], [row["ratios"][base]])
        return "{:.3f} ({:.3f} to {:.3f})".format(mean, *interval)

    columns: dict[str, Any] = {"problems": lambda row: row["problems"]}
    columns |= {f"{tries} tries instead of {base}": lambda row, tries=tries: ratio(row, tries) for tries in more}
    show("What more tries a decision add to planned-dispatch", rows, columns, "headroom")


def show_ahead(rows: list[dict[str, Any]]) -> None:
    """The table of *ahead*."""
    rule, played = ([value for row in rows for value in row[name]] for name in ("rule", "played"))
    mean, interval = paired([played], [rule])
    changed = sum(row["changed"] for row in rows) / sum(row["decisions"] for row in rows)
    columns: dict[str, Any] = {
        "problems": lambda row: f"random, `links` ({len(rule)})",
        "actions": lambda row: str(row["actions"]),
        "times": lambda row: str(row["draws"]),
        "over planned-dispatch": lambda row: "{:.3f} ({:.3f} to {:.3f})".format(mean, *interval),
        "decisions changed": lambda row: f"{changed:.0%}",
    }
    show("What playing the best actions to the end adds to planned-dispatch", rows[:1], columns, "ahead")


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("what", choices=["tries", "ahead"])
    parser.add_argument("--first", type=int, default=0, help="seed of the first episode")
    parser.add_argument("--episodes", type=int, default=100, help="of random problems in *tries*")
    parser.add_argument("--zoo", type=int, default=6, help="of each network on each platform in *tries*")
    parser.add_argument("--platforms", nargs="+", default=PLATFORMS, help="of the networks")
    parser.add_argument("--factors", type=int, nargs="+", default=[2, 4, 16], help="times as many tries")
    parser.add_argument("--count", type=int, default=32, help="episodes in *ahead*")
    parser.add_argument("--actions", type=int, default=6, help="actions that are played to the end")
    parser.add_argument("--draws", type=int, default=8, help="times that each of them is played, with other noise")
    parser.add_argument("--tries", type=int, default=100, help="changes of the plan for each decision of the copies")
    parser.add_argument("--join", type=Path, nargs="*", default=[], help="files of earlier runs instead of a run")
    options = parser.parse_args()
    rows = [row for path in options.join for row in json.loads(path.read_text())["rows"]]
    if not rows and options.what == "tries":
        rows = more_tries(options.first, options.episodes, options.zoo, options.platforms, options.factors)
    elif not rows:
        rows = ahead(options.first, options.count, options.actions, options.draws, options.tries)
    (show_tries if options.what == "tries" else show_ahead)(rows)
    save(options.json, "dispatch-headroom", rows)


if __name__ == "__main__":
    main()
