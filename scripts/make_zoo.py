"""Make the snapshots of hetgym's zoo from their sources.

    python scripts/make_zoo.py [NAME ...]

Each model is imported at batch 1, 2 and 3; the snapshot made of the first two must give the third.
The same packages give the same bytes. Needs ``pip install "hetgym[dev]"``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from hetgym.graph import DataflowGraph, from_onnx, zoo
from hetgym.graph.parametric import parametric
from hetgym.graph.serialization import dumps, write_text

LIGHT = {
    "alexnet": "bvlc_alexnet", "densenet121": "densenet121", "inception_v1": "inception_v1",
    "inception_v2": "inception_v2", "resnet50": "resnet50", "shufflenet": "shufflenet", "squeezenet": "squeezenet",
    "vgg19": "vgg19", "zfnet512": "zfnet512",
}  # fmt: skip
"""Name in the zoo -> name among the light models of the onnx package."""


def from_light(name: str) -> Callable[[int], DataflowGraph]:
    """Importer of one of onnx's light models."""
    import onnx

    path = Path(onnx.__file__).parent / "backend/test/data/light" / f"light_{LIGHT[name]}.onnx"
    return lambda batch: from_onnx(path, batch=batch, name=name)


def importers() -> dict[str, Callable[[int], DataflowGraph]]:
    """Name -> (batch -> graph) for every model of the zoo."""
    return {name: from_light(name) for name in LIGHT}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to make; all by default")
    known = importers()
    for name in parser.parse_args().names or sorted(known):
        path = zoo.FOLDER / f"{name}.json.gz"
        write_text(dumps(parametric(known[name])), path)
        graph = zoo.load(name)
        size = f"{len(graph):5} operators {len(graph.edges):5} edges {graph.flops.sum() / 1e9:8.2f} GFLOP"
        print(f"{name:14} {size} {path.stat().st_size:7} B")


if __name__ == "__main__":
    main()
