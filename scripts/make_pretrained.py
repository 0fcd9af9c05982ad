"""Add a trained policy to the package.

    hetgym train place --out runs --name place
    python scripts/make_pretrained.py runs/place place-v1

Copies the weights of the best evaluation. Adds to their card the versions of the training software, the training time,
and the policy's results on known problems, which the tests and the wheel check compute again.
"""

from __future__ import annotations

import argparse
import json
from importlib import metadata
from pathlib import Path

from safetensors.numpy import load_file

from hetgym.agents import candidates, pretrained
from hetgym.agents.lists import dispatcher
from hetgym.agents.lists import planner as lists
from hetgym.agents.place import planner as place
from hetgym.agents.regions import planner as regions
from hetgym.agents.splits import planner as splits

PACKAGES = ("hetgym", "torch", "torch-geometric", "stable-baselines3", "sb3-contrib", "numpy", "numba")

PLANNERS = {
    "list-gradient": lists,
    "run-gradient": dispatcher,
    "self-labelling": place,
    "move-outcomes": regions,
    "split-outcomes": splits,
}
"""Algorithm -> the module that reads and writes the files of its policies."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a training run")
    parser.add_argument("name", help="under which hetgym.agents.load finds it")
    parser.add_argument("--samples", type=int, default=1, help="episodes that it plans by, unless asked for others")
    parser.add_argument("--temperature", type=float, default=1.0, help="of these episodes")
    options = parser.parse_args()
    results = json.loads((options.run / "results.json").read_text("utf-8"))
    recipe = results["recipe"]
    more = {
        "name": options.name,
        "training_seconds": results["seconds"],
        "versions": {package: metadata.version(package) for package in PACKAGES},
    }
    best = options.run / "best"
    if recipe["algorithm"] in PLANNERS:
        files = PLANNERS[recipe["algorithm"]]
        found = files.FILES.load(best).card
        card = {key: value for key, value in found.items() if key not in ("format", "version")} | more
        weights, save = load_file(f"{best}.safetensors"), files.FILES.save
    else:
        from hetgym.agents.network_policy import load_policy

        policy = load_policy(f"{best}.safetensors")
        card = {key: value for key, value in policy.card.items() if key not in ("format", "version")} | more
        weights = {name: tensor.numpy() for name, tensor in policy.network.state_dict().items()}
        save, card = candidates.FILES.save, card | {"samples": options.samples, "temperature": options.temperature}
    if card.get("step") == 0:
        parser.error("nothing was better than before training; ship a rule instead (hetgym/agents/rules.py)")
    save(pretrained.FOLDER / options.name, weights, card)
    policy = pretrained.read(options.name)
    card["known"] = {case: pretrained.replay(policy, case) for case in pretrained.CASES[policy.kind]}
    save(pretrained.FOLDER / options.name, weights, card)
    print(json.dumps(card, indent=1))


if __name__ == "__main__":
    main()
