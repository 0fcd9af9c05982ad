"""Mixes: bits that llama.cpp's README states, and rows that are not whole blocks."""

import pytest

from hetgym.errors import UnknownName
from hetgym.graph.formats import FORMATS
from hetgym.graph.from_config import from_config
from hetgym.graph.mixes import MIXES, mixed
from tests.graph.models import CONFIGS

# tools/quantize/README.md of llama.cpp (311c2c9), Llama-3.1-8B; Q3_K_M by the same rules
BITS = {
    "IQ1_S": 2.0042, "IQ1_M": 2.1460, "IQ2_XXS": 2.3824, "IQ2_XS": 2.5882, "IQ2_S": 2.7403, "IQ2_M": 2.9294,
    "Q2_K_S": 2.9697, "Q2_K": 3.1593, "IQ3_XXS": 3.2548, "IQ3_XS": 3.4977, "Q3_K_S": 3.6429, "IQ3_S": 3.6606,
    "IQ3_M": 3.7628, "Q3_K_L": 4.2979, "IQ4_XS": 4.4597, "Q4_K_S": 4.6672, "IQ4_NL": 4.6818, "Q4_K_M": 4.8944,
    "Q5_K_S": 5.5704, "Q5_K_M": 5.7036, "Q6_K": 6.5633, "Q8_0": 8.5008, "F16": 16.0005, "Q3_K_M": 3.9960,
}  # fmt: skip
_FACTORS = 64  # float32 numbers of rotary embeddings, which the file has and the configuration does not


@pytest.mark.parametrize(("mix", "bits"), BITS.items())
def test_bits_of_a_weight(mix: str, bits: float) -> None:
    model = mixed(from_config(CONFIGS["llama-3.1-8b"]), mix)
    assert 8 * (model.bytes + 4 * _FACTORS) / (model.parameters + _FACTORS) == pytest.approx(bits, abs=5.1e-5)


def test_an_importance_matrix_needs_fewer_bits() -> None:
    model = mixed(from_config(CONFIGS["llama-3.1-8b"]), "IQ4_XS", matrix=True)
    assert 8 * model.bytes / model.parameters == pytest.approx(4.4231, abs=5e-5)


def test_rows_that_are_not_whole_blocks_take_smaller_ones() -> None:
    found = mixed(from_config(CONFIGS["qwen2.5-0.5b"]), "Q4_K_M")  # 896 columns
    dtypes = {weight.role: weight.dtype for weight in found.layers[10].weights if len(weight.shape) > 1}
    assert dtypes == {
        "attn_q": "q5_0", "attn_k": "q5_0", "attn_v": "q5_0", "attn_output": "q5_0", "ffn_gate": "q5_0",
        "ffn_up": "q5_0", "ffn_down": "q4_k",
    }  # fmt: skip
    assert found.table[0].dtype == "q8_0"


def test_eight_experts_keep_keys_and_values() -> None:
    found = mixed(from_config(CONFIGS["mixtral-8x7b"]), "Q4_K_M")
    dtypes = {weight.role: weight.dtype for weight in found.layers[10].weights if len(weight.shape) > 1}
    assert (dtypes["attn_k"], dtypes["attn_v"], dtypes["attn_output"]) == ("q8_0", "q8_0", "q5_k")
    assert dtypes["ffn_gate_inp"] == "float32"


@pytest.mark.parametrize("name", ["gpt-oss-20b", "deepseek-v2-lite", "qwen3.5-9b", "falcon-7b", "gpt2"])
def test_every_mix_fits_every_kind_of_layer(name: str) -> None:
    model = from_config(CONFIGS[name])
    for mix in MIXES:
        found = mixed(model, mix)
        assert found.parameters == model.parameters
        assert 1.5 < 8 * found.bytes / model.parameters <= 32.0
        assert all(w.shape[-1] % FORMATS[w.dtype].elements == 0 for w in found.weights if w.dtype in FORMATS)


def test_an_unknown_mix() -> None:
    with pytest.raises(UnknownName, match=r"unknown mix 'Q4_K_N'; did you mean 'Q4_K_S'"):
        mixed(from_config(CONFIGS["gpt2"]), "Q4_K_N")
