"""Errors of predicted costs by class of hardware on one table, measured by the functions of the other scripts.

    python benchmarks/costs/summary.py --data DATA --graphs OPGRAPHS --json costs.json

DATA holds the folders ``aiconfigurator`` and ``neusight``, see ``scripts/fit/gemm.py`` and ``scripts/fit/neusight.py``,
also for OPGRAPHS; by default it is the folder that HETGYM_DATA names. Phones and executed placements are left to their
own commands: they need rebuilt graphs and idle machines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "fit"))
import gemm
import neusight
from _common import command_line, save, show
from measured_gpu import GROUPS, Priced

from hetgym.costs.fitting import Score, priced
from hetgym.costs.rates import least_seconds, traffic
from hetgym.costs.scoring import Scores
from hetgym.measurements import Dataset

Row = tuple[str, str, Score, str]
CPU = "benchmarks/costs/cpu.py --models blend"
GPU = "benchmarks/costs/measured_gpu.py"
GEMM = "scripts/fit/gemm.py score --data DIR"
UNSEEN = "scripts/fit/neusight.py unseen --data DIR --graphs OPGRAPHS"
CONVOLUTIONAL = r"^(?!bert|gpt|vit|lstm).*-b\d+$"


def cpu(scores: Scores) -> Iterator[Row]:
    """A core of which other shapes, and no network of the zoo, were fitted."""
    held = "a fifth of the shape groups held out; measured alone, 50 us and more"
    yield "operators, profiled CPU", held, scores.long("isolated"), CPU
    yield "operators in networks, profiled CPU", "the same, measured within running networks", scores.long("graph"), CPU
    yield "zoo, profiled CPU", "14 models of the zoo, none of them fitted", scores.whole(), CPU


def products(folder: Path) -> Iterator[Row]:
    """Boards of which other pairs (n, k) were fitted."""
    for name, (measured, predicted) in gemm.score(folder, gemm.ARTEFACTS, list(gemm.ENGINES))[1].items():
        held = "a fifth of the pairs (n, k) held out"
        yield f"bfloat16 products, profiled {name.upper()}", held, Score.of(predicted, measured), GEMM


def measured() -> Iterator[Row]:
    """Networks and products on boards that were measured."""
    h200, h100 = Priced("h200"), Priced("h100", "h200")
    every = GROUPS["all of these"]
    yield "networks, profiled H200", "42 networks of the zoo, none of them fitted", h200.score(every), GPU
    held = "27 networks, priced by the measurements of the H200"
    yield "networks, H100 by an H200", held, h100.score(every), f"{GPU} --table h100 --costs h200"
    held = "passes in bfloat16, priced by `gpu-half`, nothing fitted to them"
    yield "language models, H200", held, h200.score(GROUPS["language models"]), GPU
    for phase in ("prefill", "decode"):
        case, held = f"bfloat16 products by PyTorch, {phase}", "H200; nothing fitted to PyTorch's kernels"
        yield case, held, Score.of(*zip(*h200.alone[f"Gemm, {phase}"], strict=True)), GPU


def unseen(folder: Path, graphs: Path | None) -> Iterator[Row]:
    """Boards that were held out with all that was measured on them."""
    lab = neusight.Laboratory(folder, graphs, neusight.SEED)
    logs = neusight.hold_out(lab)[1]
    runs = np.concatenate([*logs.pop("model").values()])
    single = [np.exp(-boards[name]) for boards in logs.values() for name in boards if "H100" in name]
    classes = [Score.of(ratios, np.ones(len(ratios))) for ratios in single]
    means = [float(np.mean([getattr(score, name) for score in classes])) for name in ("mean", "median", "p90", "bias")]
    held = "H100 held out; mean over classes of operators"
    yield "float32 operators, unseen GPU", held, Score(sum(score.n for score in classes), *means), UNSEEN
    held = f"{len(runs)} runs of whole transformers; each of six boards held out in turn"
    yield "transformers, unseen GPU", held, Score.of(np.exp(-runs), np.ones(len(runs))), UNSEEN
    theirs = Score.of(*zip(*((run.neusight, run.measured) for run, _ in lab.runs), strict=True))
    yield "transformers, NeuSight", f"the same {len(runs)} runs, by NeuSight's own predictions", theirs, UNSEEN


def limits(scores: Scores) -> Iterator[tuple[str, str, str]]:
    """Where prices are worse."""
    classes = {name: score for name, score in scores.by_class().items() if "-backward" not in name and score.n > 9}
    worst, *others = sorted(classes, key=lambda name: -classes[name].mean)[:4]
    words = f"mean error of {classes[worst].n} held-out {worst}; next are {', '.join(others)}"
    yield "the worst class of operators on a CPU", f"{100 * classes[worst].mean:.0f} %", words
    left = scores.backward()
    words = f"mean error of {left.n} held-out ones (median {100 * left.median:.1f} %)"
    yield "gradients on a CPU", f"{100 * left.mean:.1f} %", words
    for name, case, words in (
        ("lstm", "LSTM on a CPU", "its weights exceed the share of the cache that the machine is left"),
        ("shufflenet", "ShuffleNet on a CPU", "many small operators"),
    ):
        error = scores.graphs[name][0] / scores.graphs[name][1] - 1
        yield case, f"{100 * abs(error):.0f} % too {'long' if error > 0 else 'short'}", words
    sheet = Priced("h200", "gpu-eager-fp32").score(CONVOLUTIONAL)
    words = f"median error of {sheet.n} runs in float32 on an H200 (mean {100 * sheet.mean:.0f} %)"
    yield "convolutional networks by data sheet", f"{100 * sheet.median:.0f} %", words
    rows, shares = 0, []
    for name in ("xeon-core", "xeon-core-avx2", "h100", "h200"):
        dataset = Dataset.load(name)
        table = dataset.table.timed()
        rows += len(table)
        least = least_seconds(traffic(priced(table)), dataset.device)
        broken = (table.seconds < least) & np.array([row.direction == "forward" for row in table])
        shares += (table.seconds[broken] / least[broken]).tolist()
    words = f"by {100 * (1 - min(shares)):.0f} % at most; besides gradients that frameworks do not compute"
    yield "rows faster than their bytes at memory bandwidth", f"{len(shares)} of {rows:,}".replace(",", " "), words


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HETGYM_DATA", ".")))
    parser.add_argument("--graphs", type=Path, help="traces of the switch transformers")
    options = parser.parse_args()
    dataset = Dataset.load("xeon-core")
    scores = Scores.of(dataset.table.timed(), dataset.device, "blend", 0)
    rows = [*cpu(scores), *products(options.data / "aiconfigurator"), *measured()]
    rows += unseen(options.data / "neusight", options.graphs)
    lines = [
        {"case": case, "what was held out": held, "n": str(score.n)}
        | {name: f"{100 * getattr(score, name.lower()):.1f} %" for name in ("mean", "median", "P90")}
        | {"command": f"`python {command}`"}
        for case, held, score, command in rows
    ]
    worse = [dict(zip(("what", "figure", "condition"), row, strict=True)) for row in limits(scores)]
    for name, title, table in (("errors", "by class of hardware", lines), ("limits", "where prices are worse", worse)):
        show(title, table, {key: lambda row, key=key: row[key] for key in table[0]}, name)
    save(options.json, "costs", [*lines, *worse])


if __name__ == "__main__":
    main()
