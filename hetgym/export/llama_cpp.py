"""llama.cpp: ``--tensor-split`` for layers, ``--override-tensor`` for weights that lie elsewhere than their layer.

Source: llama.cpp, ``llama-cli --help`` and ``load_tensors`` of ``src/llama-model.cpp``. The layers and, as one more,
the head are numbered; the last ``--n-gpu-layers`` of them go to the GPUs of ``--device`` in proportion to
``--tensor-split``. ``--override-tensor`` is a list of ``regex=buffer``; the first regular expression (ECMAScript, found
anywhere in a tensor's name) applies. An operator runs where its weights are, attention where its layer is.
"""

from collections.abc import Mapping
from typing import Any

from hetgym._text import counted
from hetgym.errors import ConfigError, unknown_name
from hetgym.export.placement import Placement, Target, lost
from hetgym.graph import layer_of
from hetgym.planning.layers import LAYER

PROGRAM = "llama.cpp"

BACKENDS = ("CUDA", "Vulkan", "ROCm", "SYCL")  # Prefixes of the names of GPUs, one for each back end of llama.cpp

NPUS = "CANN"  # Prefix of the names of NPUs, which are GPUs to llama.cpp

TENSORS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.gate_up_proj": "ffn_(gate|up|gate_up)_exps",
    "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
}
"""Operator of a layer -> tensor of the layer in a GGUF file, as a regular expression."""

OUTSIDE = {"embed_tokens": "token_embd", "embed_positions": "position_embd", "norm": "output_norm", "lm_head": "output"}
"""Operator outside the layers -> tensor."""


def export_llama_cpp(placement: Placement, backend: str = "CUDA") -> dict[str, Any]:
    """Arguments of llama.cpp's programs that place the weights and layers of one of the zoo's language models.

    ``backend``, one of :data:`BACKENDS`, names the GPUs. Every accelerator is taken for a GPU, as by the target of
    :class:`~hetgym.planning.layer_rules.LayerRules`; NPUs have the names of the back end :data:`NPUS`.

    Returns:
        ``args``: the words of the command line; and what they say: ``device``, ``n_gpu_layers``, ``tensor_split`` and
        ``override_tensor``.

    Raises:
        ConfigError: the plan is of another model, or one that llama.cpp would not follow.
        UnknownName: no such back end.
    """
    if backend not in BACKENDS:
        raise unknown_name("back end of llama.cpp", backend, BACKENDS)
    if not placement.language_model or any(name.startswith(("encoder.", "decoder.")) for name in placement.names):
        raise ConfigError(f"{PROGRAM} runs language models, and {placement.title} is not one of 'hetgym list decoders'")
    slots = _slots(placement)
    gpus = list(dict.fromkeys(slot for slot in slots if slot.kind != "cpu"))
    offloaded = sum(slot.kind != "cpu" for slot in slots)
    _check_turns(placement, slots, gpus)
    overrides = _overrides(placement, slots, backend)
    more = dict.fromkeys(_name(target, backend) for target in placement.used if target.kind != "cpu")
    devices = list(dict.fromkeys([*(_name(gpu, backend) for gpu in gpus), *more]))
    split = [slots.count(gpu) for gpu in gpus] + [0] * (len(devices) - len(gpus))
    args = ["--n-gpu-layers", str(offloaded)]
    if devices:
        args += ["--device", ",".join(devices), "--split-mode", "layer"]
    if len(devices) > 1 and offloaded:
        args += ["--tensor-split", ",".join(map(str, split))]
    if overrides:
        args += ["--override-tensor", ",".join(f"{pattern}={where}" for pattern, where in overrides.items())]
    return {
        "args": args,
        "device": devices,
        "n_gpu_layers": offloaded,
        "tensor_split": split,
        "override_tensor": overrides,
    }


def _name(target: Target, backend: str) -> str:
    """Name of a device and of its buffers."""
    return "CPU" if target.kind == "cpu" else f"{NPUS if target.kind == 'npu' else backend}{target.number}"


