"""Rules: what each program that runs language models does with memory and tensors, beside its rules for layers.

Sources: ``common/fit.cpp`` of llama.cpp; ``vllm/distributed/utils.py`` of vLLM; ``placement_utils.py`` of exo; and
those of :mod:`hetgym.planning.layer_rules`.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from hetgym.errors import check_name
from hetgym.graph.formats import FORMATS, IN_GGUF, IN_SAFETENSORS
from hetgym.llm.parts import Load, Parts
from hetgym.planning.layer_rules import LayerRules, layer_rules

_DRIVER = 0.4e9  # context of the driver: 138 to 749 MB were reported

Buffers = Callable[[Parts, Load, int], float]  # parts, load, copies of the mask of attention -> bytes of each GPU


def _llama_cpp(parts: Parts, load: Load, masks: int) -> float:
    """Activations, scores of the tokens of further sequences, and the mask of attention.

    Fitted to what llama.cpp reports with flash attention, within 13 %. Some builds convert a layer of a quantised cache
    to 16 bits at a time, others do not; half of that is counted.
    """
    step = load.step
    scores = 4.0 * parts.vocabulary * step * (load.sequences - 1)
    scores += parts.token * load.context if {load.key, load.value} & set(FORMATS) else 0.0
    return 16.0 * parts.hidden * step + scores + 2.0 * step * load.context * masks + _DRIVER


def _vllm(parts: Parts, load: Load, masks: int) -> float:
    """Scores and activations of a step of 2048 tokens, and what lies outside PyTorch's allocator."""
    return 4.0 * parts.vocabulary * 512 + 16.0 * parts.hidden * 2048 + 0.25 * 2**30


def _torch(parts: Parts, load: Load, masks: int) -> float:
    """Activations of a step, the scores of its last token, and the kernels that the first allocation loads."""
    return 16.0 * parts.hidden * load.step + 4.0 * parts.vocabulary * load.sequences + 1.0e9


def _exo(parts: Parts, load: Load, masks: int) -> float:
    return 16.0 * parts.hidden * load.step


@dataclass(frozen=True)
class Rules(LayerRules):
    """What a program can do with layers and memory.

    Args:
        buffers: bytes that each GPU in use needs beside weights and cache.
        tensor: most GPUs over which it splits the tensors of a layer; 1 if it does not.
        whole: whether such a split is over all GPUs; otherwise it is over equal groups of them.
        untensored: families whose tensors it does not split.
        utilisation: share of a GPU's memory that the program uses at most; 1 if it leaves that to the user.
        reserve: memory that it leaves on a GPU of its own, beside its buffers, if the model fits so [byte].
        proportional: whether it gives GPUs layers in proportion to their free memory, whatever their speed.
        nodes: whether every GPU is a node that takes part; a CPU is one where its machine has no GPU.
        weights: formats of weights that it reads.
        caches: formats of cached keys and values that it has.
        mixed: whether keys and values may have different ones.
        stretched: whether it takes contexts longer than the model was made for.
    """

    buffers: Buffers
    tensor: int = 1
    whole: bool = False
    untensored: frozenset[str] = frozenset()
    utilisation: float = 1.0
    reserve: float = 0.0
    proportional: bool = False
    nodes: bool = False
    weights: frozenset[str] = IN_SAFETENSORS
    caches: tuple[str, ...] = ("float16", "bfloat16", "float32")
    mixed: bool = False
    stretched: bool = True


FIT = 1.2 * 2**30  # `--fit` leaves 1 GiB on each device, a desktop takes 0.2 GB or more; two public splits chose it
TIGHT = 0.25 * 2**30  # What stays free at least if a model would not fit the GPUs otherwise

_UNTENSORED = frozenset({"deepseek_v2", "deepseek_v3", "deepseek2", "grok", "olmoe", "gemma3n", "olmo2", "mamba"})
_CACHES = ("float16", "bfloat16", "float32", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")


def _rules(target: str, buffers: Buffers, **more: Any) -> Rules:
    """The rules of a program, those for its layers among them."""
    return Rules(buffers=buffers, **asdict(layer_rules(target)), **more)


TARGETS: dict[str, Rules] = {
    "llama.cpp": _rules(
        "llama.cpp",
        _llama_cpp,
        reserve=FIT,
        weights=IN_GGUF,
        caches=_CACHES,
        mixed=True,
        tensor=16,
        whole=True,
        untensored=_UNTENSORED,
    ),
    "ollama": _rules(
        "ollama", _llama_cpp, reserve=FIT, weights=IN_GGUF, caches=("float16", "q8_0", "q4_0"), proportional=True
    ),
    "vllm": _rules(
        "vllm", _vllm, tensor=1024, utilisation=0.92, caches=("float16", "bfloat16", "float8"), stretched=False
    ),
    "accelerate": _rules("accelerate", _torch),
    "exo": Rules("exo", weights=IN_GGUF | IN_SAFETENSORS, buffers=_exo, proportional=True, nodes=True),
    "onnxruntime": _rules("onnxruntime", _torch),
    "pipelining": _rules("pipelining", _torch),
    "megatron": _rules("megatron", _torch, tensor=1024),
}
"""Name of a target -> its rules."""


def rules_of(target: str) -> Rules:
    """The rules of a program.

    Raises:
        UnknownName: no such program.
    """
    check_name("target", target, TARGETS)
    return TARGETS[target]
