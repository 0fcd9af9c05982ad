"""Planners of training steps: ours beside those of Sailor's repository, all scored by Sailor's simulator.

    python benchmarks/peers_sailor.py --sailor HOME/sailor --python HOME/venv/bin/python --data DIR/sailor

HOME/sailor is a checkout of github.com/eth-easl/sailor (MIT; Strati et al., SOSP 2025), whose folder must have that
name. The Python needs numpy, torch, scipy, pandas, pymetis, einops, transformers and pybind11, and the peers compile
C++ with libjsoncpp; see ``sailor_peer.py``. DIR holds the same profiles as the checkout.

Clusters are the homogeneous and the heterogeneous ones of the authors' scripts (``gpu_trace_scaled.csv`` and
``gpu_trace_heterogeneous_imbalanced.csv``), models those with profiles of both boards, global batches theirs. Each
planner of the checkout gets the profiles and settings that the authors ship for it. Its first plan that fits counts,
as in the authors' ``simulator.py``. ``--limit`` ends a planner.

Our planners get Sailor's rule for the time and the memory of a step as the value of a plan (:class:`Rule`); the table
is made of what Sailor's simulator says of their plans, and names the largest difference between the two. Times of
planning are processor time, children included; what is compiled is compiled before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _common import command_line, save, show
from _sailor import GIB, MEMORY, cluster, layers, plan_of

from hetgym.baselines.parallel import PLANNERS
from hetgym.errors import ConfigError, ProblemError
from hetgym.parallel import FRAMEWORKS, Cluster, Group, ParallelPlan, TrainingProblem, training_step

ZONE = "us-central1-a"
BATCHES = {"OPT-350": 1024, "GPT-Neo-2.7": 2048}
PEERS = ("Sailor", "AMP", "Metis", "FlashFlex", "Varuna", "Piper", "Galvatron", "Atlas", "DTFM")
OURS = ("search", "harp", "sailor", "alpa", "uniform-grid", "pipedream")
ONE_BOARD = ("Varuna", "Piper", "Galvatron", "Atlas")
BUCKET = 5e8
MARGIN = {1: 2e9, 2: 3e9, 4: 3e9}
"""Memory that Sailor's check adds, by tensor degree [byte]."""


class Rule:
    """Sailor's rule for the time of a step, written after ``runtime_simulator.py``, in float32.

    Args:
        folder: profiles, sizes and bandwidths.
        model: name of the model.
    """

    def __init__(self, folder: Path, model: str) -> None:
        info = json.loads((folder / "layers.json").read_text())[model]
        self.costs = layers(folder, model)
        self.bandwidths = json.loads((folder / "multizone_bandwidths_het.json").read_text())[ZONE]
        rows = {
            int(t): [table[str(k)] for k in range(self.costs.layers)] for t, table in info.items() if int(t) in MARGIN
        }
        self.parameters = {t: self._sums([row["params_floats"] for row in table]) for t, table in rows.items()}
        self.stash = {t: self._sums([4.0 * row["act_mem_floats"] for row in table]) for t, table in rows.items()}
        self.handed = [4.0 * row["act_output_floats"] for row in rows[1]]
        self.slots = {
            key: self._sums(passes.forward + passes.backward)
            for key in self.costs.measured
            if (passes := self.costs.passes(*key)) is not None
        }
        self.send = cache(self._send)
        self.reduced = cache(self._reduced)

    @staticmethod
    def _sums(values: Any) -> list[float]:
        return [0.0, *np.cumsum(values).tolist()]

    def _wire(self, a: Group, b: Group) -> list[float]:
        found: list[float] = self.bandwidths[a.pool][str(a.tensor)][ZONE][b.pool][str(b.tensor)][0]
        return found

    def _send(self, size: float, a: Group, b: Group) -> float:
        return size / 1e9 / float(np.polyval(self._wire(a, b), np.log2(size / 1e6)))

    def _reduced(self, size: float, replicas: int, a: Group, b: Group) -> float:
        """Time of all-reduces in buckets over a ring [s]."""
        total = 0.0
        while size > 0:
            total += 2 * (replicas - 1) * self._send(min(size, BUCKET) / replicas, a, b)
            size -= min(size, BUCKET)
        return total

    def seconds(self, plan: ParallelPlan) -> float:
        """Time of a step [s]; inf if it does not fit."""
        batch, depth = plan.micro_batch, plan.depth
        kinds = [tuple(dict.fromkeys(stage.groups)) for stage in plan.stages]
        paths = [
            tuple(dict.fromkeys(zip(a.groups, b.groups, strict=True)))
            for a, b in zip(plan.stages, plan.stages[1:], strict=False)
        ]
        slots, moves, updates, syncs = [], [], [], [0.0]
        for s, stage in enumerate(plan.stages):
            first, end = stage.first, stage.last + 1
            for kind in kinds[s]:
                t = kind.tensor
                state = 24.0 * (self.parameters[t][end] - self.parameters[t][first])
                stash = batch * (self.stash[t][end] - self.stash[t][first])
                if state + stash * (depth - s) + MARGIN[t] > MEMORY[kind.pool] * GIB:
                    return float("inf")
            sums = [self.slots[kind.pool, kind.tensor, batch] for kind in kinds[s]]
            slots.append(max(table[end] - table[first] for table in sums))
            passes = [self.costs.passes(kind.pool, kind.tensor, batch) for kind in kinds[s]]
            updates.append(max(float(found.update[first]) for found in passes if found is not None))
            ahead = behind = 0.0
            if s < depth - 1:
                ahead = max(self.send(self.handed[stage.last] * batch, a, b) for a, b in paths[s])
            if s > 0:
                behind = max(self.send(self.handed[first] * batch, b, a) for a, b in paths[s - 1])
            if s == depth - 1:
                moves.append(2 * behind)
            elif s == 0:
                moves.append(ahead if depth <= 3 else 2 * ahead)
            else:
                moves.append(ahead + behind)
            size = 4.0 * (self.parameters[1][end] - self.parameters[1][first]) / min(4, *(k.tensor for k in kinds[s]))
            pairs = dict.fromkeys(zip(stage.groups, stage.groups[1:], strict=False))
            alone = {(Group(a.pool), Group(b.pool)) for a, b in pairs}
            syncs += [self.reduced(size, plan.replicas, a, b) for a, b in alone]
        longest = max(slot + move for slot, move in zip(slots, moves, strict=True))
        return (plan.micro_batches - 1) * longest + sum(moves) + sum(slots) + max(updates) + max(syncs)


