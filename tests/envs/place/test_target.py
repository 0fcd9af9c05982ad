"""Targets as masks: every episode ends in a placement that the program can run, and each of these can be reached."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym import ConfigError, Problem, UnknownName, export_plan
from hetgym.envs import HetScheduleEnv
from hetgym.errors import IllegalAction
from hetgym.planning.layer_rules import LAYER_RULES
from hetgym.planning.layers import by_layers

TARGETS = sorted(LAYER_RULES)

Operators = dict[str, tuple[int, Sequence[str]]]  # name -> the layer with which it goes, and what it reads

MIXTURE: Operators = {
    "embed_tokens": (0, ()),
    "mask": (1, ()),  # layer 1 reads it first
    "layers.0.attn": (0, ("embed_tokens",)),
    "layers.0.mlp.experts.up": (0, ("layers.0.attn",)),
    "layers.0.mlp.experts.down": (0, ("layers.0.mlp.experts.up",)),
    "layers.1.attn": (1, ("layers.0.mlp.experts.down", "mask")),
    "layers.2.attn": (2, ("layers.1.attn", "mask")),
    "norm": (2, ("layers.2.attn",)),
}
DENSE: Operators = {
    "layers.0.q": (0, ()),
    "layers.1.q": (1, ("layers.0.q",)),
    "between": (1, ("layers.1.q", "layers.0.q")),
    "layers.2.q": (2, ("between",)),
    "layers.3.q": (3, ("layers.2.q",)),
    "layers.4.q": (4, ("layers.3.q",)),
    "lm_head": (4, ("layers.4.q",)),
}
LOOSE: Operators = {f"layers.{k}.{name}": (k, ()) for k in range(4) for name in ("a", "experts.b")[: 1 + (k == 1)]}
MODELS = {"mixture": MIXTURE, "dense": DENSE, "loose": LOOSE}

MACHINES = {"cpu and two gpus": (False, True, True), "two gpus": (True, True), "cpu between": (True, False, True)}


def problem_of(model: Operators, accelerators: Sequence[bool], cost: Any = None, **more: Any) -> Problem:
    """A problem of some operators; its run times are drawn, so that HEFT's order is not always the model's."""
    number = {name: k for k, name in enumerate(model)}
    edges = [(number[read], number[name], 1.0) for name, (_, reads) in model.items() for read in reads]
    if cost is None:
        cost = np.random.default_rng(1).uniform(1.0, 9.0, (len(model), len(accelerators)))
    return Problem.from_arrays(
        cost, edges, operator_names=list(model), name="small", latency=0.1, bandwidth=5.0, **more
    ).replace(asynchronous=list(accelerators))


def can_run(target: str, model: Operators, problem: Problem, placement: Sequence[int]) -> bool:
    """What a program can run, written down once more."""
    rules, kinds = LAYER_RULES[target], ["gpu" if ahead else "cpu" for ahead in problem.asynchronous]
    cpu = kinds.index("cpu") if "cpu" in kinds else None
    if np.isinf(problem.cost[np.arange(len(model)), placement]).any():
        return False
    layers: dict[int, set[int]] = {}
    experts: dict[int, set[int]] = {}
    for (name, (layer, _)), device in zip(model.items(), placement, strict=True):
        if rules.table_on_cpu and cpu is not None and name in ("embed_tokens", "mask"):
            if device != cpu:
                return False
        elif rules.experts and "experts" in name:
            experts.setdefault(layer, set()).add(device)
        else:
            layers.setdefault(layer, set()).add(device)
    if any(len(devices) > 1 for devices in (*layers.values(), *experts.values())):
        return False
    where = [min(layers[layer]) for layer in sorted(layers)]
    if any(min(devices) not in (where[layer], cpu) for layer, devices in experts.items()):
        return False
    runs = [device for device, _ in groupby(where)]
    gpus = [device for device in runs if kinds[device] == "gpu"]
    if cpu in runs and (
        not rules.cpu or rules.copied or runs.index(cpu) != {"first": 0, "last": len(runs) - 1}[rules.cpu]
    ):
        return False
    return len(runs) == len(set(runs)) and len(gpus) <= rules.gpus


def reachable(env: HetScheduleEnv, order: Sequence[int] | None) -> Iterator[tuple[int, ...]]:
    """The placement of every episode of legal actions: in depth first, each from the beginning."""
    ahead: list[list[int]] = [[]]
    while ahead:
        actions = ahead.pop()
        _, info = env.reset(options={} if order is None else {"order": list(order)})
        for taken in range(env.problem.num_operators):
            if taken == len(actions):
                first, *others = np.flatnonzero(info["action_mask"]).tolist()
                ahead += [[*actions, other] for other in others]
                actions = [*actions, first]
            *_, info = env.step(actions[taken])
        yield tuple(info["schedule"].assignment.tolist())


def orders(problem: Problem) -> Iterator[list[int] | None]:
    """The order of HEFT, one that takes what comes late in the model as early as it can, and a drawn one."""
    yield None
    for priority in (np.arange(problem.num_operators), np.random.default_rng(3).permutation(problem.num_operators)):
        left, found = set(range(problem.num_operators)), []
        while left:
            waiting = {int(b) for a, b in zip(problem.edge_source, problem.edge_target, strict=True) if a in left}
            found.append(max(left - waiting, key=lambda i: priority[i]))
            left.remove(found[-1])
        yield found


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("target", TARGETS)
def test_what_the_masks_reach_is_what_the_program_can_run(target: str, model: str, machine: str) -> None:
    operators = MODELS[model]
    problem = problem_of(operators, MACHINES[machine])
    every = product(range(problem.num_devices), repeat=len(operators))
    wanted = {placement for placement in every if can_run(target, operators, problem, placement)}
    env = HetScheduleEnv(problem, target=target, completion="off", observation="candidates")
    for order in orders(problem):
        found = list(reachable(env, order))
        assert len(found) == len(set(found)) and set(found) == wanted
    assert len(wanted) > 1 or "cpu" not in machine


EXPERT = "layers.0.mlp.experts.down"


@pytest.mark.parametrize("target", ["llama.cpp", "accelerate", "vllm"])
@pytest.mark.parametrize(
    "machine, banned",
    [
        ("cpu and two gpus", [("layers.1.attn", 1), (EXPERT, 2)]),  # experts may be on the CPU instead
        ("cpu and two gpus", [(EXPERT, 0), (EXPERT, 2)]),
        ("cpu and two gpus", [("embed_tokens", 1)]),
        ("two gpus", [(EXPERT, 1)]),
    ],
)
def test_a_layer_is_not_where_one_of_its_operators_cannot_run(
    target: str, machine: str, banned: list[tuple[str, int]]
) -> None:
    accelerators = MACHINES[machine]
    cost = np.ones((len(MIXTURE), len(accelerators)))
    for name, device in banned:
        cost[list(MIXTURE).index(name), device] = np.inf
    problem = problem_of(MIXTURE, accelerators, cost)
    every = product(range(problem.num_devices), repeat=len(MIXTURE))
    wanted = {placement for placement in every if can_run(target, MIXTURE, problem, placement)}
    env = HetScheduleEnv(problem, target=target, completion="off", observation="candidates")
    assert set(reachable(env, None)) == wanted and wanted


def test_an_operator_that_runs_nowhere_else_neither_ends_the_episode_nor_moves_its_layer() -> None:
    cost = np.ones((len(DENSE), 3))
    between = list(DENSE).index("between")
    cost[between, 1:] = np.inf  # and vLLM has nothing on the CPU
    accelerators = MACHINES["cpu and two gpus"]
    env = HetScheduleEnv(problem_of(DENSE, accelerators, cost), target="vllm", completion="off")
    order = list(range(len(DENSE)))
    found = list(reachable(env, order))
    cost[between, 1:] = 1.0
    usual = reachable(HetScheduleEnv(problem_of(DENSE, accelerators, cost), target="vllm", completion="off"), order)
    wanted = [(*placement[:between], 0, *placement[between + 1 :]) for placement in usual]
    assert sorted(found) == sorted(wanted)


def test_memory_chooses_among_what_the_program_can_run() -> None:
    sizes = {"weight_bytes": 4.0, "output_bytes": 0.0, "memory_capacity": [100.0, 9.0, 9.0]}
    problem = problem_of(DENSE, MACHINES["cpu and two gpus"], **sizes)
    env = HetScheduleEnv(problem, target="vllm", memory="mask", completion="off")
    masks = []
    _, info = env.reset(options={"order": list(range(len(DENSE)))})
    for action in (1, 1, 1, 2, 2, 2, 2):
        masks.append(np.flatnonzero(info["action_mask"]).tolist())
        *_, info = env.step(action)
    # Layers 0 and 1 fill the first GPU and one operator must follow; layers 2 and 3 fill the second, 4 must follow.
    assert masks == [[1, 2], [1, 2], [1], [2], [2], [2], [2]]


SIZES = {
    "hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96,
    "intermediate_size": 128,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "head_dim": 16}


@pytest.fixture
def configuration(tmp_path: Path) -> dict[str, str]:
    """Graphs by name: a dense model and a mixture as configurations, and a network of the zoo."""
    found = {"gpt2": "gpt2"}
    for name, config in {"llama": SIZES, "qwen3_moe": SIZES | EXPERTS}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"model_type": name} | config))
        found[name] = str(tmp_path / name / "config.json")
    return found


def played(env: Any, seed: int, legal: bool = True) -> dict[str, Any]:
    """The last info of an episode of random actions, all legal or all illegal."""
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    over = False
    while not over:
        mask = info["action_mask"]
        *_, over, _, info = env.step(int(rng.choice(np.flatnonzero(mask if legal or mask.all() else ~mask))))
    return info


@pytest.mark.parametrize("legal", [True, False])
@pytest.mark.parametrize(
    "model, target, form",
    [
        ("llama", "llama.cpp", "llama.cpp"), ("qwen3_moe", "llama.cpp", "llama.cpp"), ("llama", "ollama", "llama.cpp"),
        ("llama", "accelerate", "accelerate"), ("qwen3_moe", "accelerate", "accelerate"),
        ("gpt2", "accelerate", "accelerate"), ("llama", "pipelining", "pipelining"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*illegal and were replaced")
def test_programs_take_the_placement_of_every_episode(
    model: str, target: str, form: str, legal: bool, configuration: dict[str, str]
) -> None:
    env = gym.make(
        "HetSchedule-v0", graph=configuration[model], platform="cpu-2gpu-nvlink", target=target, completion="off",
        observation="candidates",
    )  # fmt: skip
    free = gym.make(
        "HetSchedule-v0", graph=configuration[model], platform="cpu-2gpu-nvlink", completion="off", memory="mask"
    )
    problem = env.unwrapped.lanes.source.items[0]
    different = set()
    for seed in range(12):
        schedule = played(env, seed, legal)["schedule"]
        different.add(json.dumps(export_plan(schedule, form, problem=problem, model=configuration[model])))
    assert len(different) > 3
    with pytest.raises(ConfigError, match="cannot follow this plan"):
        export_plan(played(free, 0)["schedule"], form, problem=problem, model=configuration[model])


def test_experts_of_a_real_mixture_may_leave_their_layer(configuration: dict[str, str]) -> None:
    arguments = {"graph": configuration["qwen3_moe"], "platform": "cpu-gpu", "completion": "off"}
    env, other = (HetScheduleEnv(**arguments, target=target) for target in ("llama.cpp", "ollama"))
    overrides = []
    for one in (env, other):
        found = [
            export_plan(played(one, seed)["schedule"], "llama.cpp", problem=one.problem)["override_tensor"]
            for seed in range(8)
        ]
        overrides.append(any(where == "CPU" for rules in found for where in rules.values()))
    assert overrides == [True, False]


def test_lanes_levels_copies_and_replays_keep_the_target(configuration: dict[str, str]) -> None:
    arguments = {
        "graph": configuration["qwen3_moe"], "platform": "cpu-2gpu-nvlink", "target": "llama.cpp", "completion": "off",
        "memory": "mask",
    }  # fmt: skip
    envs = gym.make_vec("HetSchedule-v0", num_envs=3, observation="flat", autoreset_mode="Disabled", **arguments)
    envs.reset(seed=4)
    lanes = [HetScheduleEnv(**arguments) for _ in range(3)]
    infos = [env.reset(seed=4 + k)[1] for k, env in enumerate(lanes)]
    rng, ended = np.random.default_rng(0), False
    copies: list[HetScheduleEnv] = []
    while not ended:
        actions = [int(rng.choice(np.flatnonzero(info["action_mask"]))) for info in infos]
        _, _, over, _, together = envs.step(actions)
        infos = [env.step(action)[4] for env, action in zip(lanes, actions, strict=True)]
        infos += [env.step(actions[0])[4] for env in copies]
        assert all((together["action_mask"][k] == infos[k]["action_mask"]).all() for k in range(3))
        assert all((info["action_mask"] == infos[0]["action_mask"]).all() for info in infos[3:])
        infos, ended = infos[:3], bool(over.all())
        if lanes[0].lanes.state.turn[0] == 40:
            copies = [copy.deepcopy(lanes[0]), pickle.loads(pickle.dumps(lanes[0]))]  # noqa: S301
    episode = infos[0]["replay"]
    assert dict(episode.arguments)["target"] == "llama.cpp"
    assert hetgym.envs.replay(lanes[0].problem, episode)["makespan"] == infos[0]["makespan"]


def test_whole_layers_as_operators_and_training_steps_can_have_a_target(configuration: dict[str, str]) -> None:
    graph, platform = hetgym.load_graph(configuration["llama"]), hetgym.load_platform("cpu-2gpu-nvlink")
    merged = by_layers(Problem.build(graph, platform))
    env = HetScheduleEnv(merged, target="llama.cpp", completion="off")
    for seed in range(8):
        export_plan(played(env, seed)["schedule"], "llama.cpp", problem=merged)
    step = Problem.build(hetgym.graph.transforms.training(graph), platform)
    env = HetScheduleEnv(step, target="pipelining", completion="off")
    at = {name: k for k, name in enumerate(step.operator_names)}
    for seed in range(8):
        where = played(env, seed)["schedule"].assignment
        for part in ("embed_tokens", "norm", "lm_head"):
            assert where[at[part]] == where[at[f"{part}/backward"]] == where[at[f"{part}.weight/update"]]
        assert where[at["embed_tokens"]] == where[at["layers.0.mlp_add"]]
        assert where[at["loss"]] == where[at["layers.4.mlp_add"]]


def test_what_a_target_cannot_place_is_refused() -> None:
    with pytest.raises(UnknownName, match="unknown target 'llama-cpp'; did you mean 'llama.cpp'"):
        gym.make("HetSchedule-v0", target="llama-cpp")
    with pytest.raises(UnknownName, match="unknown target"):
        gym.make("HetSchedule-v0", target="exo")
    with pytest.raises(
        ConfigError, match=r"target='vllm' places whole layers, and no operator of 'squeezenet@cpu-gpu'"
    ):
        gym.make("HetSchedule-v0", graph="squeezenet", platform="cpu-gpu", target="vllm")
    with pytest.raises(ConfigError, match="has no GPU, and vLLM places layers on GPUs only"):
        HetScheduleEnv(problem_of(DENSE, (False, False)), target="vllm")
    with pytest.raises(ConfigError, match="places whole layers"):
        HetScheduleEnv(target="llama.cpp").reset(seed=0)
    env = HetScheduleEnv(problem_of(MIXTURE, (False, True)), target="llama.cpp", illegal="raise")
    _, info = env.reset(options={"order": list(range(len(MIXTURE)))})
    assert info["action_mask"].tolist() == [True, False]
    with pytest.raises(IllegalAction):
        env.step(1)
