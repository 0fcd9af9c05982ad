"""Tables as they look in a terminal of 110 columns."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
from rich.console import Console, RenderableType

from hetgym import Problem, Schedule, simulate
from hetgym.bench import Measured, Row, against, choices, grouped, points, summarise
from hetgym.bench.groups import Traits
from hetgym.bench.plan import Block, device_shares
from hetgym.bench.rows import with_gaps
from hetgym.cli.console import fitting
from hetgym.cli.tables import (
    against_table,
    block_table,
    catalogue,
    choices_table,
    device_table,
    group_tables,
    shortened,
    summary_table,
)


def row(problem: str, scheduler: str, makespan: float | None) -> Row:
    graph, _, platform = problem.partition("@")
    base = Row(problem, graph, platform, 4, 3, 2, scheduler, "list", "classic", status="ok" if makespan else "broken")
    if makespan is None:
        return base
    return replace(base, makespan_s=makespan, slr=makespan / 2, speedup=8 / makespan, schedule_seconds=1e-4)


ROWS = with_gaps([row("a", "heft", 4.0), row("a", "x", 2.0), row("a", "y", None)])


def shown(*tables: RenderableType) -> str:
    text = io.StringIO()
    Console(file=text, width=110).print(*tables)
    return text.getvalue()


def test_the_summary_shows_every_scheduler_and_its_failures() -> None:
    text = shown(summary_table(summarise(ROWS), "classic"))
    assert "x †" in shown(summary_table(summarise(ROWS), "classic", ["x"])) and "†" not in text
    assert "y (1 failed)" in text and "2.00×" in text and "1/1" in text and "100 µs" in text


def test_what_is_proved_to_be_the_shortest_is_called_optimal() -> None:
    proved = with_gaps([replace(row("a", name, time), lower_bound_s=2.0) for name, time in (("heft", 4.0), ("x", 2.0))])
    text = shown(summary_table(summarise(proved), "classic")).splitlines()
    lines = {line.split()[0]: line for line in text if line.strip()}
    assert "optimal" in lines["x"] and "optimal" not in lines["heft"] and "100" in lines["heft"]


def test_comparisons_have_the_shortest_first_and_a_dash_for_failures() -> None:
    text = shown(against_table(against(ROWS, "heft"), "classic"))
    assert "makespan over heft" in text
    lines = [line.split() for line in text.splitlines() if line.strip().startswith(("x", "y"))]
    assert lines[0][:3] == ["x", "0.500", "–"] and set(lines[1][1:]) == {"–"}


def test_no_row_breaks_in_two_on_a_narrow_terminal() -> None:
    """Columns are left out instead, the spare ones first, and named."""
    problem = Problem.from_arrays([[1e3, 2.0]] * 3, [(0, 1, 1e9), (1, 2, 1e6)], device_names=["cpu", "a-longer-name"])
    table = device_table(device_shares(simulate(problem, Schedule([0, 1, 1], order=[[0], [1, 2]]), "links")))
    headings = [str(column.header) for column in table.columns]
    for width in (200, 80, 50):
        text = io.StringIO()
        console = Console(file=text, width=width)
        found, absent = fitting(table, console)
        console.print(found)
        lines = [line for line in text.getvalue().splitlines() if line.strip()]
        assert len(lines) == 4 and all(len(line) <= width for line in lines)  # headings, a rule and two devices
        assert [str(column.header) for column in found.columns] == [name for name in headings if name not in absent]
        assert bool(absent) == (width < 110)
    found, absent = fitting(summary_table(summarise(ROWS), "classic"), Console(width=80))
    assert absent == ["kind", "gap to bound"] and len(found.rows) == 3


def test_wide_tables_of_groups_come_in_parts() -> None:
    rows = with_gaps([row(f"g{k}@p", "heft", 1.0) for k in range(8)])
    tables = group_tables(grouped(rows, Traits(), ["family"], "heft"), "family", "classic", ["heft"])
    assert len(tables) == 2 and all(f"g{k}" in shown(*tables) for k in range(8))


def test_choices_fit_a_terminal() -> None:
    rows = [
        Measured("a", "pilot-append-eft", "search", "classic", 10.0, 9.999, 2.23456, None, 1.23456),
        Measured("a", "place-v1-search", "policy", "classic", 10.0, 9.998, 2.23457, None, 1.23457),
    ]
    rng = np.random.default_rng(0)
    (found,) = choices(points(rows, rng), rows, "classic", [10.0], rng)
    wide = replace(found, best=replace(found.best, low=0.98765, high=12.5), probability=0.995)
    text = shown(choices_table([wide, wide]))
    assert "10 s" in text and "98.8 to 1250.0 %" in text and "…" not in text


def test_devices_show_what_they_do() -> None:
    problem = Problem.from_arrays([[1.0, 9.0], [9.0, 1.0]], [(0, 1, 3e6)])
    trace = simulate(problem, Schedule([0, 1], order=[[0], [1]]))
    first, second = (line.split() for line in shown(device_table(device_shares(trace))).splitlines()[3:5])
    assert first[1:4] == ["1", "1", "s"] and first[-4:] == ["3", "MB", "0", "B"] and second[-2:] == ["3", "MB"]


def test_catalogues_of_numbers_are_tables() -> None:
    text = shown(catalogue([{"name": "a", "operators": 1234, "gflop": 0.5, "pools": ["x", "y"]}]))
    assert all(word in text for word in ("GFLOP", "1,234", "0.5", "x, y"))


def test_catalogues_with_texts_are_paragraphs_which_nothing_cuts() -> None:
    row = {"name": "a", "problems": 1234, "trained for": [], "summary": " ".join(["word"] * 40) + ".", "source": ""}
    first, *others = shown(catalogue([row])).splitlines()
    assert first.split() == ["a", "problems", "1,234"]
    assert len(others) > 1 and " ".join(" ".join(others).split()) == row["summary"]
    assert all(line.startswith("    word") for line in others)


def test_a_gap_that_rounding_explains_is_optimal() -> None:
    found = with_gaps(
        [replace(row("a", name, 2.0 * (1 + gap)), lower_bound_s=2.0) for name, gap in (("x", 9e-7), ("y", 2e-6))]
    )
    text = shown(summary_table(summarise(found), "classic"))
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "optimal" in lines["x"] and "optimal" not in lines["y"]


def test_shortened_names_keep_their_ends() -> None:
    assert [shortened(name, 4) for name in ("abcd", "abcde", "abcdef")] == ["abcd", "…cde", "…def"]


def test_the_longest_blocks_are_shown_in_the_order_of_the_model() -> None:
    blocks = [Block("gpu", 1, f"o{k}", f"o{k}", seconds) for k, seconds in enumerate((1.0, 5.0, 2.0, 4.0))]
    lines = [line.split() for line in shown(block_table(blocks, most=2)).splitlines() if line.strip()][2:]
    assert [line[0] for line in lines] == ["o1", "o3", "2"]
    assert (
        lines[0][-2:] == ["41.67", "%"] and lines[2][1:3] == ["shorter", "blocks"] and lines[2][-2:] == ["25.00", "%"]
    )
    assert len([line for line in shown(block_table(blocks, most=4)).splitlines() if " gpu " in line]) == 4
