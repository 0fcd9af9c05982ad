"""Saved problems: exact round trips, and files that are not what they claim."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strategies
from effort import examples
from hypothesis import given, settings

from hetgym import Problem, ProblemError, load_problem
from hetgym._input.files import atomic_write
from hetgym.problem import _ARRAYS
from hetgym.workloads import textbook

Members = dict[str, bytes]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "problem.npz"
    textbook("topcuoglu").save(path)
    return path


@examples(60)
@given(problem=strategies.problems())
def test_round_trip_is_exact(tmp_path_factory: pytest.TempPathFactory, problem: Problem) -> None:
    path = tmp_path_factory.mktemp("archive") / "problem.npz"
    problem.save(path)
    again = load_problem(path)
    for name in _ARRAYS:
        before, after = problem._array(name), again._array(name)
        assert (after.dtype, after.shape, after.tobytes()) == (before.dtype, before.shape, before.tobytes())
    for name in ("name", "operator_names", "operator_kinds", "device_names", "digest", "id"):
        assert getattr(again, name) == getattr(problem, name)


@settings(max_examples=20)
@given(problem=strategies.machines())
def test_occupancy_survives(tmp_path_factory: pytest.TempPathFactory, problem: Problem) -> None:
    path = tmp_path_factory.mktemp("archive") / "problem.npz"
    problem.save(path)
    again = load_problem(path)
    assert (again.occupancy == problem.occupancy).all() and again.digest == problem.digest
    assert (pickle.loads(pickle.dumps(problem)).occupancy == problem.occupancy).all()


def test_names_of_any_alphabet(tmp_path: Path) -> None:
    problem = Problem.from_arrays(
        [[1.0]], [], operator_names=['算子 "1"\n'], operator_kinds=["Ä"], device_names=["gpu:0/µ"], name="模型"
    )
    problem.save(tmp_path / "p.npz")
    again = Problem.load(tmp_path / "p.npz")
    assert (again.name, again.operator_names, again.device_names) == ("模型", ('算子 "1"\n',), ("gpu:0/µ",))


def test_saving_replaces_and_leaves_nothing_beside(saved: Path) -> None:
    other = textbook("arabnejad-barbosa")
    other.save(saved)
    assert load_problem(saved).digest == other.digest
    assert [p.name for p in saved.parent.iterdir()] == ["problem.npz"]


def npy(array: Any, version: tuple[int, int] = (1, 0)) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), version=version)
    return buffer.getvalue()


def claim(shape: str, dtype: str = "<f8", data: bytes = b"", order: str = "False") -> bytes:
    """An array file whose header says anything."""
    header = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


def header(**change: Any) -> bytes:
    fields = {
        "format": "hetgym-problem",
        "version": 1,
        "name": "topcuoglu",
        "operator_names": [f"T{i}" for i in range(10)],
        "operator_kinds": ["Task"] * 10,
        "device_names": ["a", "b", "c"],
    }
    return npy(np.frombuffer(json.dumps(fields | change).encode(), np.uint8))


class Bomb:
    """An object that must never be unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was loaded",))


def pickled() -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([Bomb()], object), allow_pickle=True)
    return buffer.getvalue()


def drop(name: str) -> Callable[[Members], Members]:
    return lambda members: {key: value for key, value in members.items() if key != name}


