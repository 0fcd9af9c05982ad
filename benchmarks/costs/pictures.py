"""Draw predicted against measured on a profiled CPU: held-out operators, and models that the fit never saw.

python benchmarks/costs/pictures.py [--dataset xeon-core] [--model blend] [--out docs/images/costs-cpu.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from hetgym.costs.scoring import Scores
from hetgym.measurements import Dataset

sys.path.insert(0, str(Path(__file__).parents[1]))
from _common import command_line  # noqa: E402


def main() -> None:
    parser = command_line(__doc__, json=False)
    parser.add_argument("--dataset", default="xeon-core")
    parser.add_argument("--model", default="blend")
    parser.add_argument("--out", type=Path, default=Path("docs/images/costs-cpu.png"))
    options = parser.parse_args()
    dataset = Dataset.load(options.dataset)
    scores = Scores.of(dataset.table.timed(), dataset.device, options.model, 0)
    test, found = scores.shapes
    forward = np.array([row.direction == "forward" for row in test])
    family = np.array([row.operator.spec.family for row in test])
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=(1, 1.1), layout="constrained")
    colours = plt.get_cmap("tab10").colors
    for number, name in enumerate(sorted(set(family[forward].tolist()))):
        at = forward & (family == name)
        left.loglog(
            test.seconds[at] * 1e6, found[at] * 1e6, ".", ms=3, alpha=0.7, color=colours[number % 10], label=name
        )
    low, high = 2.0, 5e4
    left.plot([low, high], [low, high], color="black", lw=0.8)
    for factor in (0.9, 1.1):
        left.plot([low, high], [low * factor, high * factor], color="black", lw=0.5, ls=":")
    left.set(
        xlabel="measured [us]",
        ylabel="predicted [us]",
        xlim=(low, high),
        ylim=(low, high),
        title=f"held-out shapes, {options.model}: {scores.long('isolated').mean:.1%} alone, "
        f"{scores.long('graph').mean:.1%} in graphs (>= 50 us)",
    )
    left.legend(frameon=False, fontsize=7, markerscale=3)
    names = list(scores.graphs)
    predicted, measured = (np.array([scores.graphs[name][k] for name in names]) * 1e3 for k in (0, 1))
    order = np.argsort(measured)
    place = np.arange(len(names))
    right.barh(place - 0.2, measured[order], 0.4, color="#777777", label="measured")
    right.barh(place + 0.2, predicted[order], 0.4, color="#2a78b0", label="predicted")
    for at, i in enumerate(order):
        right.text(max(predicted[i], measured[i]) * 1.05, at, f"{predicted[i] / measured[i] - 1:+.1%}", va="center")
    right.set_yticks(place, [names[i] for i in order])
    right.set(
        xscale="log",
        xlabel="sum over operators [ms]",
        xlim=(measured.min() * 0.6, measured.max() * 2.2),
        title=f"models that no fit saw: mean error {scores.whole().mean:.1%}",
    )
    right.legend(frameon=False, loc="lower right")
    figure.savefig(options.out, dpi=130)
    print(f"{options.out}: {scores.long('isolated')}\n{'':>{len(str(options.out))}}  {scores.whole()}")


if __name__ == "__main__":
    main()
