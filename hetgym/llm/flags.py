"""Flags: what to type so that a program places a model as planned."""

import json
import math
from collections.abc import Iterable

from hetgym.errors import ConfigError
from hetgym.graph.language_model import LanguageModel
from hetgym.graph.module_paths import Paths, module_paths
from hetgym.llm.search import Split
from hetgym.llm.site import Site
from hetgym.pipeline.programs import megatron_layout, split_spec, vllm_partition

BACKENDS = {"AMD": "ROCm", "Intel": "SYCL", "Apple": "MTL"}  # first word of a product -> prefix of GPUs in llama.cpp

CACHES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}  # dtype -> its name in llama.cpp


def flags(target: str, site: Site, split: Split, model: LanguageModel) -> str:
    """Arguments, settings or the content of a file with which a program follows a split."""
    return _WRITERS[target](site, split, model)


def _gpu_stages(site: Site, split: Split) -> list[tuple[tuple[int, ...], int, int]]:
    return [(x.devices, x.first, x.end) for x in split.stages if x.devices != (site.cpu,)]


def _numbers(site: Site) -> dict[int, int]:
    """Device -> its number among the GPUs, as programs count them."""
    gpus = [k for k, device in enumerate(site.platform) if device.kind != "cpu"]
    return {device: number for number, device in enumerate(gpus)}


def llama_cpp(site: Site, split: Split, model: LanguageModel) -> str:
    """Arguments of llama.cpp: the last layers and, as one more, the head go to the GPUs, in proportion."""
    stages, number, count = _gpu_stages(site, split), _numbers(site), len(model.layers)
    if not stages:
        return "-ngl 0" + _llama_load(site)
    used = [k for devices, _, _ in stages for k in devices]
    text = f"-ngl {count + 1 - stages[0][1]}"
    if len(number) > 1 and used != list(number):
        prefix = BACKENDS.get(site.platform[used[0]].model.partition(" ")[0], "CUDA")
        text += " --device " + ",".join(f"{prefix}{number[k]}" for k in used)
    if len(stages[0][0]) > 1:
        return text + " -sm tensor" + _llama_load(site, flash=True)
    if len(stages) > 1:
        layers = [end - first + (end == count) for _, first, end in stages]
        text += " -ts " + ",".join(map(str, layers))
    if split.away:
        first = split.away == tuple(range(len(split.away)))
        pattern = rf"blk\.({numbers_pattern(split.away)})\.ffn_(up|down|gate|gate_up)_exps"
        text += f" --n-cpu-moe {len(split.away)}" if first else f" -ot '{pattern}=CPU'"
    return text + _llama_load(site)


