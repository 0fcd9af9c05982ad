"""ZeRO, sequence parallelism and the memory of recomputation, against numbers by hand and of the papers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetgym.baselines.parallel import every_plan, exact, exhaustive, search
from hetgym.device import Device
from hetgym.errors import ConfigError
from hetgym.parallel import (
    Cluster,
    Framework,
    Group,
    MeasuredNetwork,
    Pool,
    ProfiledLayers,
    TrainingProblem,
    TransformerLayers,
    TransformerSize,
    Wire,
    framework_of,
    load_cluster,
    stage_memory,
    training_step,
    uniform,
)
from hetgym.parallel.transformer import _kept, block

SIZE = TransformerSize(1024, 16, 4, 1024)
WIRE = Wire(0.0, (1.0,), (40.0,))


def cluster(memory: float = 1e9) -> Cluster:
    """Eight nodes of one GPU whose wires carry 40 bytes a second, without latency."""
    device = Device("gpu", "gpu", {"float32": 1.0}, 1.0, memory)
    return Cluster("small", (Pool(device, 8, 1, MeasuredNetwork(WIRE)),))


def layers() -> ProfiledLayers:
    """Four layers of ten parameters; a forward pass of 1 s, a backward pass of 2 s, an update of 0.5 s."""
    return ProfiledLayers({("gpu", 1, 1): [[1.0, 2.0, 0.5]] * 4}, {1: [[10.0, 8.0, 0.0]] * 4})


def test_planners_choose_sequence_parallelism_of_transformers_alone() -> None:
    gpus = load_cluster("dgx-a100-64").pools[0]
    whole = Framework(state_bytes=18.0)
    needs = []
    for framework in (whole, replace(whole, sequence=True)):
        sizes = TransformerLayers(SIZE, Cluster("c", (gpus,)), framework).sizes(4)
        assert sizes is not None
        needs.append(18.0 * sizes.held(slice(0, SIZE.blocks + 2)) + float(sizes.stash.sum()))
    room = 0.5 * sum(needs)
    card = replace(gpus.device, memory_capacity=room, memory_reserve=0.0)
    small = Cluster("c", (replace(gpus, nodes=1, per_node=4, device=card),))
    problem = TrainingProblem(
        TransformerLayers(SIZE, small, whole), small, 1, whole, tensors=(4,), sequences=(False, True)
    )
    plan = search(problem)
    assert plan.sequence is True and problem.step(plan).fits
    assert problem.value(replace(plan, sequence=False)) == np.inf
    shared = replace(whole, sequence=True)
    step = training_step(replace(plan, sequence=None), TransformerLayers(SIZE, small, shared), small, shared)
    assert step.seconds == problem.value(plan)
    with pytest.raises(ConfigError, match="known only for (True|False)"):
        TrainingProblem(layers(), cluster(), 8, sequences=(True,))


def test_the_state_of_a_parameter_is_that_of_the_paper() -> None:
    """7.5 billion parameters on 64 replicas, mixed precision with Adam: 120, 31.4, 16.6 and 1.9 GB (figure 1)."""
    found = [Framework(state_bytes=16.0, kept_bytes=2.0, zero=zero).state(64) * 7.5 for zero in range(4)]
    assert found == pytest.approx([120.0, 31.4, 16.6, 1.9], rel=0.015)
    assert Framework(zero=0).state(64) == Framework().state_bytes == 18.0


def test_replicas_send_what_the_paper_says() -> None:
    """Two layers on two replicas: 80 bytes of gradients, 40 of parameters; a GPU sends half of what is gathered.

    An all-reduce of the gradients takes 2 s, to reduce and scatter them 1 s, to gather parameters 0.5 s.
    """
    plan = uniform(4, 2, [Group("gpu")] * 2, 1, 8)
    plain = Framework(blocking=False, gradient_bytes=4.0)
    steps = [training_step(plan, layers(), cluster(), replace(plain, zero=zero)) for zero in range(4)]
    assert [step.reduction for step in steps] == pytest.approx([2.0, 1.5, 0.5, 0.0])
    assert [step.update for step in steps] == pytest.approx([1.0, 0.5, 0.5, 0.5])
    # 4 micro-batches on 2 stages: 5 slots of 2 + 4 s, and with ZeRO 2 and 3 of 2 + 5 and 2.5 + 5.5 s
    assert [step.pipeline for step in steps] == pytest.approx([30.0, 30.0, 35.0, 40.0])
    overlap = training_step(plan, layers(), cluster(), replace(plain, zero=3, overlap=True))
    assert overlap.pipeline == pytest.approx(30.0)


def test_memory_is_shared_out_among_replicas() -> None:
    """20 parameters a stage, of 2 + 4 + 12 bytes on two replicas; a layer's own 10 parameters pass at full length."""
    plan = uniform(4, 2, [Group("gpu")] * 2, 1, 8)
    stash = np.array([2 * 16.0, 16.0])
    for zero, state in enumerate((20 * 18, 20 * (6 + 6), 20 * (2 + 8) + 40, 20 * 9 + 40 + 20)):
        memory, _ = stage_memory(plan, layers(), cluster(), Framework(zero=zero))
        assert memory.tolist() == (state + stash).tolist()


