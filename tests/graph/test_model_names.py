"""Models by name: published numbers of parameters, names of the Hub and of ollama, formats as people write them."""

from __future__ import annotations

import pytest

from hetgym.errors import GraphError, UnknownName
from hetgym.graph.formats import FORMATS, GGML, IN_GGUF, IN_SAFETENSORS
from hetgym.graph.mixes import MIXES
from hetgym.graph.model_names import load_language_model, model_names
from hetgym.graph.quant_names import METHODS
from hetgym.graph.written_names import written

# Totals of published files, prediction layers and vision towers left out: found in public text for SmolLM3, Seed-OSS,
# OLMo 2 and 3, InternLM2, GLM-4-9B, Aya (command-r-7b) and Llama, as remembered for the others
PARAMETERS = {
    "gemma-7b": 8_537_680_896, "gemma-2b": 2_506_172_416, "gemma-2-2b": 2_614_341_888, "glm-4-9b": 9_400_279_040,
    "glm-4-32b": 32_566_081_536, "command-r-35b": 34_980_831_232, "command-r-plus-104b": 103_810_674_688,
    "command-r-7b": 8_028_033_024, "command-a-111b": 111_057_580_032, "olmo-2-7b": 7_298_617_344,
    "olmo-2-13b": 13_716_198_400, "olmo-3-7b": 7_298_011_136, "olmo-3-32b": 32_233_522_176,
    "olmo-2-32b": 32_234_279_936, "olmoe-1b-7b": 6_919_161_856, "phi-1.5": 1_418_270_720, "phi-2": 2_779_683_840,
    "phi-3.5-moe": 41_873_153_344, "starcoder-15b": 15_517_456_384, "starcoder2-3b": 3_030_371_328,
    "starcoder2-7b": 7_173_923_840, "starcoder2-15b": 15_957_889_024, "stablelm-2-1.6b": 1_644_515_328,
    "stablelm-2-12b": 12_143_185_920, "granite-3.1-2b": 2_533_531_648, "granite-3.1-8b": 8_170_848_256,
    "granite-3.1-1b-a400m": 1_334_628_352, "internlm2-7b": 7_737_708_544, "internlm2-20b": 19_861_149_696,
    "exaone-3.5-2.4b": 2_405_327_360, "exaone-3.5-7.8b": 7_818_448_896, "exaone-3.5-32b": 32_003_200_000,
    "exaone-4.0-32b": 32_003_216_384, "smollm3-3b": 3_075_098_624, "seed-oss-36b": 36_151_104_512,
    "ernie-4.5-0.3b": 360_748_032, "ernie-4.5-21b-a3b": 21_825_437_888, "bloom-560m": 559_214_592,
    "bloom-7b1": 7_069_016_064, "bloom-176b": 176_247_271_424, "llama-4-scout-17b-16e": 107_769_861_120,
    "kimi-k2": 1_026_408_232_448, "dots.llm1": 142_774_381_696, "qwen3-coder-480b-a35b": 480_154_875_392,
    "deepseek-r1-distill-qwen-1.5b": 1_777_088_000, "mistral-small-24b": 23_572_403_200,
}  # fmt: skip

NAMES = {
    "Qwen/Qwen3-30B-A3B": "qwen3-30b-a3b", "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF:Q4_K_M": "qwen3-30b-a3b-2507", "llama3.1:8b": "llama-3.1-8b",
    "hf.co/unsloth/gemma-3-27b-it-qat-GGUF": "gemma-3-27b", "gemma3:27b": "gemma-3-27b", "phi4:14b": "phi-4",
    "qwen3:30b-a3b": "qwen3-30b-a3b", "gpt-oss:20b": "gpt-oss-20b", "ggml-org/gpt-oss-120b-GGUF": "gpt-oss-120b",
    "deepseek-r1:32b": "deepseek-r1-distill-qwen-32b", "deepseek-r1:671b": "deepseek-v3", "QwQ-32B": "qwq-32b",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": "llama-3.3-70b", "Qwen3-Coder-Next": "qwen3-next-80b-a3b",
    "devstral": "mistral-small-3.2-24b", "mistralai/Devstral-Small-2507": "mistral-small-3.2-24b",
    "Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8": "qwen3-coder-30b-a3b", "mixtral:8x7b": "mixtral-8x7b",
    "TheBloke/Mistral-7B-Instruct-v0.2-GPTQ": "mistral-7b-v0.2", "Qwen2.5-Coder-32B-Instruct": "qwen2.5-32b",
    "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf": "llama-3.1-8b", "moonshotai/Kimi-K2-Instruct-0905": "kimi-k2-0905",
    "mlx-community/Qwen3-8B-4bit": "qwen3-8b", "meta-llama/Llama-2-13b-chat-hf": "llama-2-13b",
}  # fmt: skip


