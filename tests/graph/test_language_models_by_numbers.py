"""Caches and states of language models: what programs allocate for them."""

import pytest

from hetgym.errors import GraphError
from hetgym.graph.formats import FORMATS, GGML, bytes_of
from hetgym.graph.from_config import from_config
from hetgym.graph.ops import DTYPE_BYTES
from tests.graph.models import CONFIGS

MIB = 1 << 20
CONTEXT = 1 << 20  # a multiple of all padding, far above the windows


@pytest.mark.parametrize(
    ("name", "token", "bounded"),
    [
        ("llama-3.1-8b", 131_072, 0),
        ("qwen2.5-32b", 262_144, 0),
        ("qwen3-30b-a3b", 98_304, 0),
        ("qwen3-0.6b", 114_688, 0),
        ("qwen3.5-27b", 65_536, 149.625 * MIB),
        ("gemma-3-27b", 81_920, 52 * 8_192 * (1024 + 512)),
        ("gpt-oss-20b", 24_576, 12 * 2_048 * (128 + 512 + 128)),
        ("deepseek-v3", 70_272, 0),
    ],
)
def test_bytes_of_a_token(name: str, token: int, bounded: float) -> None:
    assert from_config(CONFIGS[name]).cache_bytes(CONTEXT) == token * CONTEXT + bounded


def test_a_state_that_does_not_grow() -> None:
    model = from_config(CONFIGS["qwen3.5-9b"])
    state = 50.25 * MIB
    assert model.cache_bytes(256) == state + 256 * 8 * 2 * 1024 * 2
    assert model.cache_bytes(262_144, "q8_0", "q8_0", sequences=2) == 2 * state + 4352 * MIB


def test_context_is_padded_and_divided_into_streams() -> None:
    model = from_config(CONFIGS["llama-3.1-8b"])
    assert model.cache_bytes(1) == model.cache_bytes(256)
    assert model.cache_bytes(257, sequences=3, unified=False) == 3 * model.cache_bytes(512)
    assert model.cache_bytes(4096, "q8_0", "q4_0") == pytest.approx(4096 * 32 * 1024 * (1.0625 + 0.5625))


@pytest.mark.parametrize(
    ("context", "key", "message"),
    [(0, "float16", "context is 0; it must be at least 1"), (1, "q4_k", "cache format 'q4_k'; it must be one of ")],
)
def test_caches_that_do_not_exist(context: int, key: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        from_config(CONFIGS["gpt2"]).cache_bytes(context, key)


def test_formats_are_dtypes() -> None:
    assert {name: DTYPE_BYTES[name] for name in FORMATS} == {name: bytes_of(name) for name in FORMATS}
    assert len(GGML) == len(set(GGML.values()))
    assert (GGML[12], GGML[30], bytes_of("mxfp4"), bytes_of("awq4")) == ("q4_k", "bfloat16", 4.25 / 8, 4.15625 / 8)
