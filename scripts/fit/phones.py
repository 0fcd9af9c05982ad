"""Phones: processors fitted to public times of whole networks, and networks that no fit saw.

    python scripts/fit/phones.py build  --graphs build/phones --sources DIR  # rebuild the networks
    python scripts/fit/phones.py match  --data DATA                         # which ones count as rebuilt
    python scripts/fit/phones.py cross  --data DATA                         # cross-validation of the fit
    python scripts/fit/phones.py variants --data DATA                       # the same with other choices
    python scripts/fit/phones.py fit    --data DATA --out hetgym/costs/artefacts  # to all networks
    python scripts/fit/phones.py score  --data DATA                         # networks held out
    python scripts/fit/phones.py boards --data DATA                         # each board held out in turn
    python scripts/fit/phones.py noise  --data DATA                         # one network by two runtimes
    python scripts/fit/phones.py limits --data DATA                         # trees, and networks seen

DATA holds ``aihub/latencies.csv.gz``, latencies that Qualcomm AI Hub published (github.com/quic/ai-hub-models, BSD-3);
by default it is the folder that HETGYM_DATA names. A quarter of the models is held out by a hash of their names (see
``_phones.py`` for what had been looked at before); only ``score``, ``noise`` and the last step, ``fit``, open their
rows. ``build`` needs torchvision, timm, transformers, ultralytics, diffusers, addict, yacs and easydict, and checkouts
named ``owner+name`` under DIR (see ``_phone_sources.py``). It downloads nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import _phone_fit
from _common import command_line, save, show
from _phone_fit import Fit
from _phones import BOARDS, Key, Network, Row, fold, graph_path, held_out, matches, network, networks, read, score

from hetgym import load_graph
from hetgym._types import FloatArray
from hetgym.costs.phone import work as phone_work
from hetgym.costs.phone.costs import RATES, PhoneCosts

FOLDS = 5
PARTITIONS = ("fold", "again")
"""Names of the partitions of the cross-validation."""
SEED = 0  # of the random cells that the two-factor fit holds out
ARTEFACTS = {("NPU", "qnn"): "hexagon-qnn", ("NPU", "tflite"): "hexagon-tflite", ("NPU", "onnx"): "hexagon-onnx",
             ("CPU", "onnx"): "kryo-onnx"}  # fmt: skip
UNITS = ("NPU", "CPU")
VARIANTS = (("h", 1.0), ("k", 0.5), ("ph", 0.3), ("prh", 0.1), ("prh", 1.0), ("bg", 0.5), ("bpg", 0.1), ("bk", 0.1))
"""Terms of the fit, and other widths of their priors."""
QUANTISED_CPU = ("Snapdragon 7 Gen 4", "Q-6690", "QCS6490")
"""Boards whose ONNX runtime ran quantised networks on the CPU; elsewhere single networks only ran there."""


REFERENCE = "QCS8550"
"""Board on which a network is measured once; the one that most precisions and runtimes ran on."""


def build(arguments: argparse.Namespace) -> None:
    """Rebuild the networks, each in a process of its own, and write their graphs."""
    os.environ["HETGYM_PHONE_SOURCES"] = str(Path(arguments.sources).resolve())
    import _phone_models
    import _phone_sources
    import torch

    from hetgym.graph import from_torch
    from hetgym.graph.serialization import to_json

    folder = Path(arguments.graphs).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for key, make in (_phone_models.NETWORKS | _phone_sources.NETWORKS).items():
        if graph_path(folder, key).exists():
            continue
        child = os.fork()
        if child == 0:
            status = 1
            try:
                try:
                    with torch.device("meta"):
                        net, inputs = make()
                    graph = from_torch(net.eval(), inputs, name=key[1])
                except Exception:  # a network that computes with its weights when it is made
                    net, inputs = make()
                    graph = from_torch(net.eval(), inputs, name=key[1])
                to_json(graph, graph_path(folder, key))
                print(
                    f"{key[0]:32} {key[1]:32} {len(graph):5} operators {graph.flops.sum() / 1e9:8.2f} GFLOP", flush=True
                )
                status = 0
            except Exception as error:
                print(f"{key[0]:32} {key[1]:32} not rebuilt: {str(error).splitlines()[:1]}", flush=True)
            os._exit(status)
        os.waitpid(child, 0)


def match(arguments: argparse.Namespace) -> None:
    """Print which networks are rebuilt, and how their layers compare."""
    rows = read(arguments.data)
    keys = sorted({row.key for row in rows})
    found = networks(arguments.graphs, keys)
    kept = matches(rows, found)
    for key in keys:
        state = f"{kept[key]:.2f} of the layers" if key in kept else "other layers" if key in found else "not rebuilt"
        print(f"{'held out' if held_out(key[0]) else '':9} {key[0]:34} {key[1]:34} {state}")
    models = {key[0] for key in kept}
    print(f"{len(keys)} networks of {len({k[0] for k in keys})} models; {len(found)} rebuilt, {len(kept)} match,")
    held = [key for key in kept if held_out(key[0])]
    print(
        f"of {len(models)} models; {len(held)} of these networks, of {len({k[0] for k in held})} models, are held out"
    )


def usable(rows: Sequence[Row], kept: dict[Key, float], unit: str, held: bool | None) -> list[Row]:
    """Rows of a processor: of networks held out, of the others, or (None) of both."""
    chosen = [r for r in rows if r.unit == unit and r.key in kept and held in (None, held_out(r.key[0]))]
    if unit == "CPU":
        return [row for row in chosen if row.board in QUANTISED_CPU and row.runtime == "onnx"]
    return chosen


def crossed(rows: Sequence[Row], found: dict[Key, Network], name: str = PARTITIONS[0]) -> FloatArray:
    """[n] predictions, each by a fit that lacks a fifth of the networks, the row's own among them."""
    part = np.array([fold(row.key[0], FOLDS, name) for row in rows])
    result = np.zeros(len(rows))
    for i in sorted(set(part.tolist())):
        fitted = Fit([row for row, at in zip(rows, part, strict=True) if at != i], found)
        result[part == i] = fitted.predict([row for row, at in zip(rows, part, strict=True) if at == i], found)
    return result