@pytest.mark.parametrize(("name", "count"), PARAMETERS.items())
def test_parameters_are_the_published_ones(name: str, count: int) -> None:
    assert load_language_model(name).parameters == count


@pytest.mark.parametrize(
    ("name", "billions"),
    [("gemma-4-31b", 30.7), ("gemma-4-26b-a4b", 25.2), ("gemma-4-e2b", 4.6), ("gemma-4-e4b", 7.46)],
)
def test_parameters_that_are_published_in_short(name: str, billions: float) -> None:
    assert load_language_model(name).parameters / 1e9 == pytest.approx(billions, rel=0.005)


def test_layers_that_share_caches_hold_none() -> None:
    layers = load_language_model("gemma-4-e2b").layers
    assert [layer.kv_heads for layer in layers] == [1] * 15 + [0] * 20
    assert {(layer.window, layer.key_size) for layer in layers[:15]} == {(512, 256), (0, 512)}


def test_every_model_states_its_positions() -> None:
    models = [load_language_model(name) for name in model_names()]
    assert all(0 < model.positions <= 10_485_760 for model in models)
    assert not any(model.notes for model in models)


def test_bytes_of_files_that_are_published_packed() -> None:
    assert load_language_model("kimi-k2-thinking").bytes == pytest.approx(594e9, rel=0.003)


@pytest.mark.parametrize(("text", "name"), NAMES.items())
def test_names_of_the_hub_and_of_ollama(text: str, name: str) -> None:
    assert load_language_model(text).name == name


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("llama3.1:8b-instruct-q8_0", "q8_0"),
        ("unsloth/Llama-3.1-8B-Instruct-GGUF", "q4_k"),
        ("Llama-3.1-8B-Instruct-AWQ", "awq4"),
        ("Llama-3.1-8B-Instruct-FP8", "float8"),
        ("unsloth/Llama-3.1-8B-Instruct-bnb-4bit", "nf4"),
        ("mlx-community/Llama-3.1-8B-Instruct-8bit", "mlx8"),
        ("meta-llama/Llama-3.1-8B", "bfloat16"),
    ],
)
def test_a_name_states_a_format(text: str, dtype: str) -> None:
    found = {w.role: w.dtype for w in load_language_model(text).layers[5].weights}
    assert found["attn_q"] == dtype
    assert {w.role: w.dtype for w in load_language_model(text, "fp8").layers[5].weights}["attn_q"] == "float8"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qwen3:30b", "several language models are named like 'qwen3:30b': qwen3-30b-a3b, qwen3-30b-a3b-2507"),
        ("llama3.1", "several language models are named like 'llama3.1': llama-3.1-405b, llama-3.1-70b, llama-3.1-8b"),
        ("qwen3", "several language models are named like 'qwen3': "),
        ("google/gemma-3n-E4B-it", "unknown language model 'google/gemma-3n-E4B-it'; "),
        ("qwen3-9b", "unknown language model 'qwen3-9b'; did you mean "),
        ("x", "unknown language model 'x'; "),
        ("yi:9b", "unknown language model 'yi:9b'; known: yi-1.5-9b"),
        (":", "unknown language model ':'; "),
    ],
)
def test_names_that_no_model_or_several_have(text: str, message: str) -> None:
    with pytest.raises(UnknownName) as caught:
        load_language_model(text)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["/no/such/place", "./Qwen/Qwen3-8B", "a/b/c"])
def test_paths_are_no_names(text: str) -> None:
    with pytest.raises(GraphError, match="a language model is a name, a config"):
        load_language_model(text)


