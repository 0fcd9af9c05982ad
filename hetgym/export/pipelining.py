"""torch.distributed.pipelining: points at which a module is split into stages.

Source: PyTorch, ``torch.distributed.pipelining.pipeline(module, mb_args, split_spec=…)``, whose ``split_spec`` maps
paths of submodules to ``SplitPoint.BEGINNING`` or ``SplitPoint.END``.
"""

from collections.abc import Sequence, Set
from typing import Any

from hetgym.errors import ConfigError
from hetgym.export.placement import Placement, around, called_module, lost, under
from hetgym.parallel import ParallelPlan

PROGRAM = "torch.distributed.pipelining"


def export_pipelining(placement: Placement) -> dict[str, Any]:
    """Split points of a placement whose devices follow each other in the order of the model.

    Returns:
        ``split_spec``: path of a submodule -> ``beginning`` or ``end``; ``stages``: for each stage its device, and its
        first and last operator. A plan on one device has one stage and nothing to split.

    Raises:
        ConfigError: the plan returns to a device out of turn, or a stage begins where no submodule does.
    """
    paths = placement.modules(PROGRAM)
    device = placement.device.tolist()
    starts = [0, *(i for i in range(1, len(device)) if device[i] != device[i - 1])]
    turn = [device[i] for i in starts]
    ring = list(dict.fromkeys(turn))
    back = next((k for k in range(len(turn)) if turn[k] != ring[k % len(ring)]), None)
    if back is not None:
        again, before = placement.targets[turn[back]].name, placement.targets[turn[back - 1]].name
        lost(
            PROGRAM,
            f"gives each device consecutive modules, and the plan goes from {before} back to {again} at "
            f"{placement.names[starts[back]]!r}{placement.advice}",
        )
    if len(turn) % len(ring):
        lost(
            PROGRAM,
            f"gives each device equally many stages, and the plan has {len(turn)} stages on {len(ring)} devices"
            f"{placement.advice}",
        )
    ends = [*starts[1:], len(device)]
    return {
        "split_spec": {path: point for path, point in (_split(placement, paths, start) for start in starts[1:])},
        "stages": [
            {"device": placement.where(start).name, "first": placement.names[start], "last": placement.names[end - 1]}
            for start, end in zip(starts, ends, strict=True)
        ],
    }


def _split(placement: Placement, paths: Sequence[str], start: int) -> tuple[str, str]:
    """The split point before an operator; ConfigError if the operators on either side are of the same module."""
    before, after = paths[start - 1], paths[start]
    called = set(paths)  # unlike lists of modules, which have no operators of their own
    here = _entered(before, after, called)
    if here and not any(under(path, here) for path in paths[:start]):
        return here, "beginning"
    left = _entered(after, before, called)
    if left and not any(under(path, left) for path in paths[start:]):
        return left, "end"
    lost(
        PROGRAM,
        f"splits between modules, and the plan splits {called_module(after)} before "
        f"{placement.names[start]!r}{placement.advice}",
    )


def _entered(outside: str, inside: str, called: Set[str]) -> str:
    """The outermost called module around ``inside`` that is not around ``outside``; empty if there is none."""
    return next((path for path in around(inside) if path in called and not under(outside, path)), "")


def export_stages(plan: ParallelPlan, layers: Sequence[str] | None = None) -> dict[str, Any]:
    """Split points of a training plan, whose stages of layers are each on groups of GPUs.

    By default the paths of submodules that begin each layer are those of Llama in ``transformers``: the embedding, the
    blocks, and the head with the norm before it.

    Returns:
        ``split_spec`` as above; ``stages`` with their GPUs, and the schedule, its chunks and micro-batches.

    Raises:
        ConfigError: tensors are split, replicas are on different GPUs, or there are not as many paths as layers.
    """
    names = list(layers or _llama(plan.layers))
    if len(names) != plan.layers:
        raise ConfigError(f"{PROGRAM}: {len(names)} paths of layers for a plan of {plan.layers} layers")
    for stage in plan.stages:
        widest = max(group.tensor for group in stage.groups)
        if widest > 1:
            lost(PROGRAM, f"splits no tensors, and layers {stage.first} to {stage.last} run on {widest} GPUs together")
    return {
        "split_spec": {names[stage.first]: "beginning" for stage in plan.stages[1:]},
        "stages": [
            {"device": stage.groups[0].pool, "first": names[stage.first], "last": names[stage.last]}
            | {"replicas": [group.pool for group in stage.groups]}
            for stage in plan.stages
        ],
        "schedule": plan.schedule,
        "chunks": plan.chunks,
        "micro_batch": plan.micro_batch,
        "micro_batches": plan.micro_batches,
    }


def _llama(layers: int) -> list[str]:
    return ["model.embed_tokens", *(f"model.layers.{k}" for k in range(layers - 2)), "model.norm"]
