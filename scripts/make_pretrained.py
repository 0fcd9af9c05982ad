"""Take a trained place policy into the package.

    hetgym train place --out runs --name place
    python scripts/make_pretrained.py runs/place/best place-v1 --command "hetgym train place" --seconds 340

Copies the weights, and adds to their card the versions of what trained them and the makespans that the policy
gives on the textbook problems, which the tests and the wheel check ask for again.
"""

from __future__ import annotations

import argparse
from importlib import metadata

from safetensors.numpy import load_file

from hetgym.agents.place.artefact import load_planner, save_planner
from hetgym.agents.pretrained import FOLDER
from hetgym.workloads import textbook

PACKAGES = ("hetgym", "torch", "torch-geometric", "numpy", "numba")
KNOWN = ("topcuoglu", "arabnejad-barbosa")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="policy of a run, without suffix")
    parser.add_argument("name", help="under which hetgym.agents.load finds it")
    parser.add_argument("--command", required=True, help="what trained it")
    parser.add_argument("--seconds", required=True, type=float, help="how long that took")
    options = parser.parse_args()
    planner = load_planner(options.path)
    card = {key: value for key, value in planner.card.items() if key not in ("format", "version")}
    card |= {
        "name": options.name, "command": options.command, "training_seconds": options.seconds,
        "versions": {package: metadata.version(package) for package in PACKAGES},
        "known": {problem: planner(textbook(problem)).makespan for problem in KNOWN},
    }  # fmt: skip
    save_planner(FOLDER / options.name, load_file(f"{options.path}.safetensors"), card)
    print(card)


if __name__ == "__main__":
    main()