BITS = {
    "AWQ": 4.156, "awq4": 4.156, "GPTQ": 4.156, "int4": 4.125, "int8": 8, "w8a8": 8, "FP8": 8, "fp8": 8, "nf4": 4.5,
    "4bit": 4.5, "bnb-4bit": 4.5, "mlx-4bit": 4.5, "MLX8": 8.5, "nvfp4": 4.5,
}  # fmt: skip


@pytest.mark.parametrize(("quant", "bits"), BITS.items())
def test_methods_pack_the_matrices_of_layers(quant: str, bits: float) -> None:
    model = load_language_model("llama-3.1-8b", quant)
    weight = next(w for w in model.layers[3].weights if w.role == "ffn_down")
    assert 8 * weight.bytes / weight.size == pytest.approx(bits, abs=1e-3)
    assert model.table[0].dtype == (weight.dtype if "mlx" in quant.lower() else "bfloat16")


@pytest.mark.parametrize(
    ("quant", "same", "note"),
    [
        ("UD-Q4_K_XL", "Q4_K_M", "UD-Q4_K_XL follows no rule: Q4_K_M stands for it"),
        ("Q4_K_XL", "Q4_K_M", "Q4_K_XL follows no rule"),
        ("UD-Q2_K_XL", "Q2_K", "UD-Q2_K_XL follows no rule"),
        ("UD-Q8_K_XL", "Q8_0", "UD-Q8_K_XL follows no rule"),
        ("UD-IQ2_XXS", "IQ2_XXS", "UD-IQ2_XXS follows no rule"),
        ("Q6_K_L", "Q6_K", "Q6_K_L follows no rule"),
        ("q4", "Q4_K_M", "q4 names several formats"),
        ("iq4_xs", "IQ4_XS", ""),
        ("bf16", "BF16", ""),
        ("fp16", "F16", ""),
    ],
)
def test_spellings_of_mixes(quant: str, same: str, note: str) -> None:
    found, exact = load_language_model("qwen3-0.6b", quant), load_language_model("qwen3-0.6b", same)
    assert list(found.weights) == list(exact.weights)
    assert [text.startswith(note) for text in found.notes] == [True] * bool(note)


def test_mxfp4_packs_experts() -> None:
    model = load_language_model("qwen3-30b-a3b", "MXFP4")
    assert {w.role for w in model.weights if w.dtype == "mxfp4"} == {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}
    with pytest.raises(GraphError, match="'qwen3-8b' has no experts, which MXFP4 packs; use another format"):
        load_language_model("qwen3-8b", "mxfp4")
    assert {w.dtype for w in load_language_model("gpt-oss-20b", "fp8").weights} == {"float8", "bfloat16"}


@pytest.mark.parametrize("quant", ["Q9_K", "ud-", "UD-Q9_K_XL", "awq5", "-", "3bit"])
def test_formats_that_do_not_exist(quant: str) -> None:
    with pytest.raises(UnknownName, match="unknown format of weights"):
        load_language_model("qwen3-0.6b", quant)


def test_formats_of_the_two_kinds_of_files() -> None:
    assert {"float32", "float16", "bfloat16", "mxfp4", "nvfp4"} == IN_GGUF & IN_SAFETENSORS
    assert FORMATS.keys() <= IN_GGUF | IN_SAFETENSORS and set(GGML.values()) >= IN_GGUF
    model = load_language_model("qwen3-30b-a3b")
    for mix in MIXES:
        assert {w.dtype for w in load_language_model(model, mix).weights} <= IN_GGUF
    for method in METHODS:
        assert {w.dtype for w in load_language_model(model, method).weights} <= IN_SAFETENSORS


def test_words_of_a_name() -> None:
    said = written("Qwen/Qwen3-235B-A22B-Instruct-2507-UD-Q2_K_XL")
    assert (said.plain, said.format, said.packed) == ("qwen3235ba22b2507", "ud-q2_k_xl", False)


def test_a_file_that_is_missing_is_said() -> None:
    """Whether its name is that of a known model or not."""
    with pytest.raises(GraphError, match=r"none\.gguf: no such file, and no language model of this name is known"):
        load_language_model("none.gguf")
    found = load_language_model("Qwen3-8B-Q4_K_M.gguf")
    assert found.notes[0] == "Qwen3-8B-Q4_K_M.gguf: no such file; qwen3-8b is taken, with weights by its recipe."
