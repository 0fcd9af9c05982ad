"""Language models from the headers of safetensors files, written by the package of that name or by hand."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from hetgym import GraphError, load_graph
from hetgym.graph.from_config import from_config
from hetgym.graph.from_safetensors import INDEX, from_safetensors
from hetgym.graph.hugging_face_names import target
from hetgym.graph.model_names import load_language_model
from hetgym.graph.safetensors_header import BITS, read_header
from tests.graph.models import CONFIGS, LATENT, LINEAR, config

LLAMA = config("llama", 64, 2, 4, 96, 128, 2, torch_dtype="float16")
MIXTURE = config(
    "qwen2_moe", 64, 1, 4, 96, 128, 4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
    shared_expert_intermediate_size=128,
)  # fmt: skip
OSS = config(
    "gpt_oss", 64, 2, 4, 96, 64, 2, 16, num_local_experts=4, num_experts_per_tok=2, sliding_window=128,
)  # fmt: skip
NEXT = config(
    "qwen3_next", 64, 4, 4, 96, 128, 2, 16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
    shared_expert_intermediate_size=32, linear_num_value_heads=32, **LINEAR,
)  # fmt: skip
DEEPSEEK = config(
    "deepseek_v3", 64, 2, 4, 96, 128, 4, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2,
    moe_intermediate_size=32, first_k_dense_replace=1, q_lora_rank=32, **LATENT,
)  # fmt: skip

Tensors = dict[str, tuple[str, tuple[int, ...]]]  # name -> dtype and shape


def header(tensors: Tensors) -> dict[str, Any]:
    """The header of tensors, one behind the other."""
    found, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        end = at + int(np.prod(shape, dtype=np.int64)) * BITS[dtype] // 8
        found[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    return found


def write(path: Path, table: dict[str, Any], size: int | None = None) -> None:
    """Write a file whose data are a hole."""
    text = json.dumps(table).encode()
    end = max((entry["data_offsets"][1] for entry in table.values()), default=0) if size is None else size
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def tensors_of(layers: int, own: Tensors, outside: Tensors | None = None) -> Tensors:
    """Tensors of some equal layers, and of what surrounds them."""
    h, dtype = 64, "BF16"
    around: Tensors = {
        "model.embed_tokens.weight": (dtype, (96, h)), "model.norm.weight": (dtype, (h,)),
        "lm_head.weight": (dtype, (96, h)),
    }  # fmt: skip
    inside = {f"model.layers.{i}.{name}": one for i in range(layers) for name, one in own.items()}
    return around | inside | (outside or {})


NORMS: Tensors = {f"{name}_layernorm.weight": ("BF16", (64,)) for name in ("input", "post_attention")}
ATTENTION: Tensors = {
    f"self_attn.{name}_proj.weight": ("BF16", (rows, 64)) for name, rows in (("q", 64), ("k", 32), ("v", 32), ("o", 64))
}
DENSE: Tensors = {
    "mlp.gate_proj.weight": ("BF16", (128, 64)), "mlp.up_proj.weight": ("BF16", (128, 64)),
    "mlp.down_proj.weight": ("BF16", (64, 128)),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net").mkdir()
    return tmp_path / "net"


def configure(folder: Path, document: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(document))


def test_a_file_of_the_package(folder: Path) -> None:
    configure(folder, LLAMA)
    arrays = {
        name: np.zeros(shape, np.float16 if "norm" not in name else np.float32)
        for name, (_, shape) in tensors_of(2, NORMS | ATTENTION | DENSE).items()
    }
    save_file(arrays, folder / "model.safetensors", {"format": "pt"})
    for path in (folder, folder / "model.safetensors"):
        found = load_language_model(path)
        assert found.name == "net" and found.parameters == from_config(LLAMA).parameters
        assert found.bytes == sum(array.nbytes for array in arrays.values())
        assert {w.dtype for w in found.weights if "norm" in w.name} == {"float32"}
    assert load_graph(folder, phase="decode", sequence=256).model_bytes > found.bytes
    assert load_language_model(folder, "q8_0").bytes < found.bytes


def packed(parts: dict[str, Any], module: str, rows: int, columns: int) -> Tensors:
    """The tensors of a packed weight; numbers of parts are functions of its sizes."""
    return {f"{module}.{part}": (dtype, shape(rows, columns)) for part, (dtype, shape) in parts.items()}


PACKED: dict[str, dict[str, Any]] = {
    "gptq4": {
        "qweight": ("I32", lambda n, k: (k // 8, n)), "scales": ("F16", lambda n, k: (k // 128, n)),
        "qzeros": ("I32", lambda n, k: (k // 128, n // 8)), "g_idx": ("I32", lambda n, k: (k,)),
    },
    "awq4": {
        "qweight": ("I32", lambda n, k: (k, n // 8)), "scales": ("F16", lambda n, k: (k // 128, n)),
        "qzeros": ("I32", lambda n, k: (k // 128, n // 8)),
    },
    "int4_128": {
        "weight_packed": ("I32", lambda n, k: (n, k // 8)), "weight_scale": ("BF16", lambda n, k: (n, k // 128)),
        "weight_shape": ("I64", lambda n, k: (2,)),
    },
    "fp8_128": {
        "weight": ("F8_E4M3", lambda n, k: (n, k)), "weight_scale_inv": ("F32", lambda n, k: (n // 128, k // 128)),
    },
    "float8": {"weight": ("F8_E4M3", lambda n, k: (n, k)), "weight_scale": ("F32", lambda n, k: (1,))},
    "int8": {"weight": ("I8", lambda n, k: (n, k)), "weight_scale": ("F32", lambda n, k: (n, 1))},
    "nf4": {
        "weight": ("U8", lambda n, k: (n * k // 2, 1)), "weight.absmax": ("F32", lambda n, k: (n * k // 64,)),
        "weight.quant_map": ("F32", lambda n, k: (16,)),
    },
    "mlx4": {
        "weight": ("U32", lambda n, k: (n, k // 8)), "scales": ("F16", lambda n, k: (n, k // 64)),
        "biases": ("F16", lambda n, k: (n, k // 64)),
    },
    "nvfp4": {
        "weight": ("U8", lambda n, k: (n, k // 2)), "weight_scale": ("F8_E4M3", lambda n, k: (n, k // 16)),
        "weight_scale_2": ("F32", lambda n, k: ()),
    },
}  # fmt: skip
WIDE = config("llama", 1024, 1, 8, 96, 2048, torch_dtype="float16")


def wide(parts: dict[str, Any], around: int = 1024) -> Tensors:
    shapes = {"q": (1024, 1024), "k": (1024, 1024), "v": (1024, 1024), "o": (1024, 1024)}
    found: Tensors = {}
    for name, (n, k) in shapes.items():
        found |= packed(parts, f"model.layers.0.self_attn.{name}_proj", n, k)
    for name, (n, k) in {"gate": (2048, 1024), "up": (2048, 1024), "down": (1024, 2048)}.items():
        found |= packed(parts, f"model.layers.0.mlp.{name}_proj", n, k)
    found |= {f"model.layers.0.{name}": ("F16", (around,)) for name in NORMS}
    found |= {"model.norm.weight": ("F16", (around,)), "model.embed_tokens.weight": ("F16", (96, around))}
    return found | {"lm_head.weight": ("F16", (96, around))}


@pytest.mark.parametrize("name", PACKED)
def test_packed_weights_have_the_nearest_format(folder: Path, name: str) -> None:
    configure(folder, WIDE | {"quantization_config": {"quant_method": "of another program"}})
    table = wide(PACKED[name])
    write(folder / "model.safetensors", header(table))
    found = from_safetensors(folder)
    matrices = {w.dtype for layer in found.layers for w in layer.weights if len(w.shape) > 1}
    assert matrices == {name} and {w.dtype for w in (*found.table, *found.head)} == {"float16"}
    total = (folder / "model.safetensors").stat().st_size
    assert found.bytes == pytest.approx(total, rel=0.01)


def test_bits_that_no_format_has_name_the_module(folder: Path) -> None:
    configure(folder, WIDE)
    one = PACKED["awq4"] | {"qweight": ("I32", lambda n, k: (k // 32, n))}
    write(folder / "model.safetensors", header(wide(one)))
    with pytest.raises(GraphError, match=r"net: 'model\.layers\.0\.self_attn\.q_proj' takes 1\.16 bits a weight, as "):
        from_safetensors(folder)


def mixture_tensors() -> Tensors:
    own = NORMS | {f"self_attn.{x}_proj.weight": ("BF16", (64, 64)) for x in "qkvo"}
    own |= {f"self_attn.{x}_proj.bias": ("BF16", (64,)) for x in "qkv"}
    own |= {"mlp.gate.weight": ("BF16", (4, 64)), "mlp.shared_expert_gate.weight": ("BF16", (1, 64))}
    for part, shape in (("gate", (32, 64)), ("up", (32, 64)), ("down", (64, 32))):
        own |= {f"mlp.experts.{e}.{part}_proj.weight": ("F8_E4M3", shape) for e in range(4)}
        big = tuple(128 if size == 32 else size for size in shape)
        own[f"mlp.shared_expert.{part}_proj.weight"] = ("BF16", big)
    return tensors_of(1, own)


def oss_tensors() -> Tensors:
    own = NORMS | {
        f"self_attn.{x}_proj.weight": ("BF16", (n, 64)) for x, n in zip("qkvo", (64, 32, 32, 64), strict=True)
    }
    own |= {f"self_attn.{x}_proj.bias": ("BF16", (n,)) for x, n in zip("qkvo", (64, 32, 32, 64), strict=True)}
    own |= {
        "self_attn.sinks": ("BF16", (4,)),
        "mlp.router.weight": ("BF16", (4, 64)),
        "mlp.router.bias": ("BF16", (4,)),
    }
    for part, rows in (("gate_up", 128), ("down", 64)):
        at = f"mlp.experts.{part}_proj"
        own |= {f"{at}_blocks": ("U8", (4, rows, 2, 16)), f"{at}_scales": ("U8", (4, rows, 2))}
        own |= {f"{at}_bias": ("BF16", (4, rows))}
    return tensors_of(2, own)


def next_tensors() -> Tensors:
    found = tensors_of(4, NORMS)
    for i in range(4):
        own: Tensors = {"mlp.gate.weight": ("BF16", (4, 64)), "mlp.shared_expert_gate.weight": ("BF16", (1, 64))}
        for part, shape in (("gate", (32, 64)), ("up", (32, 64)), ("down", (64, 32))):
            own |= {f"mlp.experts.{e}.{part}_proj.weight": ("BF16", shape) for e in range(4)}
            own[f"mlp.shared_expert.{part}_proj.weight"] = ("BF16", shape)
        if i == 3:
            rows = (("q", (128, 64)), ("k", (32, 64)), ("v", (32, 64)), ("o", (64, 64)))
            own |= {f"self_attn.{x}_proj.weight": ("BF16", shape) for x, shape in rows}
            own |= {f"self_attn.{x}_norm.weight": ("BF16", (16,)) for x in "qk"}
        else:
            inner, mixed = 32 * 128, 32 * 128 + 2 * 16 * 128
            own |= {
                "linear_attn.in_proj_qkvz.weight": ("BF16", (mixed + inner, 64)),
                "linear_attn.in_proj_ba.weight": ("BF16", (64, 64)),
                "linear_attn.conv1d.weight": ("BF16", (mixed, 1, 4)),
                "linear_attn.A_log": ("F32", (32,)), "linear_attn.dt_bias": ("BF16", (32,)),
                "linear_attn.norm.weight": ("BF16", (128,)), "linear_attn.out_proj.weight": ("BF16", (64, inner)),
            }  # fmt: skip
        found |= {f"model.layers.{i}.{name}": one for name, one in own.items()}
    return found | {"mtp.layers.0.input_layernorm.weight": ("BF16", (64,))}


def deepseek_tensors() -> Tensors:
    own = NORMS | {
        "self_attn.q_a_proj.weight": ("BF16", (32, 64)), "self_attn.q_a_layernorm.weight": ("BF16", (32,)),
        "self_attn.q_b_proj.weight": ("BF16", (4 * 192, 32)),
        "self_attn.kv_a_proj_with_mqa.weight": ("BF16", (576, 64)), "self_attn.kv_a_layernorm.weight": ("BF16", (512,)),
        "self_attn.kv_b_proj.weight": ("BF16", (4 * 256, 512)), "self_attn.o_proj.weight": ("BF16", (64, 512)),
    }  # fmt: skip
    found = tensors_of(2, own) | {f"model.layers.0.{name}": one for name, one in DENSE.items()}
    more: Tensors = {"mlp.gate.weight": ("BF16", (4, 64)), "mlp.gate.e_score_correction_bias": ("F32", (4,))}
    for part, shape in (("gate", (32, 64)), ("up", (32, 64)), ("down", (64, 32))):
        more |= {f"mlp.experts.{e}.{part}_proj.weight": ("BF16", shape) for e in range(4)}
        more[f"mlp.shared_experts.{part}_proj.weight"] = ("BF16", shape)
    return found | {f"model.layers.1.{name}": one for name, one in more.items()}


@pytest.mark.parametrize(
    ("document", "tensors", "dtypes"),
    [
        (MIXTURE, mixture_tensors(), {"bfloat16", "float8"}),
        (OSS, oss_tensors(), {"bfloat16", "mxfp4"}),
        (NEXT, next_tensors(), {"bfloat16", "float32"}),
        (DEEPSEEK, deepseek_tensors(), {"bfloat16", "float32"}),
    ],
    ids=["qwen2_moe", "gpt_oss", "qwen3_next", "deepseek_v3"],
)
def test_tensors_of_architectures(folder: Path, document: dict[str, Any], tensors: Tensors, dtypes: set[str]) -> None:
    configure(folder, document)
    write(folder / "model.safetensors", header(tensors))
    found = from_safetensors(folder)
    assert {w.dtype for w in found.weights} == dtypes
    stored = header({k: v for k, v in tensors.items() if not k.startswith("mtp.")})
    assert found.bytes == max(entry["data_offsets"][1] for entry in stored.values())


def split(folder: Path, tensors: Tensors, **metadata: Any) -> list[Path]:
    """Write two files and their index."""
    names = [f"model-{k + 1:05}-of-00002.safetensors" for k in range(2)]
    items = list(tensors.items())
    parts = [dict(items[::2]), dict(items[1::2])]
    for name, part in zip(names, parts, strict=True):
        write(folder / name, header(part))
    places = {key: name for name, part in zip(names, parts, strict=True) for key in part}
    (folder / INDEX).write_text(json.dumps({"metadata": metadata, "weight_map": places}))
    return [folder / name for name in names]


def test_an_index_and_its_files(folder: Path) -> None:
    configure(folder, LLAMA)
    files = split(folder, tensors_of(2, NORMS | ATTENTION | DENSE))
    for path in (folder, folder / INDEX, files[0], files[1]):
        assert {w.dtype for w in from_safetensors(path).weights} == {"bfloat16"}
    files[1].unlink()
    assert {w.dtype for w in from_safetensors(folder).weights} == {"bfloat16", "float16"}  # of the configuration
    assert {w.dtype for w in from_safetensors(files[0]).weights} == {"bfloat16", "float16"}


def test_an_index_without_files_agrees_with_the_configuration(folder: Path) -> None:
    configure(folder, LLAMA)
    tensors = tensors_of(2, NORMS | ATTENTION | DENSE)
    size = 2 * from_config(LLAMA).parameters
    for total, fits in ((size, True), (int(1.005 * size), True), (int(1.02 * size), False), (size // 2, False)):
        for file in split(folder, tensors, total_size=total):
            file.unlink()
        if fits:
            assert from_safetensors(folder).bytes == size
        else:
            with pytest.raises(
                GraphError, match=rf"total_size is {total} bytes, but by config\.json the weights take "
            ):
                from_safetensors(folder)
    for file in split(folder, tensors | {"vision_tower.x.weight": ("BF16", (2, 2))}, total_size=2 * size):
        file.unlink()
    assert from_safetensors(folder).bytes == size  # the index also lists what is not of the language model


def test_what_is_missing_is_named(folder: Path) -> None:
    tensors = tensors_of(2, NORMS | ATTENTION | DENSE)
    split(folder, tensors)
    with pytest.raises(GraphError, match=r"config\.json: no such file; it states the architecture of the model"):
        load_language_model(folder)
    configure(folder, LLAMA)
    del tensors["model.layers.1.mlp.down_proj.weight"]
    split(folder, tensors)
    with pytest.raises(GraphError, match=r"the files lack blk\.1\.ffn_down\.weight, which .*config\.json asks for"):
        from_safetensors(folder)
    tensors["model.layers.1.mlp.down_proj.weight"] = ("BF16", (64, 64))
    split(folder, tensors)
    with pytest.raises(GraphError, match=r"down_proj.*' has 4096 numbers; by config\.json it has 8192"):
        from_safetensors(folder)


@pytest.mark.parametrize(
    ("table", "size", "message"),
    [
        ({"a": {"dtype": "F7", "shape": [1], "data_offsets": [0, 1]}}, 1, "tensor 'a' has the unknown dtype 'F7'"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, 4, "which does not take 4 bytes"),
        ({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}}, 1, "an invalid shape or place"),
        ({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}}, 1, "an invalid shape or place"),
        ({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 2]}}, 1, "an invalid shape or place"),
        ({"a": {"dtype": "U8", "shape": [1 << 61] * 40, "data_offsets": [0, 1]}}, 1, "which does not take 1 bytes"),
        ({"a": {"dtype": "U8", "shape": [1]}}, 1, "does not state dtype, shape and data_offsets"),
        ({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}, 2, "leave a hole at byte 0"),
        (
            {k: {"dtype": "U8", "shape": [2], "data_offsets": [i, i + 2]} for i, k in enumerate("ab")},
            3, "overlap at byte 1 of the data",
        ),
        ({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, 5, "take 1 bytes, and the file holds 5"),
        ({"a": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}, 5, "take 9 bytes, and the file holds 5"),
        ({"a" * 1025: {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, 1, "longer than 1024 bytes"),
        (
            {f"{k}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for k in range(65537)},
            0, "it states 65537 tensors; at most 65536 are read",
        ),
    ],
)  # fmt: skip
def test_hostile_headers(tmp_path: Path, table: dict[str, Any], size: int, message: str) -> None:
    write(tmp_path / "a.safetensors", table, size)
    with pytest.raises(GraphError, match=message):
        read_header(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "its header is cut off"),
        (b"\x00" * 8, "its header is cut off"),
        (struct.pack("<Q", 1 << 60) + b"{}", "its header is cut off"),
        (struct.pack("<Q", 2) + b"[]", "its header is not JSON"),
        (struct.pack("<Q", 3) + b"{\xff}", "not UTF-8"),
        (struct.pack("<Q", 2) + b"{ ", "not JSON"),
    ],
)
def test_files_of_another_kind(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.safetensors").write_bytes(data)
    with pytest.raises(GraphError, match=message):
        read_header(tmp_path / "a.safetensors")


def test_a_header_longer_than_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 200_000_000))
        file.truncate(300_000_000)
    with pytest.raises(GraphError, match="the header is longer than 95 MiB"):
        read_header(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    "index",
    [
        "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": "../b.safetensors"}}', '{"weight_map": {"a": 3}}',
        '{"weight_map": {"a": "/etc/passwd"}}', '{"weight_map": {"a": "b.bin"}}',
    ],
)  # fmt: skip
def test_hostile_indices(folder: Path, index: str) -> None:
    configure(folder, LLAMA)
    (folder / INDEX).write_text(index)
    with pytest.raises(GraphError, match="weight_map"):
        from_safetensors(folder)


def test_a_tensor_in_two_files(folder: Path) -> None:
    configure(folder, LLAMA)
    files = split(folder, tensors_of(2, NORMS | ATTENTION | DENSE))
    files[1].write_bytes(files[0].read_bytes())
    with pytest.raises(GraphError, match="is in two files of the model"):
        from_safetensors(folder)


def test_names_of_weights() -> None:
    for name, family, weight in (
        ("transformer.h.3.attn.c_attn.weight", "gpt2", "blk.3.attn_qkv.weight"),
        ("gpt_neox.layers.0.mlp.dense_h_to_4h.bias", "gpt_neox", "blk.0.ffn_up.bias"),
        ("model.layers.1.post_attention_layernorm.weight", "gemma3_text", "blk.1.post_attention_norm.weight"),
        ("model.layers.1.block_sparse_moe.experts.2.w3.weight", "mixtral", "blk.1.ffn_up_exps.weight"),
    ):
        found = target(name, family)
        assert found is not None and found.weights == (weight,)
    others = ("vision_tower.layers.0.self_attn.q_proj.weight", "transformer.h.0.attn.bias", "lm_head", "", "a.b.c")
    assert {target(name, "llama") for name in others} == {None}
    named = {w.name for name in CONFIGS for w in from_config(CONFIGS[name]).weights}
    assert "blk.0.attn_sinks" in named and "blk.0.ssm_dt.bias" in named