def test_the_largest_layer_of_all_chunks_passes_at_full_length() -> None:
    """The first GPU holds layers 0 and 2, the second 1 and 3; with ZeRO 3 one layer at a time is gathered."""
    for large in range(4):
        sizes = [[10.0 + 20.0 * (k == large), 0.0, 0.0] for k in range(4)]
        costs = ProfiledLayers({("gpu", 1, 1): [[1.0, 2.0, 0.5]] * 4}, {1: sizes})
        plan = uniform(4, 2, [Group("gpu")] * 2, 1, 8, "interleaved", 2)
        memory, _ = stage_memory(plan, costs, cluster(), Framework(zero=3))
        assert memory[large % 2] == 40 * 9 + 30 * (4 + 2) and memory[1 - large % 2] == 20 * 9 + 10 * (4 + 2)


def test_alone_a_replica_gains_and_pays_nothing() -> None:
    plan = uniform(4, 2, [Group("gpu")], 1, 4)
    plain, shared = (training_step(plan, layers(), cluster(), Framework(zero=zero)) for zero in (0, 1))
    assert plain.seconds == shared.seconds and plain.memory.tolist() == shared.memory.tolist()


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_planners_know_what_fits(zero: int) -> None:
    """Without ZeRO no plan fits; with it the planners agree with the enumeration."""
    problem = TrainingProblem(layers(), cluster(300.0), 4, Framework(zero=0), (1,), (1,), stages=2)
    assert all(problem.value(plan) == np.inf for plan in every_plan(problem))
    problem = replace(problem, framework=Framework(zero=zero))
    best = problem.value(exhaustive(problem))
    assert problem.value(exact(problem)) == problem.value(search(problem)) == best < np.inf


def test_sequence_parallelism_divides_all_activations_of_a_block() -> None:
    """34 s b h + 5 a s^2 b bytes over t (Korthikanti et al., equation 4): everything is divided, not only products."""
    for tensor in (2, 8):
        assert _kept(SIZE, tensor, True) == _kept(SIZE, 1) / tensor < _kept(SIZE, tensor)
    flops = [sum(op.flops for op in block(SIZE, 4, 1, s) if op.kind == "MatMul") for s in (False, True)]
    assert flops[0] == flops[1]
    rows = {op.name: op.outputs[0].shape[0] for op in block(SIZE, 4, 1, True)}
    assert rows["norm_attention"] == rows["residual_attention"] == 256 and rows["up"] == 1024


def test_sequence_parallelism_sends_the_same_bytes() -> None:
    """An all-reduce is a reduce-scatter and an all-gather; what is split by tokens is shorter."""
    gpus = load_cluster("dgx-a100-64")
    pool = replace(gpus.pools[0], network=MeasuredNetwork(Wire(0.0, (1.0,), (1e9,))))
    assert 2 * pool.network.gather(1e6, 8, 1) == pool.network.all_reduce(1e6, 8, 1)
    gpus = Cluster("ring", (pool,))
    plain, shared = (TransformerLayers(SIZE, gpus, Framework(sequence=s, recompute=True)) for s in (False, True))
    a, b, c, d = plain.passes("a100", 8, 1), shared.passes("a100", 8, 1), plain.sizes(8), shared.sizes(8)
    assert a and b and c and d
    sent = 2 * pool.network.all_reduce(2.0 * 1024 * 1024, 8, 1)  # two all-reduces in a pass of a block
    assert 0.5 * sent < b.forward[1] < a.forward[1] < 1.2 * b.forward[1]
    assert (d.stash[:-1] * 8 == c.stash[:-1]).all() and (d.parameters == c.parameters).all()
    odd = TransformerLayers(replace(SIZE, sequence=1023), gpus, Framework(sequence=True))
    assert odd.sizes(2) is None and odd.passes("a100", 2, 1) is None


def test_memory_counts_the_layer_that_is_recomputed() -> None:
    gpus, plan = load_cluster("dgx-a100-64"), uniform(6, 2, [Group("a100", 2)], 4, 16)
    frameworks = [Framework(recompute=True, working=working) for working in (False, True)]
    plain, working = (stage_memory(plan, TransformerLayers(SIZE, gpus, f), gpus, f)[0] for f in frameworks)
    assert (working - plain).tolist() == pytest.approx([4 * _kept(SIZE, 2)] * 2)
    kept = [Framework(recompute=False, working=working) for working in (False, True)]
    same = [stage_memory(plan, TransformerLayers(SIZE, gpus, f), gpus, f)[0].tolist() for f in kept]
    assert same[0] == same[1]


def test_switches_by_name() -> None:
    assert framework_of("megatron, zero=2, sequence=true").sequence
    assert framework_of("deepspeed,zero=1").state(4) == 24.0 - 16.0 * 0.75
    for text in ("megatron,zero=4", "megatron,zero=one", "megatron,state_bytes=3,zero=1", "megatron,working=2"):
        with pytest.raises(ConfigError, match="framework: "):
            framework_of(text)
