"""Frameworks: what a training program adds to the kernels of a model, in time and in memory."""

from dataclasses import dataclass, replace

from hetgym._input.config import check_number
from hetgym._sums import summed
from hetgym.device import Device
from hetgym.errors import ConfigError, check_name


@dataclass(frozen=True)
class Framework:
    """Time and memory that a training program adds.

    Raises:
        ConfigError: a number that is negative or not finite, no such stage of ZeRO, or parts of the state that are
            more than the state.
    """

    dispatch: float = 0.0  # time of the host to launch an operator [s]; the GPU runs behind the host
    # relative growth of the host's time with each pair of ranks of a tensor-parallel group, whose all-reduces wait for
    # the slowest rank
    straggle: float = 0.0
    # time that each micro-batch costs on a stage beyond its operators: data, schedule, loss scaling [s]
    turn: float = 0.0
    recompute: bool = False  # True if the backward pass recomputes the activations of a layer from its input
    blocking: bool = True  # True if a stage computes nothing while it sends to, or receives from, another stage
    scatter: bool = False  # True if each GPU of a group sends its share of what a stage hands on, False if it sends all
    overlap: bool = False  # True if gradients are reduced while the last backward pass runs
    gradient_bytes: float = 2.0  # bytes of a gradient as it is reduced
    state_bytes: float = 18.0  # bytes of a parameter, its gradient and its optimizer state that stay in memory
    update_bytes: float = 28.0  # bytes that the optimizer reads and writes for each parameter
    context_bytes: float = 0.0  # memory that the libraries take on every GPU [byte]
    # what the replicas of a stage share out among them: 0 nothing, 1 the optimizer's state, 2 also gradients, 3 also
    # parameters (Rajbhandari et al., "ZeRO", SC 2020)
    zero: int = 0
    weight_bytes: float = 2.0  # bytes of a parameter that passes compute with, part of `state_bytes`
    kept_bytes: float = 4.0  # bytes of a gradient that stays in memory until the optimizer runs, part of `state_bytes`
    # True if tensor-parallel groups share out the tokens of what they do not split by columns: norms, dropouts and the
    # residual stream (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", MLSys 2023).
    # Known to TransformerLayers, not to profiles.
    sequence: bool = False
    working: bool = False  # True if memory counts the activations of the layer that is being recomputed

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            if name in ("recompute", "blocking", "scatter", "overlap", "sequence", "working"):
                if not isinstance(value, bool):
                    raise ConfigError(f"framework: {name} is {value!r}; it must be True or False")
            else:
                check_number(value, f"framework: {name}", ConfigError)
        if self.zero not in (0, 1, 2, 3):
            raise ConfigError(f"framework: zero is {self.zero!r}; it must be 0, 1, 2 or 3")
        if self.zero and self.weight_bytes + self.kept_bytes > self.state_bytes:
            raise ConfigError(
                f"framework: weight_bytes {self.weight_bytes:g} and kept_bytes {self.kept_bytes:g} are more than "
                f"state_bytes {self.state_bytes:g}"
            )

    def room(self, device: Device) -> float:
        """Memory of a GPU that plans may fill: less ``context_bytes`` or, if they are 0, its reserve [byte]."""
        return device.memory_capacity - self.context_bytes if self.context_bytes else device.usable_memory

    def state(self, data: int) -> float:
        """Bytes of a parameter, its gradient and its optimizer state on each of ``data`` replicas [byte].

        >>> [Framework(state_bytes=16, kept_bytes=2, zero=zero).state(64) for zero in range(4)]
        [16.0, 4.1875, 2.21875, 0.25]
        """
        parts = self.state_bytes - self.weight_bytes - self.kept_bytes, self.kept_bytes, self.weight_bytes
        if not self.zero:
            return float(self.state_bytes)
        return float(summed(part / data if k < self.zero else part for k, part in enumerate(parts)))


FRAMEWORKS: dict[str, Framework] = {
    "megatron": Framework(dispatch=58.8e-6, straggle=0.0157, turn=2.07e-3, recompute=True, scatter=True),
    "deepspeed": Framework(gradient_bytes=4.0, state_bytes=24.0, context_bytes=5.06e9, weight_bytes=4.0),
}
"""Frameworks by name.

*megatron* is Megatron-DeepSpeed in mixed precision with recomputation. Its first three numbers are fitted to half of
the measured steps of a single node that vTrain published (Bang et al., MICRO 2024). *deepspeed* is DeepSpeed's pipeline
engine in float32. Times of layers come from a profile that holds its launches; the bytes of a parameter and of the
libraries are those that Sailor's authors state (Strati et al., SOSP 2025).
"""


def framework_of(text: str) -> Framework:
    """A framework by name, with switches after a comma each.

    Raises:
        UnknownName: no framework or switch of that name.
        ConfigError: a value that the switch does not have.

    >>> framework_of("megatron,zero=1,sequence=True").zero
    1
    """
    name, *others = (word.strip() for word in text.split(","))
    check_name("framework", name, FRAMEWORKS)
    defaults, changed = Framework().__dict__, {}
    for word in others:
        switch, _, value = (part.strip() for part in word.partition("="))
        check_name("switch of a framework", switch, defaults)
        kind = type(defaults[switch])
        words = {"true": True, "false": False} if kind is bool else {}
        try:
            changed[switch] = words[value.lower()] if words else kind(value)
        except (KeyError, ValueError):
            rule = "True or False" if words else "a whole number" if kind is int else "a number"
            raise ConfigError(f"framework: {switch} is {value!r}; it must be {rule}") from None
    return replace(FRAMEWORKS[name], **changed)
