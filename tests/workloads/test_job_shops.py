"""Job shops: what becomes of their lines, known optima, and damage in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import hetgym
from hetgym import Problem, ProblemError, load_problem
from hetgym.workloads.job_shops import JobShops, is_job_shop

FT06 = """# Fisher and Thompson 1963, six jobs on six machines; the optimum is 55
6 6
2 1  0  3  1  6  3  7  5  3  4  6
1 8  2  5  4 10  5 10  0 10  3  4
2 5  3  4  5  8  0  9  1  1  4  7
1 5  0  5  2  5  3  3  4  8  5  9
2 9  1  3  4  5  5  4  0  3  3  1
1 3  3  3  5  9  0 10  4  4  2  1
"""

TAILLARD = """Nb of jobs, Nb of Machines, Time seed, Machine seed, Upper bound, Lower bound
          2           3   840612802   398197754        7        7
Times
 3  2  1
 4  0  2
Machines
 1  3  2
 3  1  2
"""

FLEXIBLE = """2 3 1.5
2  1 1 4  2 2 5 3 2
3  2 1 3 2 3  1 3 6  2 1 1 2 2
"""
"""By hand: job 2 takes machine 2 until 3, 3 until 9 and 1 until 10, as early as it can; meanwhile job 1 takes 1 until 4
and 2 until 9. So nothing waits, and the makespan is that of job 2 alone."""


def loaded(tmp_path: Path, text: str, name: str = "tiny.jsp") -> Problem:
    (tmp_path / name).write_text(text)
    return load_problem(tmp_path / name)


def test_ft06_has_its_known_optimum(tmp_path: Path) -> None:
    pytest.importorskip("ortools")
    problem = loaded(tmp_path, FT06, "ft06.txt")
    assert (problem.name, problem.cost.shape, problem.num_edges) == ("ft06", (36, 6), 30)
    assert hetgym.baselines.get("cp-sat")(problem).makespan == 55.0


def test_a_published_optimum_of_ft06_takes_its_time_whatever_the_runtime(tmp_path: Path) -> None:
    problem = loaded(tmp_path, FT06)
    machine = np.isfinite(problem.cost).argmax(axis=1)
    jobs = ["143625", "246153", "312546", "364125", "253461", "362514"]  # in the order of each machine
    step = {(i // 6, int(machine[i])): i for i in range(36)}
    order = [[step[int(job) - 1, k] for job in row] for k, row in enumerate(jobs)]
    for runtime in ("classic", "links", "fair", "donf"):
        assert hetgym.simulate(problem, hetgym.Schedule(machine, order), runtime).makespan == 55.0


def test_jobs_are_chains_and_machines_are_forced(tmp_path: Path) -> None:
    problem = loaded(tmp_path, "2 2\n1 5 0 2.5\n0 3\n")
    assert problem.cost.tolist() == [[np.inf, 5.0], [2.5, np.inf], [3.0, np.inf]]
    assert list(zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True)) == [(0, 1, 0.0)]
    assert problem.latency.max() == 0.0
    assert problem.operator_names == ("J0.0", "J0.1", "J1.0") and problem.device_names == ("M0", "M1")


def test_taillards_form_with_and_without_its_words(tmp_path: Path) -> None:
    problem = loaded(tmp_path, TAILLARD)
    inf = np.inf
    assert problem.cost.tolist() == [[3, inf, inf], [inf, inf, 2], [inf, 1, inf], [inf, inf, 4], [0, inf, inf],
                                     [inf, 2, inf]]  # fmt: skip
    assert problem.operator_names[0] == "J1.1" and problem.device_names == ("M1", "M2", "M3")
    bare = "\n".join(line for line in TAILLARD.splitlines() if line.strip()[0].isdigit())
    standard = "2 3\n0 3 2 2 1 1\n2 4 0 0 1 2\n"
    assert loaded(tmp_path, bare).digest == loaded(tmp_path, standard).digest == problem.digest


def test_flexible_job_shops_choose_their_machines(tmp_path: Path) -> None:
    problem = loaded(tmp_path, FLEXIBLE, "tiny.fjs")
    inf = np.inf
    assert problem.cost.tolist() == [[4, inf, inf], [inf, 5, 2], [3, 3, inf], [inf, inf, 6], [1, 2, inf]]
    edges = zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True)
    assert list(edges) == [(0, 1), (2, 3), (3, 4)]
    pytest.importorskip("ortools")
    assert hetgym.baselines.get("cp-sat")(problem).makespan == 10.0


MK01 = """10 6 2
 6 2 1 5 3 4 3 5 3 3 5 2 1 2 3 4 6 2 3 6 5 2 6 1 1 1 3 1 3 6 6 3 6 4 3
 5 1 2 6 1 3 1 1 1 2 2 2 6 4 6 3 6 5 2 6 1 1
 5 1 2 6 2 3 4 6 2 3 6 5 2 6 1 1 3 3 4 2 6 6 6 2 1 1 5 5
 5 3 6 5 2 6 1 1 1 2 6 1 3 1 3 5 3 3 5 2 1 2 3 4 6 2
 6 3 5 3 3 5 2 1 3 6 5 2 6 1 1 1 2 6 2 1 5 3 4 2 2 6 4 6 3 3 4 2 6 6 6
 6 2 3 4 6 2 1 1 2 3 3 4 2 6 6 6 1 2 6 3 6 5 2 6 1 1 2 1 3 4 2
 5 1 6 1 2 1 3 4 2 3 3 4 2 6 6 6 3 2 6 5 1 1 6 1 3 1
 5 2 3 4 6 2 3 3 4 2 6 6 6 3 6 5 2 6 1 1 1 2 6 2 2 6 4 6
 6 1 6 1 2 1 1 5 5 3 6 6 3 6 4 3 1 1 2 3 3 4 2 6 6 6 2 2 6 4 6
 6 2 3 4 6 2 3 3 4 2 6 6 6 3 5 3 3 5 2 1 1 6 1 2 2 6 4 6 2 1 3 4 2
