"""Language models from GGUF headers: equal to those of configurations, and what is refused."""

import struct
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetgym.errors import GraphError
from hetgym.graph.from_config import from_config
from hetgym.graph.from_gguf import from_gguf
from hetgym.graph.language_model import LanguageModel
from hetgym.graph.mixes import mixed
from tests.graph.gguf_files import header, text, write, write_model
from tests.graph.models import CONFIGS


def _same(found: LanguageModel, model: LanguageModel) -> None:
    assert {w.name: w for w in found.weights} == {w.name: w for w in model.weights}
    assert (found.tied, found.hidden, found.vocabulary) == (model.tied, model.hidden, model.vocabulary)
    assert [replace(x, weights=()) for x in found.layers] == [replace(x, weights=()) for x in model.layers]
    assert found.cache_bytes(10_000, "q8_0", "q4_0") == model.cache_bytes(10_000, "q8_0", "q4_0")
    assert found.scoring == model.scoring


@pytest.mark.parametrize(
    ("name", "family", "more"),
    [
        ("llama-3.1-8b", "llama", {}),
        ("qwen3-0.6b", "qwen3", {}),
        ("gemma-2-9b", "gemma2", {"attention.sliding_window": 4096}),
        ("gemma-3-27b", "gemma3", {"attention.sliding_window": 1024}),
        ("gpt-oss-20b", "gpt-oss", {"attention.sliding_window": 128}),
        ("mixtral-8x7b", "llama", {}),
        ("deepseek-v2-lite", "deepseek2", {"expert_used_count": 6}),
        (
            "qwen3.5-9b",
            "qwen35",
            {
                "attention.head_count": [32, 32, 32, 16] * 8,
                "attention.head_count_kv": [0, 0, 0, 4] * 8,
                "ssm.conv_kernel": 4,
                "ssm.inner_size": 4096,
                "ssm.state_size": 128,
                "ssm.group_count": 16,
            },
        ),
    ],
)
def test_a_file_says_what_the_configuration_says(tmp_path: Path, name: str, family: str, more: dict[str, Any]) -> None:
    model = mixed(from_config(CONFIGS[name]), "Q4_K_M")
    write_model(tmp_path / "model.gguf", model, family, **more)
    _same(from_gguf(tmp_path / "model.gguf"), model)