DAMAGE: dict[str, tuple[Callable[[Members], Members], str]] = {
    "missing array": (drop("cost.npy"), "missing or unexpected arrays 'cost'"),
    "missing header": (drop("header.npy"), "missing or unexpected arrays header"),
    "unexpected array": (lambda m: m | {"extra.npy": npy([1.0])}, "missing or unexpected arrays 'extra'"),
    "no suffix": (lambda m: drop("cost.npy")(m) | {"cost": m["cost.npy"]}, "cost"),
    "wrong dtype": (lambda m: m | {"cost.npy": npy(np.zeros((10, 3), np.float32))}, "dtype float32, expected float64"),
    "other byte order": (lambda m: m | {"cost.npy": npy(np.zeros((10, 3), ">f8"))}, "dtype >f8, expected float64"),
    "Fortran order": (
        lambda m: m | {"cost.npy": npy(np.asfortranarray(np.ones((10, 3))))}, "in C order",
    ),
    "pickle for an array": (lambda m: m | {"cost.npy": pickled()}, "dtype object, expected float64"),
    "pickle for a file": (lambda m: m | {"cost.npy": pickle.dumps(Bomb())}, "not a readable archive"),
    "claims too much": (
        lambda m: m | {"cost.npy": claim("(10, 4)", data=bytes(240))}, r"has shape \(10, 4\), expected",
    ),
    "claims too little": (lambda m: m | {"cost.npy": claim("(10, 2)", data=bytes(240))}, r"has shape \(10, 2\)"),
    "claims the earth": (
        lambda m: m | {"cost.npy": claim("(1000000000000, 1000000000000)", data=bytes(240))}, r"has shape \(10+, 10+\)",
    ),
    "claims less than nothing": (lambda m: m | {"cost.npy": claim("(-10, -3)", data=bytes(240))}, "impossible shape"),
    "claims nothing at all": (lambda m: m | {"cost.npy": claim("(0, -3)")}, "impossible shape"),
    "code in the array header": (
        lambda m: m | {"cost.npy": claim("__import__('os').getpid()", data=bytes(240))}, "not a readable archive",
    ),
    "numbers for edges of no shape": (
        lambda m: m | {f"edge_{k}.npy": claim("()", t, bytes(s)) for k, t, s in
                       (("source", "<i4", 4), ("target", "<i4", 4), ("bytes", "<f8", 8), ("tensor", "<i4", 4))},
        r"'edge_source' has shape \(\), expected \(any\)",
    ),
    "edges of two lengths": (
        lambda m: m | {"edge_bytes.npy": npy(np.zeros(14))}, r"'edge_bytes' has shape \(14,\), expected \(15\)",
    ),
    "edges in a table": (
        lambda m: m | {f"edge_{k}.npy": npy(np.zeros((3, 5), t)) for k, t in
                       (("source", "<i4"), ("target", "<i4"), ("bytes", "<f8"), ("tensor", "<i4"))},
        r"'edge_source' has shape \(3, 5\), expected \(any\)",
    ),
    "costs in a line": (lambda m: m | {"cost.npy": npy(np.zeros(30))}, r"'cost' has shape \(30,\), expected"),
    "costs of others": (lambda m: m | {"cost.npy": npy(np.zeros((9, 3)))}, r"has shape \(9, 3\), expected"),
    "a latency too few": (lambda m: m | {"latency.npy": npy(np.zeros((2, 2)))}, r"'latency' has shape \(2, 2\)"),
    "costs that are none": (lambda m: m | {"cost.npy": npy(np.full((10, 3), np.nan))}, r"cost\[0, 0\] is nan"),
    "an edge to nowhere": (
        lambda m: m | {"edge_target.npy": npy(np.full(15, 77, np.int32))}, "edge 0 -> 77 leaves",
    ),
    "newer version": (lambda m: m | {"header.npy": header(version=2)}, "not a hetgym-problem of format version 1"),
    "another format": (lambda m: m | {"header.npy": header(format="hetgym-graph")}, "not a hetgym-problem"),
    "header of numbers": (lambda m: m | {"header.npy": npy(np.frombuffer(b"[1, 2]", np.uint8))}, "not a JSON object"),
    "header of noise": (lambda m: m | {"header.npy": npy(np.frombuffer(b"{\xff", np.uint8))}, "not UTF-8"),
    "deep header": (
        lambda m: m | {"header.npy": npy(np.frombuffer(b"[" * 100_000, np.uint8))}, "nested too deeply",
    ),
    "names of another type": (
        lambda m: m | {"header.npy": header(device_names=[1, 2, 3])}, "'device_names' is not a list of strings",
    ),
    "names missing": (lambda m: m | {"header.npy": header(operator_kinds=None)}, "'operator_kinds' is not a list"),
    "too few kinds": (
        lambda m: m | {"header.npy": header(operator_kinds=["Task"])}, "1 operator kinds for 10 operators",
    ),
}  # fmt: skip


