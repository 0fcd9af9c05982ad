"""Plans of models: what they gain, how far they are from the bound, what limits them, and what each device holds.

    python benchmarks/plans.py --json plans.json     # half a minute

Five models on four machines under ``links``, as ``hetgym plan`` plans them: in order of how many branches they have,
and one that does not fit its GPU. Costs are those of the platforms' models; nothing is run on such machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from _common import command_line, save, show

import hetgym
from hetgym import Problem, Trace
from hetgym._text import duration, percent
from hetgym.baselines import get, lower_bound
from hetgym.bench.plan import device_shares, kind_seconds, lacking, transfers
from hetgym.errors import size

RUNTIME = "links"


class Case(NamedTuple):
    """A model and the machine that it is planned for."""

    model: str
    platform: str
    options: Mapping[str, Any] = {}  # of the model


CASES = (
    Case("resnet50", "cpu-gpu-balanced"),
    Case("gpt2", "cpu-2gpu-nvlink"),
    Case("inception_v1", "cpu-gpu-npu"),
    Case("nasnet", "cpu-gpu-npu"),
    Case("llama-7b", "cpu-gpu", {"sequence": 128, "dtype": "float32"}),
)


def named(trace: Trace) -> str:
    """The time of a run, and the memory that it lacks."""
    lacks = float(lacking(trace).max())
    return duration(trace.makespan) + (f", but lacks {size(lacks)}" if lacks > 0 else "")


def figures(case: Case, budget: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The row of a plan, and a row for each device."""
    graph = hetgym.load_graph(case.model, **case.options)
    problem = Problem.build(graph, hetgym.load_platform(case.platform))
    best = hetgym.simulate(problem, hetgym.plan(problem, RUNTIME, budget), RUNTIME)
    alone, heft = (hetgym.simulate(problem, get(name)(problem, RUNTIME), RUNTIME) for name in ("single-device", "heft"))
    left = 1 - lower_bound(problem, runtime=RUNTIME) / best.makespan
    count, amount = transfers(best)
    kinds, total = list(kind_seconds(best).items())[:3], sum(kind_seconds(best).values())
    row = {
        "model": case.model,
        "platform": case.platform,
        "plan": duration(best.makespan),
        "best single device": named(alone),
        "HEFT": named(heft),
        "single device over plan": "–" if lacking(alone).any() else f"{alone.makespan / best.makespan:.2f}",
        "lower bound": duration(best.makespan * (1 - left)),
        "gap": percent(max(0.0, left)),
        "energy": f"{best.energy.total:.4g} J",
        "limited by": ", ".join(f"{c} {percent(share)}" for c, share in best.blame.shares.items() if share >= 0.0005),
        "edges across devices": f"{count}, {size(amount)}",
        "longest kinds": ", ".join(f"{kind} {percent(spent / total)}" for kind, spent in kinds),
    }
    devices = [
        {
            "model": case.model,
            "device": share.name,
            "operators": str(share.operators),
            "busy": duration(share.busy_seconds),
            "utilised": percent(share.utilisation),
            "weights": size(share.weight_bytes),
            "memory, at most": size(share.peak_bytes),
            "of": "–" if share.capacity_bytes is None else size(share.capacity_bytes),
            "sends": size(share.sent_bytes),
            "receives": size(share.received_bytes),
        }
        for share in device_shares(best)
    ]
    return row, devices


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--models", nargs="+", default=[case.model for case in CASES], help="which to plan")
    parser.add_argument("--budget", default="5s", help="time of each search")
    given = parser.parse_args()
    found = [figures(case, given.budget) for case in CASES if case.model in given.models]
    plans, devices = [row for row, _ in found], [row for _, rows in found for row in rows]
    for title, rows in (("plans", plans), ("devices", devices)):
        show(title, rows, {name: (lambda row, name=name: row[name]) for name in rows[0]})
    save(given.json, "plans", [*plans, *devices])


if __name__ == "__main__":
    main()
