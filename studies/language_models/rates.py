"""Decoding rates of language models on people's machines: the law's constants, and its errors.

    python studies/language_models/rates.py --json rates.json

``rates.csv`` holds dense models that lie wholly on one board, at batch 1 and without speculation: rows of llmfit
(AlexsJones/llmfit, MIT) whose model, format and residence are known. Rows of fold A choose the constants of
``hetgym.costs.decoding``, those of fold B report. *Without its own rows*: constants fitted to the other boards. The GTX
1050 Ti, which decodes far below its bandwidth, is apart. ``mixtures.csv`` holds mixtures, machines with unified memory,
weights on the CPU, and pairs of boards, from llmfit and qwen38-mtp (Apache-2.0). Its rows of mixtures chose their
constants, so those errors are not held out; nothing was fitted to its pairs.
``hetgym.plan_llm`` predicts each of its rows. ``depths.csv`` quotes rates of 20 boards, one and several, with 512 and
4096 tokens, from XiongjieDai/GPU-Benchmarks-on-LLM-Inference: builds of May 2024, without flash attention. The A100
PCIe, the M1 and the M2 Ultra chose constants of their classes and are left out. Which boards form a class, and that
workstation boards read prompts no faster than others, was seen in both tables. ``caches.csv`` holds the rates at which
caches are read, from the slopes of decoding times over depths between 512 and 32 768 tokens in llmfit and qwen38-mtp.
"""

from __future__ import annotations

import csv
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

import hetgym
from hetgym.costs.decoding import CONVERSION, HIGH, LOW, PACES, convert_seconds, pace
from hetgym.graph.language_model import cache_formats
from hetgym.graph.model_names import load_language_model, model_names
from hetgym.llm.parts import Load, parts_of
from hetgym.llm.planning import PROMPT_HIGH, PROMPT_LOW
from hetgym.llm.rules import rules_of
from hetgym.llm.search import Split, Stage
from hetgym.llm.site import Site
from hetgym.llm.timing import decode_seconds, prompt_time
from hetgym.topology import find_platform

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show  # noqa: E402

HERE = Path(__file__).parent
ALIASES = {"tinyllama": "tinyllama-1.1b", "pepe_70b": "llama-3.1-70b", "devstral-small": "mistral-small-24b"}
APART = "GTX 1050 Ti"
BITS = {"Q4_K_M": 4.89, "Q8_0": 8.5}  # format -> bits of a weight of an 8 B model
CACHE = 40 * 2 * 5120 * 2  # bytes of a token of the one model that has no name here, OLMo-2-13B


def table(name: str) -> list[dict[str, str]]:
    """Rows of a file beside this one."""
    with (HERE / name).open() as file:
        return list(csv.DictReader(file))


@cache
def bytes_of_cache(model: str, context: int) -> float:
    """Bytes of a full cache in 16 bits."""
    name = ALIASES.get(model.lower(), model.lower())
    return load_language_model(name).cache_bytes(context) if name in model_names() else float(CACHE * context)


@cache
def board(hardware: str) -> hetgym.Device:
    """The GPU that a row names."""
    return next(device for device in find_platform(f"{hardware}, 64GB") if device.kind == "gpu")


def seconds(rows: list[dict[str, str]], share: float, constant: float) -> np.ndarray[Any, Any]:
    """[n] time of a token by the law, with a full cache [s]; boards with constants of their own keep these."""
    found = []
    for row in rows:
        device, moved = board(row["hardware"]), float(row["bytes_a_token_without_cache"])
        own, usual, cached = pace(device), PACES["gpu"], bytes_of_cache(row["model"], int(row["context"]))
        bandwidth = (share if own.share == usual.share else own.share) * float(row["bandwidth_gb_s"]) * 1e9
        weights = max(moved / bandwidth, convert_seconds(device, CONVERSION * 8 * moved / BITS[row["format"]]))
        layer = constant if own.dense == usual.dense else own.dense
        found.append(weights + cached / bandwidth + layer * int(row["layers"]))
    return np.array(found)


