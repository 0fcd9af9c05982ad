"""The peer's side of ``planners.py``, run by a Python that has Sailor's dependencies; it does not need hetgym.

Each line of the input is a request, each line of the output its answer:

- ``["plan", planner, model, {board: GPUs}]``: the peer's planner. The answer has the seconds of processor time that it
  took, its plans in its own order that were not skipped, and how many did not fit. As in Sailor's ``simulator.py``, the
  first plan that fits counts.
- ``["score", model, [plan, ...]]``: step time of each plan by Sailor's simulator, None if it does not fit.

Sailor's code is not changed. What a planner compiles is compiled before its time begins; Sailor's own library is not
compiled again where it lies in its folder.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ZONE = "us-central1-a"
CONFIGS = {"OPT-350": "opt_350", "GPT-Neo-2.7": "gpt_neo27"}

HOME = Path(os.environ["SAILOR_PATH"])
PLANNER = HOME / "sailor/sailor/Planner"
SIMULATIONS = PLANNER / "simulations"
BASELINES = PLANNER / "baselines"


def read(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text())


def training(model: str) -> Path:
    """The file of Sailor's training configuration of a model."""
    return SIMULATIONS / f"configs/training_config_{CONFIGS[model]}.json"


def simulator(model: str) -> Any:
    """Sailor's simulator of a model."""
    module = importlib.import_module("sailor.Planner.simulations.runtime_simulator")
    info, profiles = read(PLANNER / "llm_info.json"), read(SIMULATIONS / "profiles_tmp.json")
    return module.Simulator(str(HOME), read(training(model)), info, False, profiles, zone=ZONE)


def load(name: str, model: str) -> Any:
    """A planner as Sailor's ``simulator.py`` makes it, for the objective of throughput."""
    board, config = "A100-40", str(training(model))
    quotas, info = str(PLANNER / "sailor_planner/dummy_quotas_dict.json"), read(PLANNER / "llm_info.json")
    own = BASELINES / name / "profiles" / model

    def made(module: str, kind: str, *arguments: Any) -> Any:
        return getattr(importlib.import_module(f"sailor.Planner.{module}"), kind)(*arguments)

    makers: dict[str, Callable[[], Any]] = {
        "Varuna": lambda: made(
            "baselines.Varuna.varuna_planner", "VarunaPlanner", str(own / board / "profile_4.json"), "throughput"
        ),
        "Piper": lambda: made("baselines.Piper.piper_planner", "PiperPlanner", str(own / board / "profile.json")),
        "AMP": lambda: made("baselines.AMP.amp_planner", "AMPPlanner", str(own), "throughput"),
        "Metis": lambda: made("baselines.Metis.metis_planner", "MetisPlanner", str(own), config),
        "Galvatron": lambda: made(
            "baselines.Galvatron.galvatron_planner", "GalvatronPlanner", config, str(own / board), "throughput"
        ),
        "Atlas": lambda: made(
            "baselines.Atlas.atlas_planner",
            "AtlasPlanner",
            str(SIMULATIONS / "profiles_tmp.json"),
            config,
            info,
            False,
            "throughput",
        ),
        "DTFM": lambda: made(
            "baselines.DTFM.dtfm_planner", "DTFMPlanner", str(SIMULATIONS / "profiles_tmp.json"), config, info, False
        ),
        "FlashFlex": lambda: made(
            "baselines.FlashFlex.flashflex_planner",
            "FlashFlexPlanner",
            str(BASELINES / "FlashFlex/src/machine_amounts.json"),
        ),
        "Sailor": lambda: made(
            "sailor_planner.cpp_src.planner",
            "SailorPlanner",
            str(PLANNER / "sailor_planner/profiles" / model) + "/",
            config,
            quotas,
            "throughput",
            False,
        ),
    }
    if name != "Sailor" or not list((PLANNER / "sailor_planner/cpp_src").glob("libplanner*.so")):
        return makers[name]()
    sys.path.insert(0, str(PLANNER / "sailor_planner/cpp_src"))
    system, os.system = os.system, lambda command: 0
    try:
        return makers[name]()
    finally:
        os.system = system


def cluster(name: str, gpus: dict[str, int]) -> dict[str, Any]:
    """A cluster in the form that Sailor's ``simulator.py`` gives to a planner."""
    basic = read(SIMULATIONS / "configs/basic_cluster_config.json")
    zoned = {f"{board}_{ZONE}": count for board, count in gpus.items()}
    each = {board: basic[board]["gpus_per_node"] for board in gpus}
    first = next(iter(gpus))
    if name == "Sailor":
        return {**zoned, "max_cost": 0.0, "min_throughput": 0.0}
    if name == "DTFM":
        return {**zoned, "gpu_types": list(gpus), "gpus_per_node": each}
    if name == "Atlas":
        return {f"{first}_{ZONE}": gpus[first], "gpus_per_node": each[first], "gpu_type": first}
    if name in ("Metis", "AMP", "FlashFlex"):
        nodes = {
            board: {
                "num_nodes": count // each[board],
                "gpus_per_node": each[board],
                "mem_per_gpu": basic[board]["mem_per_gpu"],
            }
            for board, count in gpus.items()
        }
        return {**nodes, "zone": ZONE}
    return {
        "gpu_type": first,
        "num_nodes": gpus[first] // each[first],
        "gpus_per_node": each[first],
        "mem_per_gpu": basic[first]["mem_per_gpu"],
        "zone": ZONE,
    }


def plain(value: Any) -> Any:
    """Numbers of numpy, and vectors of C++, as plain values."""
    return value.item() if hasattr(value, "item") else list(value)


def spent() -> float:
    """Processor time of this process and of the children that have ended [s]."""
    return sum(os.times()[:4])


def plan(name: str, model: str, gpus: dict[str, int]) -> dict[str, Any]:
    """Run a planner; the first of its plans that fits counts."""
    planner, scorer = load(name, model), simulator(model)
    begin, clock = spent(), time.perf_counter()
    plans = planner.get_sorted_plans(cluster_config=cluster(name, gpus), training_config=read(training(model)))
    found: dict[str, Any] = {"seconds": spent() - begin, "wall": time.perf_counter() - clock, "skipped": 0}
    for each in plans:
        if scorer.check_config_fits(each):
            step = float(scorer.simulate_iteration_time(each)[0])
            alike = all(
                len(nodes) == 1
                for pipeline in each.get("pipeline_list", ())
                for stage in pipeline["tmp_per_stage"]
                for nodes, _ in stage
            )
            kept = {key: each[key] for key in ("pipeline_list", "mbs", "D", "P", "T") if key in each}
            return {**found, "step": step, "used": each["used_gpus"], "alike": alike, "plan": kept}
        found["skipped"] += 1
    return found


def score(model: str, plans: list[dict[str, Any]]) -> list[float | None]:
    """Step times [s]; None for a plan that does not fit."""
    scorer = simulator(model)
    return [float(scorer.simulate_iteration_time(p)[0]) if scorer.check_config_fits(p) else None for p in plans]


def answer(request: list[Any]) -> Any:
    """The answer to one request; an error of a planner is its answer."""
    try:
        return plan(*request[1:]) if request[0] == "plan" else score(*request[1:])
    except Exception as error:  # a planner of others may raise anything
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # planners, and what they start, print a lot
    with contextlib.redirect_stdout(open(os.devnull, "w")):
        for line in sys.stdin:
            out.write(json.dumps(answer(json.loads(line)), default=plain) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
