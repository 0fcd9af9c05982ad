"""GiPH: its graph of pairs, its critical path, moves that it never takes, and what it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("tensorboard")

import hetgym  # noqa: E402
from hetgym.agents.checkpoint import Checkpoint  # noqa: E402
from hetgym.agents.methods.giph import gpnet  # noqa: E402
from hetgym.agents.networks import ActorCritic, Sizes  # noqa: E402
from hetgym.agents.recipe import load_recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402
from hetgym.envs.core.autoreset import make_lanes  # noqa: E402
from hetgym.envs.improve.observation import MoveColumn  # noqa: E402
from hetgym.workloads.device_networks import DeviceNetworks  # noqa: E402

ARGUMENTS: dict[str, Any] = {"runtime": "ready", "moves": None, "gains": False}
SIZES = Sizes(8, 6, 2, "hetgym.agents.methods.giph:Features")


def begun(problem: Any, count: int = 1, **more: Any) -> Any:
    lanes = make_lanes("HetImprove-v0", count, problem=problem, **ARGUMENTS, **more)
    for lane in range(count):
        lanes.prepare(lane, lanes.generator(lane)[0], {}, lane)
    lanes.open()
    return lanes


def floats(lanes: Any) -> dict[str, Any]:
    return {key: torch.as_tensor(part, dtype=torch.float32) for key, part in lanes.seen.items()}


def test_the_graph_of_pairs_of_a_fork() -> None:
    """Operator 0 feeds 1, which runs on one device alone, and 2."""
    cost = np.array([[1.0, 2.0], [1.0, np.inf], [4.0, 3.0]])
    problem = hetgym.Problem.from_arrays(cost, [(0, 1, 1.0), (0, 2, 2.0)], latency=0.5)
    start = hetgym.baselines.get("heft")(problem)
    lanes = make_lanes("HetImprove-v0", 1, problem=problem, **ARGUMENTS)
    lanes.prepare(0, np.random.default_rng(0), {"schedule": start}, 0)
    lanes.open()
    seen = floats(lanes)
    here = start.assignment.tolist()
    mask = (seen["action_mask"] > 0) & (seen["candidates"][..., MoveColumn.IS_REGION] > 0)
    net = gpnet(seen, mask)
    # pivots 0, 1, 2, then the other device of 0 and that of 2
    assert len(net.nodes) == 5 and net.nodes[:, -1].tolist() == [1.0, 1.0, 1.0, -1.0, -1.0]
    assert sorted(map(tuple, net.edges.T.tolist())) == [(0, 1), (0, 2), (0, 4), (3, 1), (3, 2)]
    assert net.node[0, 0 * 2 + 1 - here[0]] == 3 and net.node[0, 2 * 2 + 1 - here[2]] == 4
    last = int(lanes.trace(0).finish.argmax())
    expected = [1.0, *(1.0 if i == last else -1.0 for i in (1, 2)), 1.0, 1.0 if last == 2 else -1.0]
    assert net.nodes[:, 4].tolist() == expected  # the last to finish, and its only predecessor, are critical


def test_moves_that_change_nothing_are_never_taken() -> None:
    lanes = begun(DeviceNetworks(operators=(8, 8), devices=5)(np.random.default_rng(0)), 4, tabu=1)
    network, rng = ActorCritic("improve", "graph", SIZES), np.random.default_rng(0)
    torch.nn.init.normal_(network.actor.score.weight)
    while not lanes.over.all():
        logits, _ = network(floats(lanes))
        moves = (lanes.mask > 0) & (lanes.seen["candidates"][..., MoveColumn.IS_REGION] > 0)
        expected = np.where(moves.any(1, keepdims=True), moves, lanes.mask > 0)
        assert (logits.isfinite().numpy() == expected).all()
        lanes.step((logits.detach().numpy() + rng.gumbel(size=logits.shape)).argmax(1), ~lanes.over)


def test_lanes_and_padding_do_not_matter() -> None:
    problem = DeviceNetworks(operators=(8, 8), devices=5)(np.random.default_rng(1))
    torch.manual_seed(0)
    network = ActorCritic("improve", "graph", SIZES)
    torch.nn.init.normal_(network.actor.score.weight)
    few, padded = begun(problem, 3), begun(problem, 3, max_operators=11, max_devices=7, max_edges=30)
    near, values = network(floats(few))
    far, others = network(floats(padded))
    place = (torch.arange(8)[:, None] * 7 + torch.arange(5)).flatten()
    assert torch.allclose(far[:, place], near, atol=1e-4) and torch.allclose(values, others, atol=1e-4)
    alone = network({key: part[1:2] for key, part in floats(few).items()})
    assert torch.allclose(alone[0][0], near[1], atol=1e-4) and near.isfinite().any()


def small(**changes: Any) -> Any:
    generator = {"kind": "device-networks", "operators": [6, 9], "devices": 6, "kinds": 2, "support": 0.6}
    recipe = load_recipe("giph")
    evaluation = {"every": 10_000, "episodes": 8, "arguments": {"reward": "dense"}, "baselines": ["uniform"]}
    given: dict[str, Any] = {"arguments": {**recipe.arguments, "generator": generator}, "steps": 1000}
    return load_recipe("giph", **(given | {"evaluation": evaluation, "checkpoint_every": 300} | changes))


@pytest.mark.slow
def test_it_learns_and_a_stopped_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = TrainingRun(small(), tmp_path / "whole")
    whole.train()
    assert whole.history[-1]["ratio_uniform"] < whole.history[0]["ratio_uniform"] - 0.05

    def stop(step: int, judged: Any) -> None:
        if step > 700:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TrainingRun(small(), tmp_path / "stopped", watch=stop).train()
    TrainingRun(small(), tmp_path / "stopped").train()
    one, two = (Checkpoint.load(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "stopped"))
    assert all(torch.equal(one.tensors[name], two.tensors[name]) for name in one.tensors)
    problem = DeviceNetworks(operators=(8, 8), devices=6)(np.random.default_rng(5))
    policy = hetgym.agents.load(tmp_path / "stopped" / "policy.safetensors")
    greedy, best = policy.plan(problem), policy.plan(problem, samples=8)
    hetgym.validate(problem, greedy)
    assert best.makespan <= greedy.makespan == policy.plan(problem).makespan