@dataclass(frozen=True)
class BySailor(TrainingProblem):
    """A problem whose plans are valued by Sailor's rule."""

    rule: Rule | None = None

    def value(self, plan: ParallelPlan, limit: float = np.inf) -> float:
        """Time of the step of a plan by Sailor's rule [s], whatever the limit."""
        assert self.rule is not None
        return self.rule.seconds(plan)


def problem_of(folder: Path, model: str, gpus: dict[str, int], rule: Rule) -> BySailor:
    """The problem of a cluster with the given GPUs of each board, four on a node."""
    made = cluster(folder, dict.fromkeys(gpus, 4))
    pools = tuple(replace(pool, nodes=gpus[pool.name] // 4) for pool in made.pools)
    framework = replace(FRAMEWORKS["deepspeed"], context_bytes=min(MARGIN.values()))
    return BySailor(
        layers(folder, model),
        Cluster(name_of(gpus), pools),
        BATCHES[model],
        framework,
        tuple(MARGIN),
        fill=True,
        rule=rule,
    )


def name_of(gpus: dict[str, int]) -> str:
    """Name of a cluster."""
    return " + ".join(f"{count} {board}" for board, count in gpus.items())


def sailors(plan: ParallelPlan) -> dict[str, Any]:
    """A plan in Sailor's form."""
    return {
        "mbs": plan.micro_batch,
        "pipeline_list": [
            {
                "num_stages": plan.depth,
                "layers_per_stage": [list(range(stage.first, stage.last + 1)) for stage in plan.stages],
                "tmp_per_stage": [
                    [[[[group.pool, 4, ZONE]], group.tensor] for group in stage.groups] for stage in plan.stages
                ],
                "dp": [plan.replicas] * plan.depth,
            }
        ],
    }


class Peer:
    """Sailor's code in processes of its own, each of which answers one request."""

    def __init__(self, sailor: Path, python: str, limit: float) -> None:
        self.limit, self.python = limit, python
        self.env = {**os.environ, "SAILOR_PATH": str(sailor.resolve().parent), "PYTHONPATH": str(sailor.resolve())}

    def __call__(self, *request: Any) -> Any:
        """The answer, or an error in its place."""
        script = Path(__file__).with_name("sailor_peer.py").resolve()
        with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
            try:
                found = subprocess.run(
                    [self.python, str(script)],
                    input=json.dumps(request) + "\n",
                    stdout=subprocess.PIPE,
                    stderr=nowhere,
                    text=True,
                    env=self.env,
                    cwd=folder,
                    timeout=self.limit,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return {"error": f"no answer in {self.limit:.0f} s"}
        return json.loads(found.stdout) if found.stdout else {"error": f"ended with code {found.returncode}"}


def theirs(peer: Peer, name: str, model: str, gpus: dict[str, int], problem: BySailor) -> dict[str, Any]:
    """The row of a planner of the checkout."""
    found = peer("plan", name, model, gpus)
    row: dict[str, Any] = {"planner": name, "planning": found.get("seconds"), "note": found.get("error", "")}
    if "step" not in found:
        row["note"] = row["note"] or f"none of its {found['skipped']} plans fits"
        return row
    row |= {"step": found["step"], "used": sum(found["used"].values()), "skipped": found["skipped"]}
    if not found["alike"]:
        row["note"] = "groups across boards or nodes, whose computation the simulator does not count"
    elif "pipeline_list" in found["plan"] and len(found["plan"]["pipeline_list"]) == 1:
        each = found["plan"]["pipeline_list"][0]["dp"][0] * found["plan"]["mbs"]
        samples = -(-problem.global_batch // each) * each
        try:
            row |= by_ours(plan_of(found["plan"], samples), problem)
        except (ConfigError, IndexError) as error:
            row["note"] = f"not expressed: {error}"
    return row


def by_ours(plan: ParallelPlan, problem: BySailor) -> dict[str, Any]:
    """What our simulation says of a plan, with DeepSpeed's figures."""
    step = training_step(plan, problem.costs, problem.cluster, FRAMEWORKS["deepspeed"])
    return {"ours": step.seconds, "fits": step.fits}


def mine(peer: Peer, name: str, model: str, problem: BySailor) -> dict[str, Any]:
    """The row of one of our planners."""
    node = replace(problem.cluster.pools[0], nodes=1)
    PLANNERS[name](replace(problem, cluster=Cluster("compiles", (node,))))
    begin = time.process_time()
    try:
        plan = PLANNERS[name](problem)
    except ProblemError as error:
        return {"planner": f"hetgym {name}", "planning": time.process_time() - begin, "note": str(error)}
    spent = time.process_time() - begin
    answer = peer("score", model, [sailors(plan)])
    if isinstance(answer, dict):
        raise SystemExit(f"Sailor's simulator: {answer['error']}")
    row = {"planner": f"hetgym {name}", "planning": spent, "step": answer[0], "used": plan.gpus, "plan": plan.to_dict()}
    row["rule"] = problem.value(plan)
    return row | by_ours(plan, problem)


def compare(peer: Peer, folder: Path, model: str, gpus: dict[str, int], names: list[str]) -> list[dict[str, Any]]:
    """All rows of a cluster."""
    problem = problem_of(folder, model, gpus, Rule(folder, model))
    rows = [mine(peer, name, model, problem) for name in OURS if name in names]
    rows += [
        theirs(peer, n, model, gpus, problem) for n in PEERS if n in names and (len(gpus) == 1 or n not in ONE_BOARD)
    ]
    for row in rows:
        row |= {"model": model, "cluster": name_of(gpus)}
    print_table(model, gpus, rows)
    return rows


def print_table(model: str, gpus: dict[str, int], rows: list[dict[str, Any]]) -> None:
    """Print the rows of a cluster, and how far the rule is from the simulator."""

    def number(name: str, form: str) -> Any:
        return lambda row: "-" if row.get(name) is None else format(row[name], form)

    columns = {
        "planner": lambda row: row["planner"],
        "planning [s]": number("planning", ".2f"),
        "step by Sailor [s]": number("step", ".3f"),
        "step by hetgym [s]": number("ours", ".3f"),
        "fits by hetgym": lambda row: {True: "yes", False: "no", None: "-"}[row.get("fits")],
        "GPUs": number("used", "d"),
        "skipped": number("skipped", "d"),
        "note": lambda row: row.get("note", ""),
    }
    show(f"{model} on {name_of(gpus)}", sorted(rows, key=lambda row: row.get("step") or np.inf), columns)
    apart = [abs(row["rule"] / row["step"] - 1.0) for row in rows if row.get("step") and "rule" in row]
    print(f"rule beside simulator: at most {max(apart, default=0.0):.1e} apart on {len(apart)} plans", flush=True)


CLUSTERS = {
    "homogeneous": [{"A100-40": 32}, {"A100-40": 80}, {"A100-40": 128}],
    "heterogeneous": [{"A100-40": a, "V100-16": 3 * a} for a in (32, 80, 128)],
}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--sailor", type=Path, required=True, help="checkout of Sailor's repository")
    parser.add_argument("--python", default=sys.executable, help="Python with its dependencies")
    parser.add_argument("--data", type=Path, help="by default the folder sailor in HETGYM_DATA")
    parser.add_argument("--models", nargs="+", default=list(BATCHES), choices=list(BATCHES))
    parser.add_argument("--clusters", nargs="+", default=list(CLUSTERS), choices=list(CLUSTERS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[32, 80, 128], help="numbers of A100")
    parser.add_argument("--planners", nargs="+", default=[*OURS, *PEERS])
    parser.add_argument("--limit", type=float, default=900.0, help="most seconds of a planner")
    options = parser.parse_args()
    folder = options.data or Path(os.environ.get("HETGYM_DATA", "")) / "sailor"
    if not folder.is_dir() or not options.sailor.is_dir():
        sys.exit(f"{folder}, {options.sailor}: no such folder; give --data and --sailor")
    peer = Peer(options.sailor, options.python, options.limit)
    rows = []
    for model in options.models:
        for kind in options.clusters:
            for gpus in CLUSTERS[kind]:
                if gpus["A100-40"] in options.sizes:
                    rows += compare(peer, folder, model, gpus, options.planners)
                    save(options.json, "peers_sailor", rows)


if __name__ == "__main__":
    main()
