"""Steps by hand, against the pipeline kernel, and what must hold for any plan."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from hetgym.baselines.parallel.options import options
from hetgym.costs.collectives import LINKS
from hetgym.device import Device
from hetgym.errors import ConfigError, UnknownName
from hetgym.parallel import (
    SIZES,
    Cluster,
    Framework,
    Group,
    MeasuredNetwork,
    Nccl,
    ParallelPlan,
    Pool,
    ProfiledLayers,
    RandomSteps,
    Stage,
    TransformerLayers,
    Wire,
    load_cluster,
    stage_memory,
    training_step,
    uniform,
)
from hetgym.pipeline import makespan, orders

FREE = Wire(0.0, (1.0,), (1e18,))
PLAIN = Framework(state_bytes=0.0)


def cluster(*names: str, wire: Wire = FREE, memory: float = 1e9, per_node: int = 4) -> Cluster:
    network = MeasuredNetwork(wire, {4: FREE})
    pools = [Pool(Device(n, "gpu", {"float32": 1.0}, 1.0, memory), 8, per_node, network) for n in names or ("gpu",)]
    return Cluster("small", tuple(pools))


def layers(count: int = 4, *names: str, slow: float = 1.0) -> ProfiledLayers:
    times = {(n, 1, 1): [[k, 2 * k, 0.5]] * count for n, k in zip(names or ("gpu",), (1.0, slow), strict=False)}
    return ProfiledLayers(times, {1: [[10.0, 8.0, 4.0]] * count})


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1"])
def test_without_costs_of_communication_a_step_is_the_pipeline_and_the_update(schedule: str) -> None:
    plan = uniform(4, 2, [Group("gpu")], 1, 6, schedule)
    step = training_step(plan, layers(), cluster(), PLAIN)
    weight = 2.0 if schedule == "zb-h1" else None
    alone = makespan(orders(schedule, 2, 6), 2.0, 4.0 if weight is None else 2.0, weight)
    assert step.pipeline == alone
    assert step.seconds == pytest.approx(alone + 1.0)
    assert step.bubble == pytest.approx(1 - 36.0 / alone)


def test_a_bubble_is_not_negative() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        costs = ProfiledLayers({("gpu", 1, 1): rng.uniform(0.0, 1.0, (4, 3))}, {1: [[10.0, 8.0, 4.0]] * 4})
        step = training_step(uniform(4, 1, [Group("gpu")], 1, 7), costs, cluster(), PLAIN)
        assert f"{step.bubble:.2%}" == "0.00%"


def test_interleaving_shortens_the_bubble() -> None:
    pieces = tuple(Stage(k, k, (Group("gpu"),)) for k in range(4))
    step = training_step(ParallelPlan(pieces, 1, 6, "interleaved", 2), layers(), cluster(), PLAIN)
    plain = training_step(uniform(4, 2, [Group("gpu")], 1, 6), layers(), cluster(), PLAIN)
    assert step.pipeline == makespan(orders("interleaved", 2, 6, 2), 2.0, 4.0)
    assert step.seconds < plain.seconds


def test_blocking_transfers_keep_both_ends_busy() -> None:
    """Two stages, one micro-batch, a second for each of two transfers: by hand."""
    plan = uniform(4, 2, [Group("gpu")], 1, 1)
    nodes = cluster(wire=Wire(0.0, (1.0,), (4.0,)), per_node=1)
    free, blocked = (training_step(plan, layers(), nodes, Framework(blocking=b)) for b in (False, True))
    assert free.pipeline == blocked.pipeline == 2 + 1 + 2 + 4 + 1 + 4
    plan = uniform(4, 2, [Group("gpu")], 1, 8)
    free, blocked = (training_step(plan, layers(), nodes, Framework(blocking=b)) for b in (False, True))
    assert free.pipeline < blocked.pipeline


def test_gradients_are_reduced_after_the_last_backward_pass_of_a_stage() -> None:
    """Ten parameters of 4 bytes a layer over two nodes: each GPU sends 2 x 80 / 2 bytes for its two layers."""
    plan = uniform(4, 2, [Group("gpu")] * 2, 1, 8)
    nodes = cluster(wire=Wire(0.0, (1.0,), (40.0,)), per_node=1)
    step = training_step(plan, layers(), nodes, Framework(blocking=False, gradient_bytes=4.0))
    assert step.reduction == pytest.approx(2.0)


def test_the_adapters_of_the_emptiest_node_decide() -> None:
    """Nine GPUs on two nodes are five and four: four send what five do not."""
    nccl = Nccl(LINKS["nvlink3"])
    measured = MeasuredNetwork(Wire(0.0, (1.0,), (1e9,)), {8: FREE})
    assert measured.all_reduce(2**30, 9, 2) == pytest.approx(2**30 / 4 / 1e9, rel=1e-6)
    for network, operation in product((nccl, measured), ("all_reduce", "gather")):
        seconds = [getattr(network, operation)(2**30, gpus, 2) for gpus in range(8, 13)]
        assert seconds[1] >= seconds[0] and seconds[3] >= seconds[2]
        assert seconds[0] > seconds[2] > seconds[4]


def test_the_slowest_replica_counts() -> None:
    fast, slow = Group("a"), Group("b")
    costs = layers(4, "a", "b", slow=3.0)
    both = ParallelPlan((Stage(0, 3, (fast, slow)),), 1, 2)
    alone = ParallelPlan((Stage(0, 3, (slow,)),), 1, 1)
    nodes = cluster("a", "b")
    assert training_step(both, costs, nodes, PLAIN).pipeline == training_step(alone, costs, nodes, PLAIN).pipeline


def test_memory_counts_state_stashes_and_libraries() -> None:
    plan = uniform(4, 2, [Group("gpu")], 1, 6)
    step = training_step(plan, layers(), cluster(memory=700.0), Framework(state_bytes=18.0, context_bytes=100.0))
    np.testing.assert_allclose(step.memory, [20 * 18 + 2 * 16 + 100, 20 * 18 + 16 + 100])
    assert step.fits
    tight = training_step(plan, layers(), cluster(memory=480.0), Framework(state_bytes=18.0, context_bytes=100.0))
    assert not tight.fits
    assert "stage 0 does not fit" in tight.limit


def test_plans_that_do_not_match_are_refused() -> None:
    with pytest.raises(ConfigError, match="5 layers, the model has 4"):
        training_step(uniform(5, 1, [Group("gpu")], 1, 1), layers(), cluster())
    with pytest.raises(UnknownName, match="pool of cluster"):
        training_step(uniform(4, 1, [Group("cpu")], 1, 1), layers(), cluster())
    with pytest.raises(ConfigError, match="micro-batch of 2"):
        training_step(uniform(4, 1, [Group("gpu")], 2, 2), layers(), cluster())
    with pytest.raises(ConfigError, match="uses 40 GPUs"):
        training_step(uniform(4, 1, [Group("gpu")] * 40, 1, 40), layers(), cluster())


def test_groups_do_not_reach_beyond_their_node() -> None:
    costs = ProfiledLayers(
        {("gpu", t, 1): [[1.0, 2.0, 0.5]] * 4 for t in (1, 2, 4, 8)}, {t: [[10.0, 8.0, 4.0]] * 4 for t in (1, 2, 4, 8)}
    )

    def step(*degrees: int, per_node: int, nodes: int = 2) -> float:
        odd = cluster(per_node=per_node)
        pools = (replace(odd.pools[0], nodes=nodes),)
        stages = [Stage(k, k, (Group("gpu", t),)) for k, t in enumerate(degrees)]
        plan = ParallelPlan((*stages[:-1], replace(stages[-1], last=3)), 1, 1)
        return training_step(plan, costs, replace(odd, pools=pools), PLAIN).seconds

    assert step(1, 2, 1, 2, per_node=3) > 0
    assert step(1, 4, 4, 2, per_node=6) > 0
    assert step(8, 2, 2, 4, per_node=4, nodes=4) > 0  # a group of two nodes, two nodes for the others
    for degrees, nodes, per_node, words in (
        ((2, 2, 2), 2, 3, "3 x 2"),
        ((4, 4, 4), 2, 6, "3 x 4"),
        ((4, 4, 2, 4), 2, 7, "3 x 4 and 1 x 2"),
        ((8, 4, 4, 4), 4, 6, "1 x 8 and 3 x 4"),
    ):
        with pytest.raises(ConfigError, match=f"groups of {words} GPUs .* in its {nodes} nodes of {per_node}"):
            step(*degrees, per_node=per_node, nodes=nodes)


def test_rooms_of_nodes_match_all_ways_to_pack() -> None:
    """First fit decreasing, which is best if each degree divides the next."""

    def packs(groups: list[int], rooms: tuple[int, ...]) -> bool:
        if not groups:
            return True
        head, rest = groups[0], groups[1:]
        return any(
            room >= head and packs(rest, (*rooms[:k], room - head, *rooms[k + 1 :]))
            for k, room in enumerate(rooms)
            if room not in rooms[:k]
        )

    for nodes, per_node in ((1, 3), (2, 3), (3, 5), (2, 6), (2, 7)):
        pool = replace(cluster().pools[0], nodes=nodes, per_node=per_node)
        for ones, twos, fours in product(range(4), range(6), range(4)):
            if per_node >= 4 or not fours:
                groups = [4] * fours + [2] * twos + [1] * ones
                assert pool.holds({1: ones, 2: twos, 4: fours}) == packs(groups, (per_node,) * nodes)
        assert pool.holds({2: pool.groups(2)}) and not pool.holds({2: pool.groups(2) + 1})


TWO_DEGREES = ProfiledLayers(
    {(pool, t, 1): [[1.0, 2.0, 0.5]] * 4 for pool in ("a", "b") for t in (1, 2, 4)},
    {t: [[10.0, 8.0, 4.0]] * 4 for t in (1, 2, 4)},
)

SLOW = MeasuredNetwork(Wire(0.0, (1.0,), (1.0,)))


@pytest.mark.parametrize("degrees", [(1, 2), (2, 1), (2, 4), (4, 2)])
def test_a_boundary_is_split_by_the_smaller_of_two_tensor_degrees(degrees: tuple[int, int]) -> None:
    """Each sender of 4 bytes, at 1 byte/s, has a receiver of its own; forward and back, between two passes each."""
    plan = ParallelPlan(tuple(Stage(2 * k, 2 * k + 1, (Group("a", t),)) for k, t in enumerate(degrees)), 1, 1)
    nodes = replace(cluster("a"), pools=(replace(cluster("a").pools[0], network=SLOW),))
    for scatter, moved in ((True, 4.0 / min(degrees)), (False, 4.0)):
        framework = replace(PLAIN, blocking=False, scatter=scatter)
        assert training_step(plan, TWO_DEGREES, nodes, framework).pipeline == pytest.approx(12.0 + 2 * moved)


def test_pieces_of_a_gpu_pass_one_at_a_time_and_share_its_turn() -> None:
    """Two layers of 10 parameters on each GPU, one a piece, with ZeRO 2 over one replica: 4 + 2 + 12 bytes of each.

    While a piece is computed, its own gradients take another 4 bytes a parameter, on top of both pieces' state.
    """
    pieces = tuple(Stage(k, k, (Group("a"),)) for k in range(4))
    plan = ParallelPlan(pieces, 1, 2, "interleaved", 2)
    framework = replace(PLAIN, state_bytes=18.0, zero=2)
    stash = training_step(plan, TWO_DEGREES, cluster("a"), replace(framework, zero=0)).memory
    assert (training_step(plan, TWO_DEGREES, cluster("a"), framework).memory - stash).tolist() == [40.0, 40.0]
    turns = [training_step(plan, TWO_DEGREES, cluster("a"), replace(PLAIN, turn=turn)).busy for turn in (0.0, 3.0)]
    assert turns[1] - turns[0] == pytest.approx([6.0, 6.0])  # two micro-batches


def test_replicas_on_two_pools_communicate_between_nodes() -> None:
    """Of 80 bytes of gradients half is sent twice, at 1 byte/s between nodes, though one node has room for both."""
    slow = MeasuredNetwork(Wire(0.0, (1.0,), (1.0,)), {4: FREE})
    pools = tuple(replace(pool, network=slow) for pool in cluster("a", "b").pools)
    nodes = replace(cluster("a", "b"), pools=pools)
    for pool, seconds in (("a", 0.0), ("b", 80.0)):
        plan = ParallelPlan((Stage(0, 3, (Group("a"), Group(pool))),), 1, 2)
        assert training_step(plan, TWO_DEGREES, nodes, PLAIN).reduction == pytest.approx(seconds)


def test_stages_of_one_node_send_within_it() -> None:
    """4 bytes each way, at 2 byte/s in a node and 1 byte/s between nodes; two pools are on two nodes at least."""
    network = MeasuredNetwork(Wire(0.0, (1.0,), (1.0,)), {4: Wire(0.0, (1.0,), (2.0,))})
    pools = tuple(replace(pool, network=network) for pool in cluster("a", "b").pools)
    nodes, free = replace(cluster("a", "b"), pools=pools), replace(PLAIN, blocking=False)
    for groups, gpus, moved in ((("a", "a"), 4, 2.0), (("a", "a"), 1, 4.0), (("a", "b"), 4, 4.0)):
        plan = ParallelPlan(tuple(Stage(2 * k, 2 * k + 1, (Group(g),)) for k, g in enumerate(groups)), 1, 1)
        apart = replace(nodes, pools=tuple(replace(pool, per_node=gpus) for pool in pools))
        assert training_step(plan, TWO_DEGREES, apart, free).pipeline == pytest.approx(12.0 + 2 * moved)


def test_two_pools_send_at_the_pace_of_the_slower() -> None:
    wires = (Wire(0.0, (1.0,), (1.0,)), Wire(0.0, (1.0,), (4.0,)))
    for order in (wires, wires[::-1]):
        pools = [replace(p, network=MeasuredNetwork(w)) for p, w in zip(cluster("a", "b").pools, order, strict=True)]
        plan = ParallelPlan((Stage(0, 1, (Group("a"),)), Stage(2, 3, (Group("b"),))), 1, 1)
        found = training_step(plan, TWO_DEGREES, Cluster("both", tuple(pools)), replace(PLAIN, blocking=False))
        assert found.pipeline == pytest.approx(12.0 + 2 * 4.0)


def test_a_stage_on_two_pools_is_as_full_as_its_fullest_gpu() -> None:
    """Each group is compared with the memory of its own GPUs: neither the larger need nor the smaller memory counts."""
    small, large = cluster("a", "b", memory=500.0).pools, cluster("a", "b", memory=700.0).pools
    both, found = Cluster("both", (small[0], large[1])), {}
    times = {(pool, t, 1): [[1.0, 2.0, 0.5]] * 4 for pool in ("a", "b") for t in (1, 2)}
    costs = ProfiledLayers(times, {t: [[10.0 / t, 8.0 / t, 4.0]] * 4 for t in (1, 2)})
    for tensors in ((1, 1), (2, 1), (1, 2), (2, 2)):
        plan = ParallelPlan((Stage(0, 3, (Group("a", tensors[0]), Group("b", tensors[1]))),), 1, 2)
        step = training_step(plan, costs, both, replace(PLAIN, state_bytes=15.0))
        found[tensors] = (*step.memory, *step.capacity, step.fits)
    assert found == {
        (1, 1): (632.0, 500.0, False),
        (2, 1): (632.0, 700.0, True),
        (1, 2): (632.0, 500.0, False),
        (2, 2): (316.0, 500.0, True),
    }


def alone(plan: ParallelPlan, stage: int, group: Group) -> ParallelPlan:
    """A plan in which all replicas of a stage are like one group."""
    pieces = list(plan.stages)
    for k in range(stage, len(pieces), plan.depth):
        pieces[k] = replace(pieces[k], groups=(group,) * plan.replicas)
    return replace(plan, stages=tuple(pieces))


def test_a_mixed_stage_fits_if_each_of_its_groups_does() -> None:
    mixed = fits = 0
    for seed in range(12):
        problem, rng = RandomSteps()(np.random.default_rng(seed)), np.random.default_rng(seed)
        for setting in problem.settings():
            found = options(problem, setting)
            if found is None:
                continue
            for _ in range(4):
                layers, pieces = problem.costs.layers, 2 * setting.chunks
                ends = sorted(rng.choice(np.arange(1, layers), pieces - 1, replace=False).tolist())
                picked = rng.integers(len(found.replicas), size=2).tolist() * setting.chunks
                plan = found.plan(zip([0, *ends], [*ends, layers], picked, strict=True))
                memory, capacity = stage_memory(plan, problem.costs, problem.cluster, problem.framework)
                for s in range(plan.depth):
                    groups = dict.fromkeys(plan.stages[s].groups)
                    each = [
                        stage_memory(alone(plan, s, g), problem.costs, problem.cluster, problem.framework)
                        for g in groups
                    ]
                    assert (memory[s] <= capacity[s]) == all(m[s] <= c[s] for m, c in each)
                    assert (memory[s], capacity[s]) in {(m[s], c[s]) for m, c in each}
                    mixed, fits = mixed + (len(each) > 1), fits + (len(each) > 1 and memory[s] <= capacity[s])
    assert mixed > 50 and fits > 10


def test_groups_that_share_a_node_are_as_many_as_it_holds() -> None:
    """Two groups of two GPUs fit in a node of four; of four GPUs, each takes a node."""
    slow = MeasuredNetwork(Wire(0.0, (1.0,), (1.0,)), {4: FREE})
    nodes = replace(cluster("a"), pools=(replace(cluster("a").pools[0], network=slow),))
    for tensor, seconds in ((1, 0.0), (2, 0.0), (4, 80.0)):
        plan = ParallelPlan((Stage(0, 3, (Group("a", tensor),) * 2),), 1, 2)
        assert training_step(plan, TWO_DEGREES, nodes, PLAIN).reduction == pytest.approx(seconds)


def test_gradients_are_reduced_beside_the_last_backward_pass() -> None:
    """Four layers of 1 + 2 s: of 80 s of an all-reduce, 8 s of the last backward pass hide; a fourth never does."""
    plan = ParallelPlan((Stage(0, 3, (Group("a"),) * 2),), 1, 6)
    for rate, reduced in ((1.0, 80.0 - 8.0), (8.0, 10.0 / 4)):
        pool = replace(cluster("a").pools[0], per_node=1, network=MeasuredNetwork(Wire(0.0, (1.0,), (rate,))))
        step = training_step(plan, TWO_DEGREES, Cluster("one", (pool,)), replace(PLAIN, overlap=True))
        assert step.reduction == pytest.approx(reduced)


def test_the_ends_of_a_gpt_hold_a_table_each_and_sum_up_its_gradient() -> None:
    """A table of 51 200 x 2304 with 18 bytes of state a parameter is 2.12 GB: Megatron's last stage has its copy."""
    dgx, framework = load_cluster("dgx-a100-64"), Framework()
    costs = TransformerLayers(SIZES["gpt-1.7b"], dgx, framework)
    sizes = costs.sizes(1)
    assert sizes is not None
    steps = {p: training_step(uniform(costs.layers, p, [Group("a100")], 1, 8), costs, dgx, framework) for p in (1, 2)}
    stash = [float(sizes.stash[part].sum()) for part in (slice(0, 26), slice(0, 13), slice(13, 26))]
    state = [18 * sizes.held(part) for part in (slice(0, 26), slice(0, 13), slice(13, 26))]
    assert steps[1].memory == pytest.approx([state[0] + stash[0]])
    assert steps[2].memory == pytest.approx([state[1] + 2 * stash[1], state[2] + stash[2]])
    assert state[1] + state[2] - state[0] == pytest.approx(2.123e9, rel=1e-3)
    assert steps[1].reduction == 0.0
    for stages, nodes in ((2, 1), (13, 2)):  # eight GPUs are a node
        step = training_step(uniform(costs.layers, stages, [Group("a100")], 1, 8), costs, dgx, framework)
        assert step.reduction == pytest.approx(dgx["a100"].network.all_reduce(2304 * 51200 * 2.0, 2, nodes))
