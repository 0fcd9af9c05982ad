"""Stages in the words of other programs."""

from __future__ import annotations

from hetgym.pipeline.programs import layouts_of, roles_of

NAMES = ["words", *(f"layers.{k}" for k in range(4)), "norm", "head"]


def test_words_and_head_are_no_layers() -> None:
    assert roles_of(NAMES) == ["words", *["layer"] * 4, "head", "head"]
    assert roles_of(["first", "layers.0"]) == ["layer", "layer"]
    assert roles_of(["embed"]) == ["words"]


def test_stages_are_said_in_three_ways() -> None:
    assert layouts_of(NAMES, roles_of(NAMES), [(0, 2), (2, 5), (5, 7)]) == {
        "megatron": '--pipeline-model-parallel-size 3 --pipeline-model-parallel-layout "Et|t*3|L"',
        "vllm": "VLLM_PP_LAYER_PARTITION=1,3,0",
        "pipelining": 'split_spec={"layers.1": SplitPoint.BEGINNING, "norm": SplitPoint.BEGINNING}',
    }


def test_what_a_program_cannot_say_is_left_out() -> None:
    names = ["words", "position_embeddings", "layers.0", "layers.1"]
    assert set(layouts_of(names, roles_of(names), [(0, 1), (1, 4)])) == {"pipelining"}  # the words are apart
    both = ["encoder.block.0", "encoder.block.1", "decoder.block.0"]
    assert set(layouts_of(both, ["layer"] * 3, [(0, 2), (2, 3)])) == {"pipelining"}
    assert layouts_of(["conv", "pool", "dense"], ["layer"] * 3, [(0, 1), (1, 3)]) == {}
    assert layouts_of(NAMES, roles_of(NAMES), [(0, 7)]) == {}