def two_factors(rows: Sequence[Row]) -> FloatArray:
    """[n] predictions of network x board for a fifth of the cells at random, by the other cells; NaN elsewhere.

    One fit for each runtime and precision: log seconds = network + board, by least squares.
    """
    rng = np.random.default_rng(SEED)
    asked = rng.random(len(rows)) < 0.2
    result = np.full(len(rows), np.nan)
    for kind in sorted({(row.runtime, row.precision) for row in rows}):
        at = np.array([i for i, row in enumerate(rows) if (row.runtime, row.precision) == kind])
        names: list[Any] = sorted({rows[i].key for i in at}) + sorted({rows[i].board for i in at})
        place = {name: i for i, name in enumerate(names)}
        x = np.zeros((len(at), len(names)))
        for line, i in enumerate(at):
            x[line, place[rows[i].key]] = x[line, place[rows[i].board]] = 1.0
        known = ~asked[at]
        y = np.log([rows[i].seconds for i in at])
        solved = np.linalg.lstsq(np.vstack([x[known], 1e-3 * np.eye(len(names))]),
                                 np.concatenate([y[known], np.zeros(len(names))]), rcond=None)[0]  # fmt: skip
        seen = x[known].sum(axis=0) > 0
        able = ~known & (x @ ~seen == 0)
        result[at[able]] = np.exp(x[able] @ solved)
    return result


def table(title: str, rows: Sequence[Row], predicted: FloatArray, out: list[dict[str, Any]]) -> None:
    """Print scores over all rows, and by precision and runtime, board, and network."""
    measured = np.array([row.seconds for row in rows])
    lines = []
    views: list[tuple[str, Callable[[Row], str]]] = [
        ("", lambda row: "all"),
        ("", lambda row: f"{row.precision}, {row.runtime}"),
        ("", lambda row: row.board),
        ("", lambda row: row.key[1]),
    ]
    for number, (_, name) in enumerate(views):
        for what in sorted({name(row) for row in rows}):
            at = [i for i, row in enumerate(rows) if name(row) == what]
            lines.append({"what": f"{'  ' * min(number, 1)}{what}", "networks": len({rows[i].key for i in at})}
                         | score(predicted[at], measured[at]))  # fmt: skip
    percent = {c: (lambda row, c=c: f"{100 * row[c]:.1f} %") for c in ("mean", "median", "P90", "bias")}
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "what": lambda row: row["what"], "networks": lambda row: str(row["networks"]), "n": lambda row: str(row["n"]),
    }  # fmt: skip
    show(title, lines, columns | percent)
    out += [{"table": title, **line} for line in lines]


