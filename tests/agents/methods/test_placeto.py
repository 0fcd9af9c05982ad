"""Placeto: groups of operators, what it sees of devices, and what it learns."""

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
from hetgym.agents.methods.placeto import reached  # noqa: E402
from hetgym.agents.networks import ActorCritic, Sizes  # noqa: E402
from hetgym.agents.recipe import load_recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402
from hetgym.envs.core.autoreset import make_lanes  # noqa: E402
from hetgym.workloads import RandomMix, textbook  # noqa: E402

SIZES = Sizes(8, 4, 2, "hetgym.agents.methods.placeto:Features")


def test_ancestors_and_descendants() -> None:
    """Two lanes of four operators: 0 -> 1 -> 3 and 0 -> 2, and a chain backwards."""
    edges = torch.tensor([[0, 1, 0, 7, 6, 5], [1, 3, 2, 6, 5, 4]])
    start = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    assert reached(start, edges).tolist() == [[0, 0, 0, 1], [1, 1, 0, 0]]
    assert reached(start, edges.flip(0)).tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]


def test_devices_and_padding_do_not_matter() -> None:
    problem = RandomMix(operators=(7, 7), devices=3)(np.random.default_rng(0))
    edges = list(zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True))
    turn = [2, 0, 1]
    turned = hetgym.Problem.from_arrays(problem.cost[:, turn], edges)
    start = hetgym.baselines.get("heft")(problem)
    torch.manual_seed(0)
    network, scores = ActorCritic("improve", "graph", SIZES), []
    torch.nn.init.normal_(network.actor.score.weight)
    for one, sizes in ((problem, {}), (turned, {"max_operators": 9, "max_devices": 5, "max_edges": 30})):
        lanes = make_lanes("HetImprove-v0", 1, problem=one, moves="turn", gains=False, runtime="ready", **sizes)
        plan = start if one is problem else hetgym.baselines.get("heft")(turned)
        assert plan.makespan == start.makespan
        lanes.prepare(0, np.random.default_rng(0), {"schedule": plan}, 0)
        lanes.open()
        lanes.step(np.array([lanes.seen["assignment"][0, problem.topological_order[0]]]), ~lanes.over)
        scores.append(network({key: torch.as_tensor(part, dtype=torch.float32) for key, part in lanes.seen.items()})[0])
    assert torch.allclose(scores[0][:, turn], scores[1][:, :3], atol=1e-4) and not scores[1][:, 3:].isfinite().any()


@pytest.mark.slow
def test_it_learns_and_a_stopped_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    generator = {"operators": [5, 8], "devices": 2, "ccr": [0.5]}
    recipe = load_recipe("placeto")
    given: dict[str, Any] = {"arguments": {**recipe.arguments, "generator": generator, "runtime": "ready"}}
    given |= {"evaluation": {"episodes": 16, "arguments": {"reward": "dense"}, "baselines": ["uniform", "heft"]}}
    small = load_recipe("placeto", **given, steps=1500, checkpoint_every=400)
    whole = TrainingRun(small, tmp_path / "whole")
    whole.train()
    assert whole.history[-1]["ratio_uniform"] < min(1.0, whole.history[0]["ratio_uniform"]) - 0.02

    def stop(step: int, judged: Any) -> None:
        if step > 900:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TrainingRun(small, tmp_path / "stopped", watch=stop).train()
    TrainingRun(small, tmp_path / "stopped").train()
    one, two = (Checkpoint.load(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "stopped"))
    assert all(torch.equal(one.tensors[name], two.tensors[name]) for name in one.tensors)
    policy = hetgym.agents.load(tmp_path / "whole" / "policy.safetensors")
    hetgym.validate(textbook("topcuoglu"), policy.plan(textbook("topcuoglu"), samples=2))
