"""Language models from configurations: published numbers of parameters, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from hetgym.errors import GraphError
from hetgym.graph.from_config import from_config
from tests.graph.models import CONFIGS

PARAMETERS = {
    "llama-3.1-8b": 8_030_261_248, "mistral-7b": 7_241_732_096, "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-0.5b": 494_032_768, "qwen3-8b": 8_190_735_360, "qwen3-0.6b": 596_049_920, "phi-3-mini": 3_821_079_552,
    "gemma-2-9b": 9_241_705_984, "gemma-3-27b": 27_009_346_304, "gemma-3-4b": 3_880_263_168,
    "mixtral-8x7b": 46_702_792_704,
    "qwen1.5-moe": 14_315_784_192, "qwen3-30b-a3b": 30_532_122_624, "qwen3-next-80b": 79_674_391_296,
    "gpt-oss-20b": 20_914_757_184, "gpt-oss-120b": 116_829_156_672, "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_419_200, "falcon-7b": 6_921_720_704, "gpt2": 124_439_808, "neox-20b": 20_554_567_680,
    "qwen3.5-27b": 26_895_998_464,
}  # fmt: skip


@pytest.mark.parametrize(("name", "count"), PARAMETERS.items())
def test_parameters_are_the_published_ones(name: str, count: int) -> None:
    assert from_config(CONFIGS[name]).parameters == count


def test_a_file_names_the_model_by_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "Meta-Llama-3-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIGS["llama-3.1-8b"]))
    found = from_config(folder / "config.json")
    assert (found.name, found.family, len(found.layers)) == ("Meta-Llama-3-8B", "llama", 32)


def test_defaults_that_published_files_rely_on() -> None:
    found = from_config(CONFIGS["gemma-3-4b"])
    assert (found.positions, found.layers[0].heads, found.layers[0].kv_heads, found.layers[0].key_size) == (
        131_072, 8, 4, 256,
    )  # fmt: skip
    assert found.notes[0] == (
        "config leaves numbers to the defaults of gemma3_text: head_dim 256, vocab_size 262208, "
        "max_position_embeddings 131072, num_attention_heads 8, num_key_value_heads 4."
    )
    assert from_config(CONFIGS["falcon-7b"]).positions == 2048
    assert len(from_config(CONFIGS["gemma-3-27b"]).notes) == 1  # on its image encoder


@pytest.mark.parametrize(
    ("pictures", "note"),
    [
        ({"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304}, "takes about 822 MB in 16 bits"),
        ({"embed_dim": 1280, "depth": 32}, "takes about 1.26 GB in 16 bits"),
        ({"hidden_size": -5, "depth": "x"}, "is left out; reserve memory for it"),
    ],
)
def test_an_image_encoder_is_left_out_and_said(pictures: dict[str, Any], note: str) -> None:
    found = from_config({**CONFIGS["llama-3.1-8b"], "vision_config": pictures})
    assert note in found.notes[0]
    assert list(found.weights) == list(from_config(CONFIGS["llama-3.1-8b"]).weights)


def test_an_unknown_longest_context_is_said() -> None:
    found = from_config({**CONFIGS["llama-3.1-8b"], "max_position_embeddings": None})
    assert found.positions == 0 and found.notes == ("config does not state the longest context.",)
    with pytest.raises(GraphError, match="a gpt2 model needs the missing keys max_position_embeddings"):
        from_config({**CONFIGS["gpt2"], "n_positions": None, "n_ctx": None})  # its table has a row for each


@pytest.mark.parametrize("key", ["n_positions", "seq_length", "n_ctx", "max_seq_len", "max_sequence_length"])
def test_keys_of_positions(key: str) -> None:
    assert from_config(CONFIGS["llama-3.1-8b"] | {"max_position_embeddings": None, key: 4096}).positions == 4096


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gemma-3-27b", 52),
        ("gemma-3-4b", 29),
        ("gemma-2-9b", 21),
        ("gpt-oss-20b", 12),
        ("mistral-7b", 0),
        ("phi-3-mini", 32),
    ],
)
def test_layers_with_a_window(name: str, expected: int) -> None:
    assert sum(layer.window > 0 for layer in from_config(CONFIGS[name]).layers) == expected


def test_stated_kinds_of_layers_win() -> None:
    kinds = ["sliding_attention"] * 11 + ["full_attention"] * 51
    inner = CONFIGS["gemma-3-27b"]["text_config"] | {"layer_types": kinds}
    assert [layer.window for layer in from_config(inner).layers] == [1024] * 11 + [0] * 51


def test_only_experts_are_mxfp4() -> None:
    found = from_config(CONFIGS["gpt-oss-120b"] | {"quantization_config": {"quant_method": "mxfp4"}})
    assert {w.role for w in found.weights if w.dtype == "mxfp4"} == {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}
    assert found.bytes == pytest.approx(65.2e9, rel=0.005)  # the size of the published files


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "lama"}, "config: unknown model_type 'lama'; did you mean 'llama'?"),
        ({"model_type": None}, "config: unknown model_type None; the key is missing"),
        (
            {"intermediate_size": None, "vocab_size": None},
            "config: a llama model needs the missing keys vocab_size, intermediate_size",
        ),
        ({"num_hidden_layers": 10**9}, "config: num_hidden_layers is 1000000000; it must be a whole number, 1 to 1000"),
        ({"hidden_size": "4096"}, "config: hidden_size is '4096'; it must be a whole number, 1 to 16777216"),
        ({"num_attention_heads": 33}, "config: 33 heads do not divide hidden_size 4096; state head_dim"),
        ({"num_key_value_heads": 5}, "config: 5 heads of keys and values do not divide 32 heads"),
        ({"layer_types": ["full_attention"]}, "config: layer_types has 1 entries for 32 layers"),
        ({"torch_dtype": "float7"}, "config: unknown dtype 'float7'; did you mean 'float8'"),
        ({"quantization_config": {"quant_method": "hqq"}}, "config: unknown quant_method 'hqq'; known: "),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        from_config(CONFIGS["llama-3.1-8b"] | changes)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("text", ["[]", "1", "{", '{"model_type": "llama"}', ""])
def test_files_that_are_not_configurations(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(GraphError, match=r"config\.json: "):
        from_config(tmp_path / "config.json")