def numbers_pattern(numbers: Iterable[int]) -> str:
    """Regular expression of some whole numbers, with runs of their last digit.

    >>> numbers_pattern([3, 8, 9, 10, 11, 12, 24])
    '3|[89]|1[0-2]|24'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1 and number % 10:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = []
    for first, *others in runs:
        last = f"[{first % 10}{'-' if len(others) > 1 else ''}{others[-1] % 10}]" if others else str(first % 10)
        texts.append(f"{first // 10 or ''}{last}")
    return "|".join(texts)


def _llama_load(site: Site, flash: bool = False) -> str:
    load, text = site.load, f" -c {site.load.context}"
    quantised = (load.key, load.value) != ("float16", "float16")
    if load.sequences > 1:
        text += f" -np {load.sequences}"
    if load.step != 512:
        text += f" -ub {load.step}"
    if flash or quantised:
        text += " -fa on"
    if quantised:
        text += f" -ctk {CACHES.get(load.key, load.key)} -ctv {CACHES.get(load.value, load.value)}"
    return text


def ollama(site: Site, split: Split, model: LanguageModel) -> str:
    """Parameters of ollama, which spreads layers over GPUs by itself."""
    stages = _gpu_stages(site, split)
    layers = len(model.layers) + 1 - stages[0][1] if stages else 0
    text = f"PARAMETER num_gpu {layers}\nPARAMETER num_ctx {site.load.context}"
    if (site.load.key, site.load.value) != ("float16", "float16"):
        text = f"OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE={CACHES.get(site.load.key, site.load.key)}\n{text}"
    return text


def vllm(site: Site, split: Split, model: LanguageModel) -> str:
    """Arguments of vLLM."""
    load, stages = site.load, split.stages
    layers = [stage.end - stage.first for stage in stages]
    text = f"{vllm_partition(layers)} " if len(set(layers)) > 1 else ""
    text += f"vllm serve MODEL --max-model-len {load.context}"
    if len(stages) > 1:
        text += f" --pipeline-parallel-size {len(stages)}"
    if len(stages[0].devices) > 1:
        text += f" --tensor-parallel-size {len(stages[0].devices)}"
    if load.key == "float8":
        text += " --kv-cache-dtype fp8"
    if load.sequences > 1:
        text += f" --max-num-seqs {load.sequences}"
    gpus = {k for stage in stages for k in stage.devices}
    share = min(site.room[k] / site.platform[k].memory_capacity for k in gpus)
    return text + f" --gpu-memory-utilization {math.floor(100 * share) / 100:g}"


def accelerate(site: Site, split: Split, model: LanguageModel) -> str:
    """``device_map`` of Accelerate, as JSON: each module of the model once."""
    number = _numbers(site)
    paths = _paths(model)

    def place(k: int) -> int | str:
        return number.get(k, "cpu")

    first, last = split.stages[0], split.stages[-1]
    found: dict[str, int | str] = dict.fromkeys(paths.front, place(first.devices[0]))
    for stage in split.stages:
        found |= {f"{paths.layers}.{i}": place(stage.devices[0]) for i in range(stage.first, stage.end)}
    head = place(first.devices[0] if model.tied else last.devices[0])
    return json.dumps(found | {paths.norm: place(last.devices[0]), paths.head: head})


def _paths(model: LanguageModel) -> Paths:
    return module_paths(model.family, any(weight.role == "per_layer_token_embd" for weight in model.table))


def pipelining(site: Site, split: Split, model: LanguageModel) -> str:
    """``split_spec`` of torch.distributed.pipelining."""
    layers = _paths(model).layers
    return split_spec([f"{layers}.{stage.first}" for stage in split.stages[1:]])


def megatron(site: Site, split: Split, model: LanguageModel) -> str:
    """Layout of Megatron Core."""
    layers = [stage.end - stage.first for stage in split.stages]
    ways = len(split.stages[0].devices)
    text = f"--pipeline-model-parallel-size {len(layers)} "
    text += f"--tensor-model-parallel-size {ways} " if ways > 1 else ""
    return text + f'--pipeline-model-parallel-layout "{megatron_layout(layers)}"'


def onnxruntime(site: Site, split: Split, model: LanguageModel) -> str:
    """Settings of ONNX Runtime, which gives the GPU nodes in order until a budget is spent."""
    parts = site.parts
    end = max((stage.end for stage in split.stages if stage.devices != (site.cpu,)), default=0)
    whole = parts.table + (parts.dense + parts.experts + parts.cache)[:end].sum()
    whole += parts.head if end == len(parts.dense) else 0.0
    budget = int(whole / 1000) if end else 0
    return f'session.resource_cuda_partitioning_settings="{budget},node_memory_stats.csv"'


def exo(site: Site, split: Split, model: LanguageModel) -> str:
    """Nothing: exo places layers in proportion to the memory that is free."""
    if not split.stages:
        raise ConfigError("exo has nothing to place")
    return "exo  # it places layers in proportion to free memory, and takes no other split"


_WRITERS = {
    "llama.cpp": llama_cpp, "ollama": ollama, "vllm": vllm, "accelerate": accelerate, "exo": exo,
    "onnxruntime": onnxruntime, "pipelining": pipelining, "megatron": megatron,
}  # fmt: skip
