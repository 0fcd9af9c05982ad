"""Run the notebooks of docs/tutorials in empty folders, cell after cell in one process each, and keep what they print.

A plain runner: cells are Python without magics, and print their results. So notebooks need no Jupyter to be tested, and
any Jupyter can open them. ``python scripts/run_notebooks.py`` writes the outputs into the files; with names it runs
only those.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"


def source(cell: dict[str, Any]) -> str:
    """The text of a cell, which a notebook keeps as a list of lines or as one text."""
    return "".join(cell["source"])


def run(notebook: dict[str, Any], name: str) -> list[str]:
    """Run the cells of code of a notebook in the current folder.

    Args:
        notebook: the notebook as JSON.
        name: for tracebacks.

    Returns:
        The printed text of each cell of code, and the value of its last expression as Jupyter shows it.
    """
    names: dict[str, Any] = {"__name__": name}
    printed = []
    for number, cell in enumerate(cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        tree = ast.parse(source(cell))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        where = f"{name}, cell {number + 1}"
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(tree, where, "exec", dont_inherit=True), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), where, "eval", dont_inherit=True), names)
                if value is not None:
                    print(repr(value))
        printed.append(out.getvalue())
    return printed


def with_outputs(notebook: dict[str, Any], printed: list[str]) -> dict[str, Any]:
    """The notebook with what its cells printed."""
    texts = iter(printed)
    for number, cell in enumerate(cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        text = next(texts)
        cell["execution_count"] = number + 1
        lines = text.splitlines(keepends=True)
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": lines}] if lines else []
    return notebook


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="stems of the notebooks; all by default")
    chosen = parser.parse_args().names or sorted(path.stem for path in TUTORIALS.glob("*.ipynb"))
    for name in chosen:
        path = TUTORIALS / f"{name}.ipynb"
        notebook = json.loads(path.read_text("utf-8"))
        here = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                printed = run(notebook, name)
            finally:
                os.chdir(here)
        path.write_text(json.dumps(with_outputs(notebook, printed), indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(f"{name}: {len(printed)} cells")


if __name__ == "__main__":
    main()