"""
"""Brandimarte 1993, mk01: 55 operations of ten jobs on six machines; the optimum is 40."""


def test_a_published_flexible_job_shop(tmp_path: Path) -> None:
    problem = loaded(tmp_path, MK01, "mk01.fjs")
    assert (problem.cost.shape, problem.num_edges) == ((55, 6), 45)
    choices = np.isfinite(problem.cost).sum(axis=1)
    assert (choices.sum(), choices.max()) == (115, 3)
    assert 40 <= hetgym.baselines.get("heft")(problem).makespan <= 48


@pytest.mark.slow
def test_mk01_has_its_known_optimum(tmp_path: Path) -> None:
    pytest.importorskip("ortools")
    assert hetgym.baselines.get("cp-sat")(loaded(tmp_path, MK01, "mk01.fjs")).makespan == 40.0


def test_files_of_jsplib_have_no_suffix(tmp_path: Path) -> None:
    for text in (FT06, TAILLARD):
        found = loaded(tmp_path, text, "ft06")
        assert found.name == "ft06" and found.digest == loaded(tmp_path, text, "ft06.jsp").digest
    flexible = "2 2\n1 1 1 4\n1 1 1 5\n"
    for text in (FLEXIBLE, flexible, "3 2\n1 14 0\n2 20 1 1\n3 7 0\n", "2 2\n1 5 0 2.5\n0 3\n", "", "1", "\0", "two"):
        with pytest.raises(ProblemError, match="ft06: unknown problem format ''; known: .* of JSPLIB without a suffix"):
            loaded(tmp_path, text, "ft06")


BAD = [
    ("a.jsp", "", "a.jsp: ends before the numbers of jobs and machines"),
    ("a.jsp", "six 6\n", "a.jsp, line 1: the number of jobs is 'six', not a whole number from 1 to"),
    ("a.jsp", "1\n0 1\n", "line 1: ends before the number of machines"),
    ("a.jsp", "1 999999999\n0 1\n", "the number of machines is '999999999', not a whole number from 1 to 1024"),
    ("a.jsp", "999999999999999999999 1\n", "the number of jobs is '9+', not"),
    ("a.jsp", "0 1\n", "the number of jobs is '0'"),
    ("a.jsp", "-1 1\n", "the number of jobs is '-1'"),
    ("a.jsp", "2 2\n0 1 1 1\n", "a.jsp: 1 lines after the first; 2 jobs have 2 lines of pairs or 4 lines"),
    ("a.jsp", "1 2\n# c\n0 1 1\n", "line 3: 3 numbers do not form pairs"),
    ("a.jsp", "1 2\n0 1 2 1\n", "line 2: a machine is '2', not a whole number from 0 to 1"),
    ("a.jsp", "1 2\n0 1 1 -3\n", "line 2: a time is '-3', not a number from 0"),
    ("a.jsp", "1 2\n0 1 1 nan\n", "a time is 'nan'"),
    ("a.jsp", "1 2\n0 1 1 inf\n", "a time is 'inf'"),
    ("a.jsp", "1 2\n0 1 1 1e400\n", "a time is '1e400'"),
    ("a.jsp", "1 2\n0 1 1 1_0\n", "a time is '1_0'"),
    ("a.jsp", "1 2\n0 1 1 " + "9" * 5000, "a time is '99"),
    ("a.txt", TAILLARD.replace(" 3  2  1", " 3  2"), "a.txt, line 4: 2 numbers, not 3"),
    ("a.txt", TAILLARD.replace(" 1  3  2", " 0  3  2"), "line 7: a machine is '0', not a whole number from 1 to 3"),
    ("a.txt", TAILLARD + TAILLARD, "line 9: the file continues after an instance of 2 jobs; a file holds one instance"),
    ("a.txt", TAILLARD.rpartition(" 3  1")[0], "a.txt: 3 lines after the first; 2 jobs have 4 lines"),
    ("a.fjs", "2 2\n1 1 1 1\n", "a.fjs: ends before job 2 of 2"),
    ("a.fjs", "1 2\n2 1 1 1\n", "line 2: ends before the number of choices"),
    ("a.fjs", "1 2\n1 2 1 1\n", "line 2: ends before a machine"),
    ("a.fjs", "1 2\n1 2 1 1 1 3\n", "line 2: operation 1 has a machine twice"),
    ("a.fjs", "1 2\n1 3 1 1 2 3 2 3\n", "the number of choices is '3', not a whole number from 1 to 2"),
    ("a.fjs", "1 2\n1 1 0 1\n", "a machine is '0', not a whole number from 1 to 2"),
    ("a.fjs", "1 2\n1 1 1 1 7\n", "line 2: 5 numbers, not 4"),
    ("a.fjs", "1 2\n1 1 1 1\n9 9", "line 3: the file continues"),
    ("a.fjs", "1 2\n0\n", "the number of operations is '0'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "message"), BAD)
def test_bad_files_are_refused_with_file_and_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message) as caught:
        loaded(tmp_path, text, name)
    assert name in str(caught.value) and str(caught.value).isprintable()


def test_a_large_table_is_refused_before_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="20000 operators on 1024 devices are more than"):
        loaded(tmp_path, "1 1024\n" + "0 1 " * 20_000)


def test_a_job_shop_has_devices_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.jsp").write_text(FT06)
    with pytest.raises(ProblemError, match=r"only task graphs \(.stg, .dot, .gv\) take a number of devices"):
        load_problem(tmp_path / "a.jsp", devices=2)


def test_operations_are_limited_over_all_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["hetgym.workloads.job_shops"]
    (tmp_path / "a.fjs").write_text("2 1\n2 1 1 5 1 1 6\n2 1 1 7 1 1 8\n")
    monkeypatch.setattr(module, "MOST_OPERATORS", 4)
    assert load_problem(tmp_path / "a.fjs").num_operators == 4
    monkeypatch.setattr(module, "MOST_OPERATORS", 3)
    with pytest.raises(ProblemError, match="line 3: more than 3 operations"):
        load_problem(tmp_path / "a.fjs")


def test_random_shops_are_drawn_as_taillards() -> None:
    mix = JobShops(jobs=(3, 5), machines=(2, 4))
    for seed in range(20):
        problem = mix(np.random.default_rng(seed))
        n, machines = problem.cost.shape
        jobs = n // machines
        assert 3 <= jobs <= 5 and 2 <= machines <= min(4, jobs) and is_job_shop(problem)
        assert (n, problem.num_edges, machines) <= mix.limit
        assert problem.component.tolist() == np.repeat(np.arange(jobs), machines).tolist()
        able = np.isfinite(problem.cost)
        assert (able.reshape(jobs, machines, machines).sum(axis=1) == 1).all(), "each job visits each machine once"
        times = problem.cost[able]
        assert (times == times.round()).all() and times.min() >= 1 and times.max() <= 99
    assert mix(np.random.default_rng(0)).digest == mix(np.random.default_rng(0)).digest
    with pytest.raises(ProblemError, match="jobs and machines must be ranges"):
        JobShops(jobs=(5, 3))
