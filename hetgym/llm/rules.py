"""Rules: what each program that runs language models can do with layers, experts and memory.

Sources: ``tools/server/README.md``, ``docs/multi-gpu.md`` and ``common/fit.cpp`` of llama.cpp;
``vllm/config`` and ``vllm/distributed/utils.py`` of vLLM; ``utils/modeling.py`` of Accelerate;
``placement_utils.py`` of exo; the documentation of Megatron Core, torch.distributed.pipelining and ONNX Runtime.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hetgym.errors import check_name
from hetgym.graph.formats import FORMATS
from hetgym.llm.parts import Load, Parts

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
    """Scores and activations of the largest step, and what lies outside PyTorch's allocator."""
    return 4.0 * parts.vocabulary * 2048 + 8.0 * parts.hidden * 8192 + 0.4 * (1 << 30)


def _torch(parts: Parts, load: Load, masks: int) -> float:
    """Activations of a step, the scores of its last token, and the kernels that the first allocation loads."""
    return 16.0 * parts.hidden * load.step + 4.0 * parts.vocabulary * load.sequences + 1.0e9


def _exo(parts: Parts, load: Load, masks: int) -> float:
    return 16.0 * parts.hidden * load.step


@dataclass(frozen=True)
class Rules:
    """What a program can do; each uses a GPU for consecutive layers, in any order of the GPUs.

    Args:
        title: how the program is called.
        buffers: bytes that each GPU in use needs beside weights and cache.
        cpu: ``first`` or ``last`` for the layers that the CPU may have; empty if it can have none.
        copied: whether layers on the CPU are copied to a GPU each time they run.
        experts: whether experts may lie on the CPU while their layer is on a GPU.
        table_on_cpu: whether the table of words always lies on the CPU; otherwise it is with the first layer.
        gpus: most GPUs.
        tensor: whether a layer can be split over all GPUs, or over equal groups of them.
        utilisation: share of a GPU's memory that the program uses at most; 1 if it leaves that to the user.
        reserve: memory that it leaves on a GPU of its own, beside its buffers, if the model fits so [byte].
        proportional: whether it gives each device layers in proportion to its free memory, whatever its speed.
    """

    title: str
    buffers: Buffers
    cpu: str = ""
    copied: bool = False
    experts: bool = False
    table_on_cpu: bool = False
    gpus: int = 1024
    tensor: bool = False
    utilisation: float = 1.0
    reserve: float = 0.0
    proportional: bool = False


_FIT = 1.2 * 2**30  # `--fit` leaves 1 GiB on each device, a desktop takes 0.2 GB or more; two public splits chose it


TARGETS: dict[str, Rules] = {
    "llama.cpp": Rules(
        "llama.cpp", _llama_cpp, cpu="first", experts=True, table_on_cpu=True, tensor=True, reserve=_FIT
    ),
    "ollama": Rules("ollama", _llama_cpp, cpu="first", table_on_cpu=True, reserve=_FIT),
    "vllm": Rules("vLLM", _vllm, tensor=True, utilisation=0.92),
    "accelerate": Rules("Accelerate", _torch, cpu="last", copied=True),
    "exo": Rules("exo", _exo, proportional=True),
    "onnxruntime": Rules("ONNX Runtime", _torch, cpu="last", gpus=1),
    "pipelining": Rules("torch.distributed.pipelining", _torch),
    "megatron": Rules("Megatron Core", _torch, tensor=True),
}
"""Name of a target -> its rules."""


def rules_of(target: str) -> Rules:
    """The rules of a program.

    Raises:
        UnknownName: no such program.
    """
    check_name("target", target, TARGETS)
    return TARGETS[target]
