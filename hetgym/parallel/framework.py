"""Frameworks: what a training program adds to the kernels of a model, in time and in memory."""

from __future__ import annotations

from dataclasses import dataclass

from hetgym._config import check_number
from hetgym.errors import ConfigError


@dataclass(frozen=True)
class Framework:
    """Time and memory that a training program adds.

    Args:
        dispatch: time of the host to launch an operator [s]; the GPU runs behind the host.
        straggle: relative growth of the host's time with each pair of ranks of a tensor-parallel group, whose
            all-reduces wait for the slowest rank.
        turn: time that each micro-batch costs on a stage beyond its operators: data, schedule, loss scaling [s].
        recompute: True if the backward pass recomputes the activations of a layer from its input.
        blocking: True if a stage computes nothing while it sends to, or receives from, another stage.
        scatter: True if each GPU of a group sends its share of what a stage hands on, False if it sends all.
        overlap: True if gradients are reduced while the last backward pass runs.
        gradient_bytes: bytes of a gradient as it is reduced.
        state_bytes: bytes of a parameter, its gradient and its optimizer state that stay in memory.
        update_bytes: bytes that the optimizer reads and writes for each parameter.
        context_bytes: memory that the libraries take on every GPU [byte].

    Raises:
        ConfigError: a number that is negative or not finite.
    """

    dispatch: float = 0.0
    straggle: float = 0.0
    turn: float = 0.0
    recompute: bool = False
    blocking: bool = True
    scatter: bool = False
    overlap: bool = False
    gradient_bytes: float = 2.0
    state_bytes: float = 18.0
    update_bytes: float = 28.0
    context_bytes: float = 0.0

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            if name not in ("recompute", "blocking", "scatter", "overlap"):
                check_number(value, f"framework: {name}", ConfigError)


FRAMEWORKS: dict[str, Framework] = {
    "megatron": Framework(dispatch=58.8e-6, straggle=0.0157, turn=2.07e-3, recompute=True, scatter=True),
    "deepspeed": Framework(gradient_bytes=4.0, state_bytes=24.0, context_bytes=5.06e9),
}
"""Frameworks by name.

*megatron* is Megatron-DeepSpeed in mixed precision with recomputation. Its first three numbers are fitted to half of
the measured steps of a single node that vTrain published (Bang et al., MICRO 2024). *deepspeed* is DeepSpeed's pipeline
engine in float32. Times of layers come from a profile that holds its launches; the bytes of a parameter and of the
libraries are those that Sailor's authors state (Strati et al., SOSP 2025).
"""
