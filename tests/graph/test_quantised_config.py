"""Formats that configurations of quantised files state: what is packed, what is kept, what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from hetgym.errors import GraphError
from hetgym.graph.from_config import from_config
from hetgym.graph.language_model import LanguageModel
from tests.graph.models import CONFIGS

_DENSE, _MIXTURE, _NEXT = "llama-3.1-8b", "qwen3-30b-a3b", "qwen3-next-80b"


def group(bits: int, kind: str = "int", targets: tuple[str, ...] = ("Linear",), **more: Any) -> dict[str, Any]:
    """A group of compressed-tensors."""
    return {"targets": list(targets), "weights": {"num_bits": bits, "type": kind, "symmetric": True, **more}}


def compressed(*groups: dict[str, Any], ignore: tuple[str, ...] = ("lm_head",)) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors", "ignore": list(ignore),
        "config_groups": {f"group_{k}": one for k, one in enumerate(groups)},
    }  # fmt: skip


def read(name: str, how: dict[str, Any], **more: Any) -> LanguageModel:
    return from_config(CONFIGS[name] | {"torch_dtype": "bfloat16", "quantization_config": how, **more})


def packed(model: LanguageModel) -> dict[str, str]:
    """Role -> the format of its weights in layer 5, of matrices only."""
    return {w.role: w.dtype for w in model.layers[5].weights if len(w.shape) > 1 and w.name.endswith("weight")}


@pytest.mark.parametrize(
    ("how", "format"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq4"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 32}, "gptq8_32"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "gptq3"),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "int4"),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "awq4_64"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_128"),
        ({"quant_method": "fbgemm_fp8"}, "float8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "nf4_nested"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}, "nvfp4"),
        (compressed(group(4, group_size=128, strategy="group")), "int4_128"),
        (compressed(group(4, group_size=32, strategy="group", symmetric=False)), "gptq4_32"),
        (compressed(group(8, strategy="channel")), "int8"),
        (compressed(group(8, "float", strategy="channel")), "float8"),
        (compressed(group(8, "float", strategy="block", block_structure=[128, 128])), "fp8_128"),
        (compressed(group(4, "float", strategy="tensor_group", group_size=16)), "nvfp4"),
        (compressed(group(4, "float", strategy="group", group_size=32)), "mxfp4"),
    ],
)
def test_matrices_of_layers_are_packed(how: dict[str, Any], format: str) -> None:
    model = read(_DENSE, how)
    assert set(packed(model).values()) == {format}
    others = {w.dtype for w in model.weights if w.dtype != format}
    assert others == {"bfloat16"} == {w.dtype for w in (*model.table, *model.head)}


@pytest.mark.parametrize(
    ("key", "entries"),
    [
        ("ignore", ["lm_head", "re:.*self_attn.*", "re:.*mlp.gate$"]),
        ("ignore", ["lm_head", *(f"model.layers.{i}.self_attn.{x}_proj" for i in range(48) for x in "qkvo")]),
        ("ignore", ["lm_head", "re:^model\\.layers\\.\\d+\\.self_attn\\.(q|k|v|o)_proj$"]),
        ("modules_to_not_convert", ["self_attn", "gate"]),
        ("modules_to_not_convert", ["model.layers.*.self_attn", "lm_head"]),
        ("llm_int8_skip_modules", ["self_attn"]),
        ("exclude_modules", ["model.layers.*.self_attn*", "lm_head"]),
    ],
)
def test_modules_that_are_kept(key: str, entries: list[str]) -> None:
    how: dict[str, Any] = {"quant_method": "fp8"} | {key: entries}
    found = packed(read(_MIXTURE, how))
    assert found.pop("ffn_gate_inp") == "bfloat16"
    attention = {found.pop(f"attn_{x}") for x in ("q", "k", "v", "output")}
    assert attention == {"bfloat16"} and set(found.values()) == {"float8"} and len(found) == 3


def test_groups_of_modules_have_formats_of_their_own() -> None:
    attention, experts = group(8, "float", ("re:.*self_attn.*",), strategy="channel"), group(4, group_size=32)
    found = packed(read(_MIXTURE, compressed(experts, attention)))
    assert Counter(found.values()) == {"float8": 4, "int4_32": 3, "bfloat16": 1}


def test_a_head_is_packed_unless_it_is_ignored() -> None:
    model = read(_DENSE, compressed(group(8, strategy="channel"), ignore=()))
    assert (model.head[-1].dtype, model.table[0].dtype) == ("int8", "bfloat16")


def test_linear_layers_keep_their_convolutions() -> None:
    found = packed(read(_NEXT, {"quant_method": "fp8", "modules_to_not_convert": ["linear_attn.in_proj_ba"]}))
    assert {role for role, dtype in found.items() if dtype == "bfloat16"} == {
        "ssm_alpha", "ssm_beta", "ssm_conv1d", "ffn_gate_inp",
    }  # fmt: skip


def test_gptq_excludes_modules() -> None:
    found = packed(read(_MIXTURE, {"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*self_attn.*": {}}}))
    assert Counter(found.values()) == {"bfloat16": 5, "gptq4": 3}


def test_mlx_packs_the_table_and_routers() -> None:
    how = {"group_size": 64, "bits": 4, "model.layers.5.mlp.gate": {"group_size": 64, "bits": 8}}
    model = from_config(CONFIGS[_MIXTURE] | {"quantization": how})
    assert (model.table[0].dtype, model.head[-1].dtype, packed(model)["ffn_gate_inp"]) == ("mlx4", "mlx4", "mlx8")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"quant_method": "gptq", "bits": 5}, "config: gptq with 5 bits in groups of 128 is not supported"),
        ({"quant_method": "gptq", "dynamic": {"+:.*": {"bits": 8}}}, "config: dynamic is "),
        ({"quant_method": "modelopt", "quant_algo": "W1"}, "config: unknown quant_algo 'W1'; known: FP8"),
        ({"quant_method": "compressed-tensors"}, "config: config_groups is None; it must have one to 64 groups"),
        (compressed({"targets": "Linear"}), "config: config_groups has "),
        (compressed(group(4, "float", group_size=64)), "config: 'float' of 4 bits in groups of 64 is not supported"),
        (compressed(group(6, group_size=64)), "config: int with 6 bits in groups of 64 is not supported"),
        ({"quant_method": "fp8", "ignore": "lm_head"}, "config: ignore is 'lm_head'; it must be a list of modules"),
        ({"quant_method": "fp8", "ignore": [3]}, "config: a list of modules has 3; it must be a text"),
        ({"quant_method": "fp8", "ignore": ["re:(a+)+$"]}, "config: cannot read the expression '(a+)+$'"),
        ({"quant_method": "fp8", "ignore": ["re:" + "(a|b)" * 9]}, "config: cannot read the expression "),
        (
            {"quant_method": "fp8", "ignore": ["*"] * 1 + [f"{k}*" for k in range(300)]},
            "config: a list of modules has ",
        ),
        (
            compressed(group(4, group_size=128)) | {"sparsity_config": {"format": "sparse-24-bitmask"}},
            "config: sparse weights in the format 'sparse-24-bitmask' are not supported",
        ),
    ],
)
def test_what_is_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        read(_DENSE, how)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_an_expression_does_not_run_for_ever() -> None:
    found = read(_DENSE, {"quant_method": "fp8", "ignore": ["re:" + ".*a" * 100 + "$"]})
    assert set(packed(found).values()) == {"float8"}
