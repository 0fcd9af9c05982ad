"""The files of quality against time: rows as CSV, everything as JSON, and a picture where matplotlib is installed."""

from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

from hetgym._text import csv_text, finite
from hetgym.bench.evaluation import Pareto
from hetgym.bench.folder import RunFolder, naming
from hetgym.bench.rows import Measured

COLUMNS = tuple(field.name for field in fields(Measured))  # Header of `pareto.csv`


def write_pareto(folder: RunFolder, title: str, pareto: Pareto) -> dict[str, Path]:
    """Write ``pareto.csv``, ``pareto.json`` and, for the first runtime, ``pareto.png`` and ``pareto.svg``.

    Returns:
        Label -> path, as the terminal shows them.
    """
    cells = [list(row.to_dict().values()) for row in pareto.measurement.rows]
    folder.write_text("pareto.csv", csv_text([COLUMNS, *cells]))
    document = {"format": "hetgym-pareto", "version": 1, "title": title, **pareto.to_dict()}
    files = {"pareto": folder.write_json("pareto.json", finite(document | {"columns": list(COLUMNS), "rows": cells}))}
    runtime = next((name for name, found in pareto.fronts.items() if found), "")
    if runtime and find_spec("matplotlib"):
        from hetgym.bench.pareto_picture import draw

        problems = max(point.problems for point in pareto.points)
        named = f"{title} · {problems} problem{'s' if problems > 1 else ''} · runtime {runtime}"
        for suffix in ("svg", "png"):
            with naming(folder.path / f"pareto.{suffix}") as files["picture"]:
                draw(pareto.points, pareto.fronts[runtime], runtime, named, files["picture"])
    return files
