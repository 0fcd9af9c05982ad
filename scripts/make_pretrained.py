"""Add a trained policy to the package.

    hetgym train gnn --seeds 0-4 --out runs
    python scripts/make_pretrained.py runs/gnn-s0 gnn-v1

Copies the weights at the end of the training. Adds to their card the command, the versions of the training software,
the processor time, the last evaluation of each finished seed beside it, and, where no PyTorch is needed to plan, the
policy's results on known problems, which the tests and the wheel check compute again.
"""

from __future__ import annotations

import argparse
import json
from importlib import metadata
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from hetgym.agents import artefact, candidates, pretrained, recipe
from hetgym.agents.lists import dispatcher
from hetgym.agents.lists import planner as lists
from hetgym.agents.place import planner as place
from hetgym.agents.regions import planner as regions
from hetgym.agents.splits import planner as splits

PACKAGES = ("hetgym", "torch", "torch-geometric", "stable-baselines3", "sb3-contrib", "numpy", "numba")

PLANNERS = {
    "list-gradient": lists,
    "run-gradient": dispatcher,
    "place-labelling": place,
    "move-outcomes": regions,
    "split-outcomes": splits,
}
"""Algorithm -> the module that reads and writes the files of its policies."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a training run, RECIPE-sSEED")
    parser.add_argument("name", help="under which hetgym.agents.load finds it")
    parser.add_argument("--samples", type=int, default=1, help="episodes that it plans by, unless asked for others")
    parser.add_argument("--temperature", type=float, default=1.0, help="of these episodes")
    options = parser.parse_args()
    results = json.loads((options.run / "results.json").read_text("utf-8"))
    trained, last = results["recipe"], options.run / "policy"
    more = {
        "name": options.name,
        "command": command(trained),
        "core_seconds": results["core_seconds"],
        "seeds": seeds(options.run),
        "versions": {package: metadata.version(package) for package in PACKAGES},
    }
    compiled = True
    if trained["algorithm"] in PLANNERS:
        files = PLANNERS[trained["algorithm"]].FILES
        card, weights, save = files.load(last).card, load_file(f"{last}.safetensors"), files.save
    else:
        from hetgym.agents.network_policy import load_policy

        policy = load_policy(f"{last}.safetensors")
        compiled = policy.network.level == "candidates"
        weights = {name: tensor.numpy() for name, tensor in policy.network.state_dict().items()}
        card, save = policy.card, candidates.FILES.save if compiled else written
        more |= {"samples": options.samples, "temperature": options.temperature} if compiled else {}
    card = {key: value for key, value in card.items() if key not in ("format", "version")} | more
    save(pretrained.FOLDER / options.name, weights, card)
    if compiled:
        shipped = pretrained.read(options.name)
        card["known"] = {case: pretrained.replay(shipped, case) for case in pretrained.CASES[shipped.kind]}
        save(pretrained.FOLDER / options.name, weights, card)
    print(json.dumps(card, indent=1))


def command(document: dict[str, Any]) -> str:
    """The command that trains by a recipe, which must be one of the shipped ones."""
    for name in recipe.names():
        if json.loads(json.dumps(recipe.load_recipe(name, seed=document["seed"]).document())) == document:
            return f"hetgym train {name} --seed {document['seed']}"
    raise SystemExit("the recipe of the run is not, or no longer, a shipped one")


def seeds(run: Path) -> dict[str, float]:
    """Mean makespan over the reference at the end of a run and of those beside it that differ in their seed."""
    stem = run.name.rpartition("-s")[0]
    done = {path.parent.name.removeprefix(f"{stem}-s"): path for path in run.parent.glob(f"{stem}-s*/results.json")}
    ends = {seed: json.loads(done[seed].read_text())["final"] for seed in sorted(done) if seed.isdigit()}
    return {seed: end["ratio_reference"] for seed, end in ends.items()}


def written(path: Path, weights: artefact.Weights, card: dict[str, Any]) -> None:
    """Write a network that PyTorch runs."""
    artefact.save_pair(path, artefact.NETWORK_FORMAT, weights, card)


if __name__ == "__main__":
    main()
