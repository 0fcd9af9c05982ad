"""YAML files that are no configurations: each is refused in one sentence, and soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hetgym._input.yaml import SIZE_LIMIT, load_yaml
from hetgym.errors import ConfigError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1\nb: 2", r", line 2: not valid YAML"),
        ("- 1\n- 2", r": expected keys and values, found \[1, 2\]"),
        ("", r": expected keys and values, found None"),
        ("a: 1\nb: 2\na: 3\n", r", line 3: not valid YAML \(key 'a' is written twice\)"),
        ("a: !!python/object/apply:os.system ['true']", r", line 1: not valid YAML"),
        ("a: 2020-99-99", r": not valid YAML \(month must be"),
        ("a: " + "[" * 5000, r": (nested too deeply|not valid YAML)"),
        ("a: b" + " " * SIZE_LIMIT, r": longer than 1 MiB"),
    ],
    ids=["syntax", "list", "empty", "twice", "code", "date", "deep", "large"],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path: Path, content, message):
    file = tmp_path / "f.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_yaml(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"missing\.yaml: no such file"):
        load_yaml(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match=r"not a regular file"):
        load_yaml(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01\x80")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_yaml(tmp_path / "binary.yaml")


def test_merge_keys_may_be_overridden(tmp_path: Path):
    file = tmp_path / "f.yaml"
    file.write_text("a: &one {x: 1, y: 2}\nb: &two {<<: *one, y: 3}\nc: {<<: *two, x: 4}\n")
    assert load_yaml(file) == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 4, "y": 3}}


BOMB = "name: x\nb0: &b0 {k: 1, l: 2}\n" + "".join(
    f"b{k}: &b{k} {{<<: [{', '.join([f'*b{k - 1}'] * 10)}]}}\n" for k in range(1, 9)
)
LISTS = "a0: &a0 [1, 2]\n" + "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]\n" for k in range(1, 9))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB, "aliases unfold to more than"),
        (LISTS, "aliases unfold to more than"),
        ("a: &a {x: *a}", "line 1: not valid YAML .*a value contains itself"),
        ("a: &a [[*a]]", "a value contains itself"),
        ("a: 1" + ":59" * 100_000, "a number of more than 40 characters"),
        ("a: 1" + ":59" * 1000 + ".5", "a number of more than 40 characters"),
        ("a: " + "9" * 5000, "a number of more than 40 characters"),
        ("a: 0x" + "f" * 5000, "a number of more than 40 characters"),
        ("a: !!int [1]", "a number of more than"),
        ("a: !!float {}", "a number of more than"),
        ("a: !!binary aGk=", "not valid YAML"),
        ("a: !!set {x}", "not valid YAML"),
        ("a: !!omap [x: 1]", "not valid YAML"),
        ("? [a]\n: 1", "not valid YAML"),
        ("? {a: 1}\n: 1", "not valid YAML"),
        ("<<: 3", "not valid YAML"),
        ("<<: [3]", "not valid YAML"),
        ("a: !!timestamp x", "not valid YAML"),
        ("a: !!bool x", "not valid YAML"),
        ('a: "\\ud800"', "line 1: not valid YAML .half of a surrogate pair"),
        ("\0", "not valid YAML"),
    ],
    ids=range(21),
)
def test_what_unfolds_without_end_is_not_unfolded(tmp_path: Path, content, message):
    file = tmp_path / "f.yaml"
    file.write_text(content)
    began = time.process_time()
    if message:
        with pytest.raises(ConfigError, match=message) as caught:
            load_yaml(file)
        assert str(caught.value).isprintable() and len(str(caught.value)) <= 600
    else:
        load_yaml(file)
    assert time.process_time() - began < 20  # these took minutes, or all memory


def test_anchors_are_legal_where_they_unfold_to_little(tmp_path: Path):
    file = tmp_path / "f.yaml"
    file.write_text("a: &one [1, 2]\nb: [*one, *one]\nc: 1:30\nd: 1_000\n")
    assert load_yaml(file) == {"a": [1, 2], "b": [[1, 2], [1, 2]], "c": 90, "d": 1000}
