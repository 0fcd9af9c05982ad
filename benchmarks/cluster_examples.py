"""Training steps of language models that ``hetgym cluster`` plans on 64 nodes of eight A100; nothing is measured.

python benchmarks/cluster_examples.py --json examples.json    # seconds
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from typing import Any

from _common import command_line, save, show

from hetgym.baselines.parallel import plan_training
from hetgym.parallel import FRAMEWORKS, SIZES, TrainingProblem, TransformerLayers, load_cluster

PLATFORM = "dgx-a100-64"
FREE = " --framework megatron,zero=any,sequence=any"
STEPS = {
    "GPT-175B, batch 1536": "gpt-175b --global-batch 1536",
    "GPT-175B, batch 1536, interleaved": "gpt-175b --global-batch 1536 --schedule interleaved",
    "Llama-7B, batch 512": "llama-7b --global-batch 512",
    "Llama-7B, batch 512, interleaved allowed": "llama-7b --global-batch 512 --schedule 1f1b,interleaved",
    "GPT-39B, batch 1536": "gpt-39b --global-batch 1536",
    "GPT-39B, batch 1536, ZeRO and sequence parallelism free": "gpt-39b --global-batch 1536" + FREE,
    "Llama-7B, batch 1024": "llama-7b --global-batch 1024",
    "Llama-7B, batch 1024, ZeRO and sequence parallelism free": "llama-7b --global-batch 1024" + FREE,
}
"""Title -> arguments of ``hetgym cluster``."""


def planned(arguments: str, folder: str) -> list[str]:
    """What ``hetgym cluster`` prints: the time of a step and its plan, rates, and what limits it."""
    command = ["hetgym", "cluster", *arguments.split(), "--platform", PLATFORM, "--out", folder]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[1:4]


def seconds_to_plan() -> float:
    """Processor time of the plan of GPT-175B."""
    cluster, program = load_cluster(PLATFORM), FRAMEWORKS["megatron"]
    for _ in range(2):  # the first one compiles
        began = time.process_time()
        layers = TransformerLayers(SIZES["gpt-175b"], cluster, program)
        plan_training(TrainingProblem(layers, cluster, 1536, program), "search")
        took = time.process_time() - began
    return took


def main() -> None:
    options = command_line(__doc__).parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for title, arguments in STEPS.items():
            step, rates, rest = planned(arguments, folder)
            duration, _, plan = step.partition(" a step on 512 of 512 GPUs: ")
            rows.append({"step": title, "time": duration, "plan": plan, "rates": rates, "rest": rest})
    show(
        f"Steps on {PLATFORM}", rows, {key: lambda row, key=key: row[key] for key in ("step", "time", "plan")}, "steps"
    )
    tokens, rate, share = rows[0]["rates"].rsplit(", ", 2)
    parts, limit = rows[0]["rest"].split("; limited by ")
    figures = {"throughput": tokens, "arithmetic of a GPU": f"{rate.removesuffix(' a GPU')}, {share}"}
    figures |= dict(part.split(" ", 1) for part in parts.split(", "))
    figures |= {
        "limited by": limit,
        "processor time to plan 98 layers on 512 GPUs": f"{seconds_to_plan():.1f} s",
    }
    lines = [{"what": what, "figure": figure} for what, figure in figures.items()]
    show("GPT-175B in detail", lines, {key: lambda row, key=key: row[key] for key in ("what", "figure")}, "gpt-175b")
    save(options.json, "cluster_examples", rows + lines)


if __name__ == "__main__":
    main()