def cross(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Cross-validate over the networks of the fit."""
    rows, found, kept = load(arguments)
    out: list[dict[str, Any]] = []
    for unit in UNITS:
        chosen = usable(rows, kept, unit, held=False)
        for name in (*PARTITIONS, "family"):
            table(f"{unit}, networks of the fit, partition '{name}'", chosen, crossed(chosen, found, name), out)
    return out


def variants(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Cross-validate other choices than those that were made, one at a time."""
    rows, _, kept = load(arguments)
    chosen = usable(rows, kept, "NPU", held=False)
    measured = np.array([row.seconds for row in chosen])
    graphs = {key: load_graph(graph_path(arguments.graphs, key)) for key in sorted({row.key for row in chosen})}
    choices: list[tuple[str, Any, str, Any]] = [("as chosen", phone_work, "TILE", phone_work.TILE)]
    choices += [(f"tiles of {size}", phone_work, "TILE", size) for size in (1, 8, 64, 128)]
    choices += [(f"{size:g} elements on the chip", phone_work, "ON_CHIP", size) for size in (1e6, 16e6, 64e6)]
    choices += [(f"{size:g} elements at the start", phone_work, "AT_START", size) for size in (0.0, 16384.0, 262144.0)]
    choices += [(f"width {w:g} of {term}", _phone_fit, "WIDTHS", _phone_fit.WIDTHS | {term: w}) for term, w in VARIANTS]
    choices += [(f"width {w:g} of errors", _phone_fit, "NOISE", w) for w in (0.05, 0.25)]
    choices += [(f"weights by power {w:g}", _phone_fit, "POWER", w) for w in (0.0, 1.0)]
    out = []
    for what, module, name, value in choices:
        before = getattr(module, name)
        setattr(module, name, value)
        found = {key: network(graph) for key, graph in graphs.items()}
        out.append({"what": what} | score(crossed(chosen, found), measured))
        setattr(module, name, before)
    columns = {"what": lambda row: row["what"], "n": lambda row: str(row["n"])}
    percent = {c: (lambda row, c=c: f"{100 * row[c]:.1f} %") for c in ("mean", "median", "P90", "bias")}
    show("NPU, networks of the fit, cross-validated", out, columns | percent)
    return out


def fit(arguments: argparse.Namespace) -> None:
    """Fit to all networks, those that were held out for ``score`` included, and write the models."""
    rows, found, kept = load(arguments)
    boards = {board.chip: board for board in BOARDS.values()}
    for unit in UNITS:
        chosen = usable(rows, kept, unit, held=None)
        fitted = Fit(chosen, found)
        ratio = np.log([row.seconds for row in chosen]) - np.log(crossed(chosen, found))
        names, precisions = fitted.axes["b"], fitted.axes["p"]
        seen = {(row.board, row.precision) for row in chosen}
        for (of, runtime), name in ARTEFACTS.items():
            if of != unit:
                continue
            rates = np.array([[fitted.rates(b, p, runtime) for p in precisions] for b in names])
            part = np.array([row.runtime == runtime for row in chosen])
            scatter = np.quantile(ratio[part], (0.1, 0.9)).round(4).tolist()
            card = {
                "source": "latencies published by Qualcomm AI Hub, github.com/quic/ai-hub-models",
                "licence": "BSD-3-Clause",
                "rows": len(chosen),
                "networks": len({row.key for row in chosen}),
                "held out": "nothing here; scored by a fit without a quarter of the models, then fitted to all",
                "validated": f"{unit} times of whole networks on boards seen; single operators were never measured",
            }
            model = PhoneCosts(
                tuple(names), tuple(precisions), rates.round(6),
                np.array([[boards[b].peak, boards[b].bandwidth] for b in names]),
                np.array([[float((b, p) in seen) for p in precisions] for b in names]),
                card, (float(scatter[0]), float(scatter[1])),
            )  # fmt: skip
            path = Path(arguments.out) / f"{name}.npz"
            model.save(path)
            print(f"{path}: {len(names)} boards, {len(precisions)} precisions, {len(RATES)} coefficients each")


def held(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Score networks that were held out, beside the two-factor fit, which has seen them."""
    rows, found, kept = load(arguments)
    out: list[dict[str, Any]] = []
    for unit in UNITS:
        chosen = usable(rows, kept, unit, held=True)
        fitted = Fit(usable(rows, kept, unit, held=False), found)
        table(f"{unit}, networks held out, boards seen", chosen, fitted.predict(chosen, found), out)
        if unit == "NPU":
            once(chosen, fitted.predict(chosen, found), out)
            every = usable(rows, kept, unit, held=None)
            for name in (PARTITIONS[0], "family"):
                table(f"NPU, every network left out once, by '{name}'", every, crossed(every, found, name), out)
    everything = [row for row in rows if row.unit == "NPU"]
    guess = two_factors(everything)
    known = np.flatnonzero(~np.isnan(guess))
    table("NPU, two factors (network x board), random cells, networks seen",
          [everything[i] for i in known], guess[known], out)  # fmt: skip
    return out


def once(rows: Sequence[Row], guess: FloatArray, out: list[dict[str, Any]]) -> None:
    """Scale each network held out by one measurement, on :data:`REFERENCE`, and score it on the other boards."""
    kinds = [(row.key, row.precision, row.runtime) for row in rows]
    at = {kind: i for i, (kind, row) in enumerate(zip(kinds, rows, strict=True)) if row.board == REFERENCE}
    others = [i for i, kind in enumerate(kinds) if kind in at and rows[i].board != REFERENCE]
    scaled = np.array([guess[i] * rows[at[kinds[i]]].seconds / guess[at[kinds[i]]] for i in others])
    table(f"NPU, networks held out, each measured once, on {REFERENCE}", [rows[i] for i in others], scaled, out)


def unseen(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Hold out each board: networks of the fit, then networks held out as well; coefficients by the data sheet."""
    rows, found, kept = load(arguments)
    out: list[dict[str, Any]] = []
    chosen = usable(rows, kept, "NPU", held=False)
    guess = np.zeros(len(chosen))
    for board in BOARDS.values():
        at = np.array([row.board == board.chip for row in chosen])
        fitted = Fit([row for row in chosen if row.board != board.chip], found)
        guess[at] = by_sheet(fitted, [row for row in chosen if row.board == board.chip], found)
    table("NPU, boards held out in turn, networks seen", chosen, guess, out)
    return out


def by_sheet(fitted: Fit, rows: Sequence[Row], found: dict[Key, Network]) -> FloatArray:
    """[n] seconds on boards that a fit lacks: :class:`PhoneCosts` with the data sheets."""
    boards = {board.chip: board for board in BOARDS.values()}
    names = fitted.axes["b"]
    sheet = np.array([[boards[b].peak, boards[b].bandwidth] for b in names])
    result = []
    for row in rows:
        rates = np.array([[fitted.rates(b, row.precision, row.runtime)] for b in names])
        model = PhoneCosts(tuple(names), (row.precision,), rates, sheet, np.ones((len(names), 1)))
        own = boards[row.board]
        found_rates = model.stranger(own.peak, own.bandwidth, 0)
        one = found[row.key]
        result.append(found_rates @ np.array([*one.amounts, one.transferred, 1.0]))
    return np.array(result)


def noise(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Differences between runtimes for one network, board and precision, less the median of the pair of runtimes."""
    times: dict[tuple[Key, str, str], dict[str, list[float]]] = {}
    for row in read(arguments.data):
        if row.unit == "NPU":
            times.setdefault((row.key, row.board, row.precision), {}).setdefault(row.runtime, []).append(row.seconds)
    out = []
    for precision in ("float", "w8a8", "w8a16"):
        for one, two in (("qnn", "tflite"), ("qnn", "onnx"), ("tflite", "onnx")):
            pairs = [r for (_, _, p), r in times.items() if p == precision and one in r and two in r]
            if not pairs:
                continue
            ratio = np.array([np.median(r[one]) / np.median(r[two]) for r in pairs])
            ratio /= np.median(ratio)
            out.append({"what": f"{precision}: {one} by {two}"} | score(ratio, np.ones(len(ratio))))
    columns = {"what": lambda row: row["what"], "n": lambda row: str(row["n"])}
    percent = {c: (lambda row, c=c: f"{100 * row[c]:.1f} %") for c in ("mean", "median", "P90")}
    show("one network, board and precision: one runtime by another", out, columns | percent)
    return out


def limits(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """What learns more freely reaches: boosted trees, on shares, amounts, board, precision and runtime."""
    rows, found, kept = load(arguments)
    chosen = usable(rows, kept, "NPU", held=False)
    measured = np.array([row.seconds for row in chosen])
    out: list[dict[str, Any]] = [
        {"what": "networks seen: the sum"} | score(Fit(chosen, found).predict(chosen, found), measured)
    ]
    for name in PARTITIONS:
        plain, corrected, alone = _trees(chosen, found, name)
        for what, guess in (("the sum", plain), ("trees correct the sum", corrected), ("trees alone", alone)):
            out.append({"what": f"partition '{name}': {what}"} | score(guess, measured))
    columns = {"what": lambda row: row["what"], "n": lambda row: str(row["n"])}
    percent = {c: (lambda row, c=c: f"{100 * row[c]:.1f} %") for c in ("mean", "median", "P90", "bias")}
    show("NPU, networks of the fit", out, columns | percent)
    return out


def _trees(rows: Sequence[Row], found: dict[Key, Network], name: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """[n] predictions of networks left out: the sum, the sum times trees fitted to its own inner residuals, trees."""
    from lightgbm import LGBMRegressor

    rate = {"objective": "l1", "learning_rate": 0.05, "colsample_bytree": 0.4, "random_state": SEED, "verbose": -1}
    plain, corrected, alone = (np.zeros(len(rows)) for _ in range(3))
    part = np.array([fold(row.key[0], FOLDS, name) for row in rows])
    for i in sorted(set(part.tolist())):
        inside = [row for row, at in zip(rows, part, strict=True) if at != i]
        outside = [row for row, at in zip(rows, part, strict=True) if at == i]
        logs = np.log([row.seconds for row in inside])
        weight = np.array([sum(r.key[0] == row.key[0] for r in inside) for row in inside]) ** -_phone_fit.POWER
        inner = np.array([fold(row.key[0], 4, "inner") for row in inside])
        known, residual = np.zeros((len(inside), 0)), np.zeros(len(inside))
        for k in sorted(set(inner.tolist())):
            fitted = Fit([row for row, at in zip(inside, inner, strict=True) if at != k], found)
            table_, seconds = _features(fitted, [row for row, at in zip(inside, inner, strict=True) if at == k], found)
            known = known if known.size else np.zeros((len(inside), table_.shape[1]))
            known[inner == k], residual[inner == k] = table_, logs[inner == k] - np.log(seconds)
        asked, plain[part == i] = _features(Fit(inside, found), outside, found)
        few = LGBMRegressor(n_estimators=60, num_leaves=7, min_child_samples=60, **rate)
        corrected[part == i] = plain[part == i] * np.exp(few.fit(known, residual, weight).predict(asked))
        many = LGBMRegressor(n_estimators=300, num_leaves=15, min_child_samples=30, **rate)
        alone[part == i] = np.exp(many.fit(known, logs, weight).predict(asked))
    return plain, corrected, alone


def _features(fitted: Fit, rows: Sequence[Row], found: dict[Key, Network]) -> tuple[FloatArray, FloatArray]:
    """[n, f] inputs of trees, and [n] seconds: shares of the sum, its logarithm, amounts, board, precision, runtime."""
    parts = fitted.parts(rows, found)
    total = parts.sum(axis=1, keepdims=True)
    work = np.log10([np.maximum(found[row.key].amounts, 1.0) for row in rows])
    axes = fitted.axes
    codes = [[axes["b"].index(r.board), axes["p"].index(r.precision), axes["r"].index(r.runtime)] for r in rows]
    return np.hstack([np.sqrt(parts / total), np.log(total), work, codes]), total[:, 0]


def load(arguments: argparse.Namespace) -> tuple[list[Row], dict[Key, Network], dict[Key, float]]:
    """Rows, networks, and those that match."""
    rows = read(arguments.data)
    found = networks(arguments.graphs, {row.key for row in rows})
    if not found:
        raise SystemExit(f"{arguments.graphs}: no graphs of networks; build them by 'phones.py build'")
    return rows, found, matches(rows, found)


COMMANDS = {
    "build": build,
    "match": match,
    "cross": cross,
    "variants": variants,
    "fit": fit,
    "score": held,
    "boards": unseen,
    "noise": noise,
    "limits": limits,
}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HETGYM_DATA", "data")))
    parser.add_argument("--graphs", type=Path, default=Path("build/phones"), help="folder of rebuilt graphs")
    parser.add_argument("--sources", type=Path, default=Path("sources"), help="folder of checkouts, for build")
    parser.add_argument("--out", type=Path, default=Path("hetgym/costs/artefacts"), help="folder for models")
    arguments = parser.parse_args()
    rows = COMMANDS[arguments.command](arguments)
    if rows:
        save(arguments.json, f"phones {arguments.command}", rows)


if __name__ == "__main__":
    main()