def fitted(rows: list[dict[str, str]]) -> tuple[float, float]:
    """Share of the bandwidth and time of a layer of least mean absolute error of logarithms."""
    taken = 1 / rates(rows)

    def loss(x: np.ndarray[Any, Any]) -> float:
        return float(np.abs(np.log(seconds(rows, x[0], x[1] * 1e-6) / taken)).mean())

    starts = [(share, constant) for share in (0.7, 0.85) for constant in (40.0, 80.0)]
    best = min((minimize(loss, start, method="Nelder-Mead") for start in starts), key=lambda found: found.fun)
    return float(best.x[0]), float(best.x[1]) * 1e-6


def rates(rows: list[dict[str, str]]) -> np.ndarray[Any, Any]:
    return np.array([float(row["decode_tok_s"]) for row in rows])


def errors(name: str, rows: list[dict[str, str]], predicted: np.ndarray[Any, Any]) -> dict[str, Any]:
    """A row of the table of errors; bias is that of the median prediction's logarithm."""
    logs = np.log(predicted / rates(rows))
    inside = (rates(rows) >= LOW * predicted) & (rates(rows) <= HIGH * predicted)
    return {
        "rows": name,
        "n": len(rows),
        "median error": f"{np.median(np.abs(np.expm1(logs))):.1%}",
        "90 % of errors below": f"{np.quantile(np.abs(np.expm1(logs)), 0.9):.1%}",
        "mean bias": f"{np.expm1(logs.mean()):+.1%}",
        "between low and high": f"{inside.mean():.0%}",
    }


def dense() -> list[dict[str, Any]]:
    """Errors on dense models."""
    whole = table("rates.csv")
    rows = [row for row in whole if APART not in row["hardware"]]
    apart = [row for row in whole if APART in row["hardware"]]
    own = PACES["gpu"]
    found = []
    for fold in "AB":
        part = [row for row in rows if row["fold"] == fold]
        found.append(errors(f"fold {fold}, shipped constants", part, 1 / seconds(part, own.share, own.dense)))
    outside: dict[int, float] = {}
    for board in {row["hardware"] for row in rows}:
        law = fitted([row for row in rows if row["hardware"] != board])
        for k, row in enumerate(rows):
            if row["hardware"] == board:
                outside[k] = 1 / seconds([row], *law)[0]
    predicted = np.array([outside[k] for k in range(len(rows))])
    found.append(errors("all, each board without its own rows", rows, predicted))
    for board in sorted({row["hardware"] for row in rows}):
        at = [k for k, row in enumerate(rows) if row["hardware"] == board]
        found.append(errors(f"{board}, without its own rows", [rows[k] for k in at], predicted[at]))
    found.append(errors(f"{APART}, shipped constants", apart, 1 / seconds(apart, own.share, own.dense)))
    return found


def others() -> list[dict[str, Any]]:
    """Mixtures, unified memories, weights on the CPU and pairs, each predicted."""
    found = []
    for row in table("mixtures.csv"):
        plan = hetgym.plan_llm(
            row["model"], row["machine"], quant=row["format"], context=int(row["context"]), reserve=0.0
        )
        rate = plan.decode_tokens_per_second.mid
        for option in plan.options:
            rate = (option.decode_tokens_per_second or rate) if option.name == row["split"] else rate
        measured = float(row["decode_tok_s"])
        found.append(
            {
                "machine": row["machine"],
                "model": f"{row['model']} {row['format']}",
                "split": row["split"] or "–",
                "measured, tok/s": f"{measured:.1f}",
                "predicted": f"{rate:.1f}",
                "error": f"{rate / measured - 1:+.0%}",
            }
        )
    return found


