"""A simulated all-reduce of float16 over the eight A100 of ``8gpu-node`` beside NCCL's.

    python studies/data_parallel/nccl.py --json nccl.json    # a second

Times of NCCL 2.27.3 on eight A100 SXM4 are from NVIDIA's aiconfigurator (Apache-2.0).
"""

from __future__ import annotations

import sys
from pathlib import Path

import hetgym
from hetgym.graph.transforms import collective

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show  # noqa: E402

RANKS = 8
NCCL = {1 << 17: 27.41e-6, 1 << 21: 53.70e-6, 1 << 24: 216.5e-6, 1 << 26: 595.3e-6, 1 << 29: 4225.9e-6}
"""Bytes -> seconds."""


def simulated(size: int) -> float:
    """Time of a ring under ``links`` [s]."""
    made = collective("all-reduce", RANKS, size // 2, "float16")
    problem = hetgym.Problem.build(made.graph, hetgym.load_platform("8gpu-node"))
    plan = hetgym.Schedule(made.assignment(list(range(RANKS))), priority=made.priority)
    return hetgym.simulate(problem, plan, "links").makespan


def main() -> None:
    options = command_line(__doc__).parse_args()
    rows = [{"bytes": size, "nccl": known, "simulated": simulated(size)} for size, known in NCCL.items()]
    show(
        "Simulated time over NCCL's",
        rows,
        {
            "size": lambda row: f"{row['bytes'] >> 20} MiB" if row["bytes"] >> 20 else f"{row['bytes'] >> 10} KiB",
            "NCCL": lambda row: f"{1e6 * row['nccl']:.3g} us" if row["nccl"] < 1e-3 else f"{1e6 * row['nccl']:.0f} us",
            "simulated over NCCL": lambda row: f"{row['simulated'] / row['nccl']:.2f}",
        },
        "all-reduce",
    )
    save(options.json, "nccl", rows)


if __name__ == "__main__":
    main()
