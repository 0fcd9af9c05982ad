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

import json
import sys
from pathlib import Path

import numpy as np

from hetgym.costs.fitting import Score, fit, predict_rows, priced
from hetgym.costs.scoring import Scores
from hetgym.measurements import Dataset

sys.path.insert(0, str(Path(__file__).parents[1]))
from _common import command_line  # noqa: E402

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
    parser.add_argument("--models", default="roofline,polynomial,wave,neural,boosted,gaussian,blend")
    parser.add_argument("--leave-one-out", action="store_true")
    options = parser.parse_args()
    dataset = Dataset.load(options.dataset)
    table, device = dataset.table.timed(), dataset.device
    print(f"{options.dataset}: {len(table)} rows, {dataset.machine.label}\n")
    results = {}
    for kind in options.models.split(","):
        scores = Scores.of(table, device, kind, 0)
        results[kind] = scores.document()
        print(f"{kind:11s} operators alone, held-out shapes     {scores.long('isolated')}")
        print(f"{'':11s} operators in graphs, held-out shapes {scores.long('graph')}")
        print(f"{'':11s} gradients alone, held-out shapes     {scores.backward()}")
        print(f"{'':11s} models, none of them in the fit      {scores.whole()}")
        if options.leave_one_out:
            errors = leave_one_out(table, device, kind)
            score = Score.of(np.array(list(errors.values())) + 1, np.ones(len(errors)))
            results[kind]["leave one model out"] = errors
            print(f"{'':11s} models, leave one out                {score}")
        errors = scores.document()["model errors"]
        print(f"{'':11s} " + "  ".join(f"{name} {error:+.1%}" for name, error in errors.items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