def evenly(machine: str, name: str, quant: str, context: int, cache: str = "float16") -> tuple[Site, Split]:
    """A model's layers split evenly over the GPUs of a machine."""
    platform, model = find_platform(machine), load_language_model(name, quant)
    gpus = [k for k, device in enumerate(platform) if device.kind != "cpu"]
    load = Load(context, cache, cache)
    room = tuple(device.memory_capacity for device in platform)
    site = Site(platform, parts_of(model, load), load, rules_of("llama.cpp"), tuple((k,) for k in gpus), room, 1)
    borders = [round(len(model.layers) * k / len(gpus)) for k in range(len(gpus) + 1)]
    stages = [Stage((gpu,), *borders[k : k + 2]) for k, gpu in enumerate(gpus)]
    return site, Split(tuple(stages), ())


def caches() -> list[dict[str, Any]]:
    """Rates at which caches are read, each predicted from two depths."""
    found = []
    for row in table("caches.csv"):
        key, _ = cache_formats(row["cache"])
        model = load_language_model(row["model"])
        times = []
        for depth in (1024, 8192):
            site, split = evenly(f"{row['board']}, 64GB", row["model"], "Q4_K_M", depth, key)
            times.append(decode_seconds(site, split))
        moved = model.cache_bytes(8192, key, key) - model.cache_bytes(1024, key, key)
        rate, measured = moved / (times[1] - times[0]) / 1e9, float(row["measured_gb_s"])
        found.append(
            {
                "board": row["board"],
                "model": row["model"],
                "cache": row["cache"],
                "measured, GB/s": f"{measured:.0f}",
                "predicted": f"{rate:.0f}",
                "error": f"{rate / measured - 1:+.0%}",
            }
        )
    return found


def depths() -> list[dict[str, Any]]:
    """Errors on boards and depths that chose nothing."""
    found: list[tuple[str, str, int, float]] = []  # pass, boards, tokens, predicted over measured
    for row in table("depths.csv"):
        if row["chose"] == "yes":
            continue
        count, tokens = int(row["machine"][0]) if row["machine"][1] == "x" else 1, int(row["tokens"])
        boards = "Apple" if row["machine"].startswith("M") else "one" if count == 1 else "2 to 8"
        site, split = evenly(row["machine"], row["model"], row["format"], tokens // 2)  # decoding begins empty
        prompt = row["pass"] == "prompt"
        rate = tokens / prompt_time(site, split, tokens) if prompt else 1 / decode_seconds(site, split)
        found.append((row["pass"], boards, tokens, rate / float(row["tok_s"])))
    rows = []
    for key in dict.fromkeys((what, boards, tokens) for what, boards, tokens, _ in sorted(found)):
        ratios = np.array([ratio for *own, ratio in found if tuple(own) == key])
        low, high = (PROMPT_LOW, PROMPT_HIGH) if key[0] == "prompt" else (LOW, HIGH)
        rows.append(
            {
                "pass": key[0], "boards": key[1], "tokens": str(key[2]), "n": str(len(ratios)),
                "median error": f"{np.median(np.abs(ratios - 1)):.0%}",
                "90 % of errors below": f"{np.quantile(np.abs(ratios - 1), 0.9):.0%}",
                "median bias": f"{np.median(ratios) - 1:+.0%}",
                "between low and high": f"{((low * ratios <= 1) & (high * ratios >= 1)).mean():.0%}",
            }
        )  # fmt: skip
    return rows


def main() -> None:
    options = command_line(__doc__).parse_args()
    constants = fitted([row for row in table("rates.csv") if row["fold"] == "A" and APART not in row["hardware"]])
    print(f"fold A: share {constants[0]:.3f}, {constants[1] * 1e6:.1f} us a layer")
    tables = {"dense": dense(), "others": others(), "caches": caches(), "depths": depths()}
    titles = {"dense": "Dense models on one board"}
    titles["others"] = "Mixtures, unified memory, weights on the CPU, pairs of boards"
    titles["caches"] = "Reading caches"
    titles["depths"] = "Llama 3 with 8 and 70 billion parameters, 20 boards, builds of May 2024"
    for name, rows in tables.items():
        show(titles[name], rows, {key: lambda row, key=key: str(row[key]) for key in rows[0]}, name)
    save(options.json, "llm-rates", [row for rows in tables.values() for row in rows])


if __name__ == "__main__":
    main()
