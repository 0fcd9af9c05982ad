"""Stages of layers in the words of programs that run pipelines: Megatron Core, vLLM and torch.distributed.pipelining.

Sources: ``pipeline_parallel_layout`` of Megatron Core, in which ``E`` stands for the words, ``t`` for a layer, ``L``
for the head with its loss, and ``|`` for the end of a stage; ``VLLM_PP_LAYER_PARTITION`` in
``vllm/distributed/utils.py``; ``split_spec`` of ``torch.distributed.pipelining.pipeline``.
"""

import re
from collections.abc import Sequence

_WORDS = re.compile(r"emb|word|wte|wpe|token|rotary|drop", re.IGNORECASE)
_HEAD = re.compile(r"head|norm|ln_f|output|logit|loss|score|embed_out", re.IGNORECASE)


def roles_of(names: Sequence[str]) -> list[str]:
    """Role of each layer of a language model by its name: ``words`` first, then each ``layer``, ``head`` last.

    >>> roles_of(["words", "layers.0", "layers.1", "norm", "lm_head"])
    ['words', 'layer', 'layer', 'head', 'head']
    """
    first, end = 0, len(names)
    while first < end and _WORDS.search(names[first]):
        first += 1
    while end > first and _HEAD.search(names[end - 1]):
        end -= 1
    return ["words"] * first + ["layer"] * (end - first) + ["head"] * (len(names) - end)


def megatron_layout(layers: Sequence[int]) -> str:
    """``--pipeline-model-parallel-layout`` for the number of layers in each stage.

    >>> megatron_layout([1, 2, 0])
    'Et|t*2|L'
    """
    stages = [f"t*{count}" if count > 1 else "t" * count for count in layers]
    return f"E{'|'.join(stages)}L"


def vllm_partition(layers: Sequence[int]) -> str:
    """The setting of vLLM for the number of layers in each stage.

    >>> vllm_partition([9, 10])
    'VLLM_PP_LAYER_PARTITION=9,10'
    """
    return f"VLLM_PP_LAYER_PARTITION={','.join(map(str, layers))}"


def split_spec(modules: Sequence[str]) -> str:
    """``split_spec`` of torch.distributed.pipelining for the module at which each stage but the first begins.

    >>> split_spec(["model.layers.8"])
    'split_spec={"model.layers.8": SplitPoint.BEGINNING}'
    """
    points = [f'"{module}": SplitPoint.BEGINNING' for module in modules]
    return "split_spec={" + ", ".join(points) + "}"


def layouts_of(names: Sequence[str], roles: Sequence[str], stages: Sequence[tuple[int, int]]) -> dict[str, str]:
    """What to paste for stages of a language model, by program; without those that cannot say it.

    Args:
        names: [n] layers; several are numbered, as in ``layers.3``.
        roles: [n] see :func:`roles_of`.
        stages: first layer of each stage, and the one behind its last.
    """
    stems = {stem for stem, _, number in (name.rpartition(".") for name in names) if number.isdigit()}
    if len(stages) < 2 or not stems or len(names) < 3:
        return {}
    inside = [roles[first:end] for first, end in stages]
    counts = [own.count("layer") for own in inside]
    split = {"pipelining": split_spec([names[first] for first, _ in stages[1:]])}
    if len(stems) > 1 or any("words" in own for own in inside[1:]) or any("head" in own for own in inside[:-1]):
        return split  # the others know one row of layers, with all words before it and the whole head behind it
    sizes = f"--pipeline-model-parallel-size {len(counts)}"
    layout = f'{sizes} --pipeline-model-parallel-layout "{megatron_layout(counts)}"'
    return {"megatron": layout, "vllm": vllm_partition(counts)} | split