def test_the_tampering_itself_is_sound(saved: Path) -> None:
    """Rewriting the members without damage gives a file that loads, so the damage below is what is refused."""
    rewrite(saved, lambda members: members | {"header.npy": header(), "cost.npy": npy(np.ones((10, 3)))})
    assert load_problem(saved).cost.tolist() == [[1.0] * 3] * 10
    rewrite(saved, lambda members: members | {"cost.npy": claim("(10, 3)", data=bytes(240))})
    assert load_problem(saved).cost.tolist() == [[0.0] * 3] * 10


def rewrite(path: Path, damage: Callable[[Members], Members]) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in damage(members).items():
            archive.writestr(name, content)


def assert_refused(path: Path, message: str) -> None:
    with pytest.raises(ProblemError, match=message) as caught:
        load_problem(path)
    assert "\n" not in str(caught.value).strip()


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_one_sentence(saved: Path, what: str) -> None:
    damage, message = DAMAGE[what]
    rewrite(saved, damage)
    assert_refused(saved, message)


def test_truncated_anywhere(saved: Path) -> None:
    content = saved.read_bytes()
    for size in range(0, len(content), 97):
        saved.write_bytes(content[:size])
        assert_refused(saved, "problem.npz: ")


def test_flipped_bytes_never_escape_as_another_error(saved: Path) -> None:
    """Any single damaged byte gives a problem (of the same content) or a ProblemError."""
    content = saved.read_bytes()
    digest = load_problem(saved).digest
    refused = 0
    for at in range(0, len(content), 13):
        saved.write_bytes(content[:at] + bytes([content[at] ^ 0xA5]) + content[at + 1 :])
        try:
            assert load_problem(saved).digest == digest
        except ProblemError:
            refused += 1
    assert refused > 50


def test_not_ours(tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    np.savez(other, a=np.ones(3))
    assert_refused(other, "missing or unexpected arrays header")
    other.write_bytes(b"PK\x03\x04 no archive at all")
    assert_refused(other, "not a readable archive")
    other.write_text("hello")
    assert_refused(other, "not a readable archive")
    assert_refused(tmp_path / "absent.npz", "absent.npz: no such file$")
    (tmp_path / "folder.npz").mkdir()
    assert_refused(tmp_path / "folder.npz", "folder.npz: not a regular file")
    assert_refused(tmp_path / "problem", "problem: no such file$")
    (tmp_path / "problem.toml").touch()
    assert_refused(tmp_path / "problem.toml", "unknown problem format '.toml'; known: ")


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"nowhere/p.npz: cannot be written \(No such file or directory\)"):
        textbook("topcuoglu").save(tmp_path / "nowhere" / "p.npz")
    (tmp_path / "file").write_text("")
    with pytest.raises(ProblemError, match="cannot be written"):
        textbook("topcuoglu").save(tmp_path / "file" / "p.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="needs permissions that bind")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ProblemError, match="cannot be written"):
        textbook("topcuoglu").save(tmp_path / "p.npz")
    tmp_path.chmod(0o700)
    assert list(tmp_path.iterdir()) == []


def test_nothing_half_written_is_left(saved: Path) -> None:
    """An interrupted write leaves the old file and no other."""
    before = saved.read_bytes()

    def interrupted(file: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic_write(saved, interrupted)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["problem.npz"]


def test_a_full_disk_is_a_sentence(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ProblemError, match=r"cannot be written \(No space left on device\)"):
        textbook("arabnejad-barbosa").save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["problem.npz"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_files_get_the_usual_permissions(saved: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert saved.stat().st_mode & 0o777 == 0o666 & ~umask


def test_flags_of_another_length_and_names_of_two_lines_are_one_sentence(tmp_path: Path) -> None:
    import hetgym
    from hetgym import ProblemError
    from hetgym.workloads import textbook

    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    textbook("topcuoglu").save(good)
    arrays = dict(np.load(good))
    np.savez(bad, **(arrays | {"asynchronous": np.zeros(0, np.bool_)}))
    with pytest.raises(ProblemError, match=r"'asynchronous' has shape \(0,\), expected \(3\)"):
        hetgym.load_problem(bad)
    np.savez(bad, **(arrays | {"two\nlines": np.zeros(0)}))
    with pytest.raises(ProblemError) as refused:
        hetgym.load_problem(bad)
    assert "\n" not in str(refused.value)
