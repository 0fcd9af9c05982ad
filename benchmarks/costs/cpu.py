"""Operators and whole models on a profiled CPU: errors of every kind of cost model on data outside its fit.

    python benchmarks/costs/cpu.py [--dataset NAME] [--models boosted,polynomial] [--leave-one-out] [--json FILE]

Protocols:
* operators alone: a fifth of the shape groups (a layer at every batch size) is held out of the fit by a hash;
  operators of at least 50 us; threads pinned, caches swept before each repetition.
* operators within graphs: the same for operators timed within random networks.
* whole models: no row of any named model (the zoo) is fitted, only designs and random networks; predicted and
  measured times are sums over the operators of a model. With --leave-one-out the fit includes all other models.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hetgym.costs.fitting import Score, fit, predict_rows, priced
from hetgym.costs.scoring import Scores
from hetgym.measurements import Dataset

sys.path.insert(0, str(Path(__file__).parents[1]))
from _common import command_line, save, show  # noqa: E402

MODELS = (
    "alexnet",
    "bert_base",
    "densenet121",
    "gpt2",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "vit_b16",
    "zfnet512",
)
"""Models that --leave-one-out leaves out in turn: nine convolutional networks and three transformers."""


FORMS = {
    "roofline": "roofline, calibrated",
    "wave": "wave law (made for GPUs)",
    "polynomial": "polynomial",
    "boosted": "boosted",
    "neural": "neural",
    "gaussian": "Gaussian process",
    "blend": "blend of the last with boosted, shipped",
}
"""Kind of model -> its name in the table."""

COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "form": lambda row: FORMS[row["form"]],
    **{
        f"{words}: {name}": lambda row, part=part, name=name: f"{100 * getattr(row[part], name.lower()):.1f} %"
        for words, part, names in (
            ("alone", "alone", ("mean", "median", "P90")),
            ("in networks", "within graphs", ("mean", "median")),
            ("14 models", "held-out models", ("mean", "median")),
            ("gradients", "backward", ("mean", "median")),
        )
        for name in names
    },
}


def leave_one_out(table, device, kind: str) -> dict[str, float]:
    """Error for each of :data:`MODELS` of a fit to all other data."""
    errors = {}
    for name in MODELS:
        mine = np.array([row.source == name for row in table])
        rows = table.where(mine)
        costs = fit(table.where(~mine), device, kind, spread=False, only=priced(rows))
        count = np.array([row.count for row in rows])
        errors[name] = float(predict_rows(costs, rows, device) @ count / (rows.seconds @ count) - 1)
    return errors


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--dataset", default="xeon-core")
    parser.add_argument("--models", default=",".join(FORMS))
    parser.add_argument("--leave-one-out", action="store_true")
    options = parser.parse_args()
    dataset = Dataset.load(options.dataset)
    table, device = dataset.table.timed(), dataset.device
    print(f"{options.dataset}: {len(table)} rows, {dataset.machine.label}\n")
    rows: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    for kind in options.models.split(","):
        scores = Scores.of(table, device, kind, 0)
        rows.append({"form": kind, **scores.document()})
        parts = {"alone": scores.long("isolated"), "within graphs": scores.long("graph")}
        cells.append({"form": kind, **parts, "backward": scores.backward(), "held-out models": scores.whole()})
        print(kind, "  ".join(f"{name} {error:+.1%}" for name, error in rows[-1]["model errors"].items()), flush=True)
        if options.leave_one_out:
            rows[-1]["leave one model out"] = errors = leave_one_out(table, device, kind)
            print(f"leave one out: {Score.of(np.array(list(errors.values())) + 1, np.ones(len(errors)))}", flush=True)
    show("errors by form", cells, COLUMNS, name="forms")
    save(options.json, "cpu", rows)


if __name__ == "__main__":
    main()
