"""``hetgym price`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import ask

from hetgym import load_graph, load_platform
from hetgym.costs import explain
from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.graph.serialization import to_json

SMALL = ("price", "llama-3-8b", "--phase", "decode", "--dims", "sequence=64")
Q = "layers.3.self_attn.q_proj"


def test_one_operator_is_explained_on_each_device(tmp_path: Path) -> None:
    done = ask(*SMALL, "--platform", "cpu-2gpu-nvlink", "--operator", Q, "--dtype", "bfloat16", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{Q} (Gemm) on cpu: " in done.stdout and f"{Q} (Gemm) on gpu0, gpu1: " in done.stdout
    for text in ("xeon-core, class Gemm", "no units for bfloat16", "half_costs of the device prices bfloat16", "P90"):
        assert text in done.stdout
    assert not list(tmp_path.iterdir())


def test_the_table_has_the_dearest_and_the_sum(tmp_path: Path) -> None:
    done = ask(*SMALL, "--platform", "8gpu-node", cwd=tmp_path)
    first, *lines = done.stdout.splitlines()
    assert first.startswith("gpu0, gpu1, gpu2, gpu3, gpu4, gpu5, gpu6, gpu7: 675 operators, ") and "in sum" in first
    rows = [line.split() for line in lines if line.startswith(("  lm_head", "  layers"))]
    assert rows[0][:2] == ["lm_head", "1"] and rows[1][:2] == ["layers.0.mlp.gate_proj", "64"]
    assert "the 200 dearest" in done.stdout


def test_json_has_every_price(tmp_path: Path) -> None:
    done = ask("price", "squeezenet", "--platform", "cpu-gpu", "--json", cwd=tmp_path)
    found, graph, platform = json.loads(done.stdout), load_graph("squeezenet"), load_platform("cpu-gpu")
    assert (found["model"], found["platform"], found["costs"]) == ("squeezenet", "cpu-gpu", "auto")
    pairs = [(op, device) for device in platform for op in graph.operators]
    expected = [explain(op, device).to_dict() | {"devices": [device.name]} for op, device in pairs]
    assert found["prices"] == json.loads(json.dumps(expected))


def test_costs_options_and_what_cannot_run(tmp_path: Path) -> None:
    words = ("price", "squeezenet", "--platform", "cpu-gpu", "--operator", "Conv_0")
    assert "model   roofline, class conv" in ask(*words, "--costs", "roofline", cwd=tmp_path).stdout
    assert "model   xeon-core, class Conv" in ask(*words, "--costs", "xeon-core", cwd=tmp_path).stdout
    fused = ask(*words, "--fuse", cwd=tmp_path)
    assert "fused: priced as its anchor Conv" in fused.stdout or fused.returncode == 2
    never = ask(*words, "--dtype", "float64", "--platform", "8gpu-node", "--json", cwd=tmp_path)
    (row,) = json.loads(never.stdout)["prices"]
    assert (row["seconds"] is None) == ("float64" not in load_platform("8gpu-node")[0].peak_flops)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--operator", "Conv_00"], "unknown operator 'Conv_00'; did you mean 'Conv_0'"),
        (["--costs", "xeon-cor"], "unknown cost model 'xeon-cor'; did you mean 'xeon-core'"),
        (["--platform", "cpu-gpuu"], "cpu-gpuu"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(words: list[str], message: str, tmp_path: Path) -> None:
    done = ask("price", "squeezenet", "--platform", "cpu-gpu", *words, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and not done.stdout


def test_names_are_not_read_as_markup(tmp_path: Path) -> None:
    x = Tensor((4,))
    to_json(DataflowGraph([Operator("[/x]", "Relu", (x,), (x,))], []), tmp_path / "g.json")
    for extra in ([], ["--operator", "[/x]"]):
        done = ask("price", str(tmp_path / "g.json"), "--platform", "cpu-gpu", *extra, cwd=tmp_path)
        assert done.returncode == 0 and "[/x]" in done.stdout, done.stderr