def _layer_number(name: str) -> int | None:
    layer = layer_of(name)
    return int(layer.rpartition(".")[2]) if layer else None


def _slots(placement: Placement) -> list[Target]:
    """For each layer, the device of its attention and cache (or of the merged layer); then the device of the head.

    If the head lies on a device that comes before that of the last layer, it takes the slot of the last layer's device,
    and its weights are overridden.
    """
    found: dict[int, Target] = {}
    for i, name in enumerate(placement.names):
        number = _layer_number(name)
        if number is not None and (placement.kinds[i] == LAYER or name.endswith(".sdpa")):
            found[number] = placement.where(i)
    if sorted(found) != list(range(len(found))) or not found:
        raise ConfigError(f"{PROGRAM}: the layers of {placement.title} are not numbered from 0")
    layers = [found[k] for k in range(len(found))]
    head = placement.where(placement.names.index("lm_head"))
    fits = head == layers[-1] or (head.kind != "cpu" and head not in layers)
    return [*layers, head if fits else layers[-1]]


def _check_turns(placement: Placement, slots: list[Target], gpus: list[Target]) -> None:
    """Refuse (ConfigError) slots that are not first on the CPU, then on one GPU after the other."""
    turn = [-1 if slot.kind == "cpu" else gpus.index(slot) for slot in slots]
    back = next((k for k in range(1, len(turn)) if turn[k] < turn[k - 1]), None)
    if back is not None:
        lost(
            PROGRAM,
            f"keeps the first layers on the CPU and gives each GPU consecutive ones, and the plan goes from "
            f"{slots[back - 1].name} back to {slots[back].name} at layer {back}{placement.advice}",
        )


def _overrides(placement: Placement, slots: list[Target], backend: str) -> dict[str, str]:
    """Regular expression -> buffer of weights that lie elsewhere than their layer; ConfigError if that cannot be."""
    found: dict[tuple[str, str], list[int]] = {}
    single: dict[str, str] = {}
    stray = []
    near = _neighbours(placement)
    for i, name in enumerate(placement.names):
        target, number = placement.where(i), _layer_number(name)
        if placement.kinds[i] == LAYER:
            continue
        if number is None:
            tensor = OUTSIDE.get(name)
            usual = Target("", "cpu", 0) if name.startswith("embed") else slots[-1]
            same = target.kind == usual.kind and (target.kind == "cpu" or target == usual)
            if tensor is not None and not same:
                single[rf"^{tensor}\."] = _name(target, backend)
            continue
        tensor = TENSORS.get(name.removeprefix(layer_of(name)).removeprefix("."))
        if placement.weighted[i] and tensor is not None:
            if target != slots[number]:
                found.setdefault((tensor, _name(target, backend)), []).append(number)
        elif target != slots[number] and target not in near[i]:
            stray.append(i)
    if stray:
        lost(
            PROGRAM,
            "runs operators without weights where their layer or a neighbour is, so "
            f"{counted(len(stray), 'operator')}, such as {placement.names[stray[0]]!r}, would not run on the planned "
            f"device{placement.advice}",
        )
    return _merged(found, len(slots) - 1) | single


def _neighbours(placement: Placement) -> list[set[Target]]:
    """Devices of the operators that each one reads from or is read by."""
    found: list[set[Target]] = [set() for _ in placement.names]
    for source, target in zip(placement.source.tolist(), placement.target.tolist(), strict=True):
        found[source].add(placement.where(target))
        found[target].add(placement.where(source))
    return found


def _merged(found: Mapping[tuple[str, str], list[int]], layers: int) -> dict[str, str]:
    """One regular expression for the tensors that go to the same device in the same layers."""
    alike: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (tensor, where), numbers in found.items():
        alike.setdefault((where, tuple(numbers)), []).append(tensor)
    rules = {}
    for (where, same), tensors in alike.items():
        which = r"\d+" if len(same) == layers else f"({'|'.join(map(str, same))})"
        rules[rf"^blk\.{which}\.({'|'.join(tensors)})\."] = where
    return rules