def test_a_file_of_the_gguf_package(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    file = tmp_path / "small.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    for key, value in (
        ("block_count", 1), ("embedding_length", 64), ("head_count", 4), ("head_count_kv", 2), ("context_length", 512),
    ):  # fmt: skip
        getattr(writer, f"add_{key}")(value)
    writer.add_token_list(["a", "b"])
    shapes = {"token_embd": (8, 64), "blk.0.attn_k": (32, 64), "output_norm": (64,)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.zeros(shape, np.float16 if len(shape) > 1 else np.float32))
    writer.add_tensor(
        "blk.0.ffn_up.weight", np.zeros((128, 34 * 2), np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q8_0
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = from_gguf(file)
    assert {w.name: (w.shape, w.dtype) for w in found.weights} == {
        "token_embd.weight": ((8, 64), "float16"),
        "blk.0.attn_k.weight": ((32, 64), "float16"),
        "blk.0.ffn_up.weight": ((128, 64), "q8_0"),
        "output_norm.weight": ((64,), "float32"),
    }
    assert (found.layers[0].kv_heads, found.layers[0].key_size, found.positions, found.tied) == (2, 16, 512, True)


def test_split_files(tmp_path: Path) -> None:
    model = from_config(CONFIGS["qwen3-0.6b"])
    write_model(tmp_path / "whole.gguf", model, "qwen3")
    weights = {w.name: (w.shape, w.dtype, int(w.bytes)) for w in model.weights}
    first = dict(list(weights.items())[:100])
    names = [f"model-0000{k}-of-00002.gguf" for k in (1, 2)]
    write_model(tmp_path / names[0], model, "qwen3")
    pairs = {"general.architecture": "qwen3"} | {
        f"qwen3.{key}": value
        for key, value in (
            ("block_count", 28), ("context_length", 131072), ("embedding_length", 1024), ("attention.head_count", 16),
            ("attention.head_count_kv", 8), ("attention.key_length", 128), ("attention.value_length", 128),
        )
    }  # fmt: skip
    write(tmp_path / names[0], pairs, first)
    write(tmp_path / names[1], {}, {key: value for key, value in weights.items() if key not in first})
    _same(from_gguf(tmp_path / names[0]), model)
    with pytest.raises(GraphError, match="give the first part of a split file"):
        from_gguf(tmp_path / names[1])
    (tmp_path / names[1]).unlink()
    with pytest.raises(GraphError, match="no such file"):
        from_gguf(tmp_path / names[0])


def test_layers_that_predict_further_tokens_are_left_out(tmp_path: Path) -> None:
    model = from_config(CONFIGS["qwen3-0.6b"])
    write_model(tmp_path / "model.gguf", model, "qwen3", nextn_predict_layers=1)
    assert len(from_gguf(tmp_path / "model.gguf").layers) == 27


def test_a_bare_header(tmp_path: Path) -> None:
    model = from_config(CONFIGS["qwen3-0.6b"])
    file = tmp_path / "model.gguf"
    write_model(file, model, "qwen3")
    with file.open("r+b") as handle:
        handle.truncate(1 << 20)
    with pytest.raises(GraphError, match=r"the data are cut off: the file has 1048576 of \d+ bytes"):
        from_gguf(file)
    _same(from_gguf(file, bare=True), model)


ONE = [("token_embd.weight", (64, 2), 1, 0)]
LAYER = ("blk.0.attn_norm.weight", (64,), 0, 256)
LLAMA = {"general.architecture": "llama", "llama.block_count": 1}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a GGUF file"),
        (b"GGML" + bytes(100), "not a GGUF file"),
        (struct.pack("<4sIQQ", b"GGUF", 1, 0, 0) + bytes(100), "version 1 of GGUF is not supported"),
        (struct.pack(">4sIQQ", b"GGUF", 3, 0, 0) + bytes(100), "it is big-endian"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 10**9, 1) + bytes(1000), "it states 1000000000 tensors"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 10**12) + bytes(1000), "it states 1000000000000 pairs"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + text("a" * (1 << 20)) + bytes(99), "a key of 1048576 bytes"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + struct.pack("<Q", 1 << 63) + bytes(99), "a key of"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + text("a") + struct.pack("<iiQ", 9, 9, 1) + bytes(99), "the array"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + text("a") + struct.pack("<iiQ", 9, 8, 1 << 60) + bytes(99), "array"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + text("a") + struct.pack("<i", 77) + bytes(99), "unknown type 77"),
        (header({"a": 1, "b": 2}, [])[:-1] + b"", "the header is cut off"),
        (header({}, [("x" * (1 << 20), (1,), 0, 0)]), "the name of a tensor of 1048576 bytes"),
        (header({}, [("x", (1, 1, 1, 1, 1), 0, 0)]) + bytes(99), "'x' has 5 dimensions"),
        (header({}, [("x", (1 << 40, 1 << 40), 0, 0)]) + bytes(99), "'x' has the shape"),
        (header({}, [("x", (-1,), 0, 0)]) + bytes(99), "'x' has the shape"),
        (header({}, [("x", (32,), 4, 0)]) + bytes(99), "'x' has the unknown type 4"),
        (header({}, [("x", (33,), 2, 0)]) + bytes(99), "'x' has rows of 33 numbers, not whole blocks of q4_0"),
        (header({}, [("x", (8,), 0, 0), ("y", (8,), 0, 0)]) + bytes(99), "'y' begins at 0, not behind"),
        (header({}, [("x", (8,), 0, 0), ("x", (8,), 0, 32)]) + bytes(99), "two tensors have one name"),
        (header({"general.alignment": 33}, ONE) + bytes(999), "general.alignment is 33"),
        (header({}, ONE) + bytes(999), "general.architecture is missing"),
        (header({"general.architecture": "llama"}, ONE) + bytes(999), "llama.block_count is missing"),
        (header(LLAMA | {"llama.block_count": 1 << 30}, ONE) + bytes(999), "1073741824 layers"),
        (header(LLAMA, ONE) + bytes(999), "it lacks a tensor of layer 0"),
        (header(LLAMA, [*ONE, LAYER]) + bytes(999), "llama.attention.head_count is missing"),
    ],
)
def test_hostile_headers(tmp_path: Path, data: bytes, message: str) -> None:
    file = tmp_path / "bad.gguf"
    file.write_bytes(data)
    begin = time.process_time()
    with pytest.raises(GraphError, match=message) as caught:
        from_gguf(file)
    assert time.process_time() - begin < 1.0
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(file))
