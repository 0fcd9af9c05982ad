"""Pipeline schedules take the time that their papers say, in the memory that they say."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym import ConfigError, UnknownName, validate
from hetgym.pipeline import SCHEDULES, Pass, orders, peak_activations, run, unroll

PUBLISHED = [  # with a forward pass of 1 and a backward pass of 2, half of it for weights in ZB-H1
    ("gpipe", 4, 8, None, 33.0), ("1f1b", 4, 8, None, 33.0), ("interleaved", 4, 8, 2, 28.5),
    ("interleaved", 4, 8, 4, 26.25), ("zb-h1", 4, 8, None, 27.0),
    ("gpipe", 8, 16, None, 69.0), ("1f1b", 8, 16, None, 69.0), ("interleaved", 8, 16, 2, 58.5),
    ("interleaved", 8, 16, 4, 53.25), ("zb-h1", 8, 16, None, 55.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "stages", "micro_batches", "chunks", "makespan"), PUBLISHED)
def test_makespan(name: str, stages: int, micro_batches: int, chunks: int | None, makespan: float) -> None:
    passes = orders(name, stages, micro_batches, chunks)
    trace = run(passes, 1.0, 1.0, 1.0) if name == "zb-h1" else run(passes, 1.0, 2.0)
    assert trace.makespan == makespan


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_formulas(stages: int, groups: int) -> None:
    p, m, f, b, w = stages, stages * groups, 3.0, 4.0, 2.0
    for name in ("gpipe", "1f1b"):
        assert run(orders(name, p, m), f, b + w).makespan == (m + p - 1) * (f + b + w)
    for v in (1, 2, 3):
        expected = m * (f + b + w) + (p - 1) * (f + b + w) / v
        assert run(orders("interleaved", p, m, v), f, b + w).makespan == pytest.approx(expected)
    assert run(orders("zb-h1", p, m), f, b, w).makespan <= run(orders("1f1b", p, m), f, b + w).makespan
    assert run(orders("zb-h1", p, m), f, f, f).makespan == m * 3 * f + (p - 1) * f


@pytest.mark.parametrize(("p", "m"), [(4, 8), (8, 16), (4, 2), (3, 3), (1, 5)])
def test_activations(p: int, m: int) -> None:
    assert peak_activations(orders("gpipe", p, m)) == [m] * p
    assert peak_activations(orders("1f1b", p, m)) == [min(m, p - s) for s in range(p)]
    assert peak_activations(orders("zb-h1", p, m)) == [min(m, p)] * p
    if m % p == 0:
        assert max(peak_activations(orders("interleaved", p, m, 2))) <= p + (p - 1) / 2 + 0.5


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_pass_once_and_never_stuck(name: str) -> None:
    for p, m in ((1, 1), (2, 6), (4, 8), (5, 5)):
        passes = orders(name, p, m)
        chunks = 2 if name == "interleaved" else 1
        kinds = "FBW" if name == "zb-h1" else "FB"
        expected = sorted(Pass(kind, k, c) for kind in kinds for k in range(m) for c in range(chunks))
        assert all(sorted(order) == expected for order in passes)
        problem, schedule = unroll(passes, 1.0, 1.0, 1.0 if name == "zb-h1" else None)
        validate(problem, schedule)


def test_interleaved_passes_are_those_of_the_paper() -> None:
    """Narayanan et al. 2021, figure 4, for two devices: the first runs 2 (p - 1) + (v - 1) p = 4 passes ahead."""
    text = [
        " ".join(f"{kind}{batch}{'ab'[chunk]}" for kind, batch, chunk in row) for row in orders("interleaved", 2, 4, 2)
    ]
    assert text == [
        "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a",
        "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a",
    ]


def test_bad_numbers() -> None:
    with pytest.raises(UnknownName, match="did you mean 'gpipe'"):
        orders("gpip", 2, 2)
    with pytest.raises(ConfigError, match="3 micro-batches are not a multiple of 2 stages"):
        orders("interleaved", 2, 3, 2)
    with pytest.raises(ConfigError, match="chunks is 0"):
        orders("interleaved", 2, 4, 0)
    with pytest.raises(ConfigError, match="chunks is for 'interleaved'"):
        orders("1f1b", 2, 4, 2)
    for stages, micro_batches in ((0, 1), (1, 0), (1.5, 2)):
        with pytest.raises(ConfigError, match="must be 1 or more"):
            orders("gpipe", stages, micro_batches)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="weight times are missing"):
        run(orders("zb-h1", 2, 2), 1.0, 1.0)
    with pytest.raises(ConfigError, match="weight times without weight passes"):
        run(orders("gpipe", 2, 2), 1.0, 1.0, 1.0)
    for bad in ([1.0] * 3, -1.0, np.nan, "x"):
        with pytest.raises(ConfigError, match="forward"):
            run(orders("gpipe", 2, 2), bad, 1.0)
