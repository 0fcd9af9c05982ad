"""Layer rules: where the programs that run language models can put whole layers.

Sources: ``tools/server/README.md`` and ``docs/multi-gpu.md`` of llama.cpp; ``vllm/config`` of vLLM;
``utils/modeling.py`` of Accelerate; the documentation of Megatron Core, torch.distributed.pipelining and ONNX Runtime.
"""

from dataclasses import KW_ONLY, dataclass

from hetgym.errors import check_name


@dataclass(frozen=True)
class LayerRules:
    """What a program can do with layers; each GPU takes consecutive ones, and the GPUs come in any order.

    Every accelerator is taken for a GPU, and the first other device is the CPU.

    Args:
        title: how the program is called.
        cpu: ``first`` or ``last`` for the layers that the CPU may have; empty if it can have none.
        experts: whether the experts of a layer may lie on the CPU while the layer is on a GPU.
        table_on_cpu: whether the table of words always lies on the CPU; otherwise it is with the first layer.
        gpus: most GPUs.
        copied: whether weights on the CPU are copied to a GPU at each use, so that the CPU computes nothing and has no
            layers in a plan that does not count these copies.
        ties: whether operators that share a weight, such as a head and the table of words, must be on one device.
    """

    title: str
    _: KW_ONLY
    cpu: str = ""
    experts: bool = False
    table_on_cpu: bool = False
    gpus: int = 1024
    copied: bool = False
    ties: bool = False


LAYER_RULES: dict[str, LayerRules] = {
    "llama.cpp": LayerRules("llama.cpp", cpu="first", experts=True, table_on_cpu=True),
    "ollama": LayerRules("ollama", cpu="first", table_on_cpu=True),
    "vllm": LayerRules("vLLM"),
    "accelerate": LayerRules("Accelerate", cpu="last", copied=True, ties=True),
    "onnxruntime": LayerRules("ONNX Runtime", cpu="last", gpus=1),
    "pipelining": LayerRules("torch.distributed.pipelining"),
    "megatron": LayerRules("Megatron Core"),
}
"""Name of a target -> its rules. Left out is exo, whose layers follow from the memory of the devices alone."""


def layer_rules(target: str) -> LayerRules:
    """The rules of a program.

    Raises:
        UnknownName: no such program, or one that leaves nothing to decide.
    """
    check_name("target", target, LAYER_RULES)
    return LAYER_RULES[target]
