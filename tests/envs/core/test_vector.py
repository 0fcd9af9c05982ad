"""Native vector environments equal Gymnasium's own over scalar ones, bit for bit, in all autoreset modes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import hetgym
from hetgym.envs import ENVIRONMENTS
from hetgym.errors import ConfigError, ProblemError, UnknownName

pytestmark = pytest.mark.filterwarnings("ignore:.*illegal and were replaced")

LANES = 5
STEPS = {"HetPipeline-v0": 100, "HetSplit-v0": 25, "HetCluster-v0": 25}  # others 250; each lane ends some episodes
KINDS: dict[str, list[dict[str, Any]]] = {
    "HetSchedule-v0": [
        {},
        {"observation": "candidates", "runtime": "links"},
        {"observation": "flat", "reward": "sparse"},
        {"decode": "best", "completion": "eft", "memory": "mask"},
    ],
    "HetDispatch-v0": [
        {"candidates": 3},
        {"observation": "candidates", "noise": 0.2, "jobs": 2, "slow_downs": 1, "losses": 1},
        {"observation": "flat", "runtime": "links", "reward": "sparse", "completion": "off"},
    ],
    "HetSplit-v0": [
        {"ways": [2]},
        {
            "graph": ["alexnet", "squeezenet"],
            "platform": "cpu-gpu-balanced",
            "batch": 4,
            "fused": True,
            "observation": "candidates",
            "runtime": "links",
            "key_operators": 3,
        },
        {
            "graph": "alexnet",
            "platform": ["cpu-gpu-balanced", "even-pair"],
            "observation": "flat",
            "reward": "sparse",
            "memory": "mask",
            "lookahead": True,
            "key_operators": 3,
            "parts": ["equal"],
        },
    ],
    "HetPipeline-v0": [
        {},
        {"observation": "candidates", "objective": "latency"},
        {"observation": "flat", "reward": "sparse"},
        *({"objective": "training", "schedule": schedule} for schedule in ("gpipe", "1f1b", "interleaved", "zb-h1")),
        {"graph": ["alexnet", "inception_v1"], "platform": ["cpu-gpu", "cpu-2gpu-nvlink"], "objective": "latency"},
    ],
}
CASES = [(name, arguments) for name in sorted(ENVIRONMENTS) for arguments in KINDS.get(name, [{}])]
MODES = list(AutoresetMode)
FIRST = {name: k for k, (name, _) in reversed(list(enumerate(CASES)))}
IN_MODES = [
    pytest.param(name, arguments, mode, marks=[] if k in FIRST.values() or k % 3 == j else pytest.mark.slow)
    for k, (name, arguments) in enumerate(CASES)
    for j, mode in enumerate(MODES)
]
"""Every case in every mode of autoreset: the first of each environment in all of them, the others by turns."""


def same(a: Any, b: Any) -> bool:
    """Equality down to the dtype, NaN equal to NaN."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray):
        if not isinstance(b, np.ndarray) or a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype == object:
            return all(same(x, y) for x, y in zip(a, b, strict=True))
        return a.tobytes() == b.tobytes()
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, hetgym.sim.Trace):
        parts = ("assignment", "start", "finish", "sent", "arrived")
        return isinstance(b, hetgym.sim.Trace) and all(same(getattr(a, name), getattr(b, name)) for name in parts)
    if isinstance(a, hetgym.Schedule):
        return isinstance(b, hetgym.Schedule) and a.to_dict() == b.to_dict()
    if isinstance(a, hetgym.Problem):
        return isinstance(b, hetgym.Problem) and a.id == b.id
    return type(a) is type(b) and a == b


def difference(a: Any, b: Any, path: str = "") -> str:
    """The place at which two results differ, for messages."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        pairs = enumerate(zip(a, b, strict=True))
        return next((found for k, (x, y) in pairs if (found := difference(x, y, f"{path}{k}"))), "")
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return f"{path}: keys {sorted(a.keys() ^ b.keys())}"
        return next((found for key in a if (found := difference(a[key], b[key], f"{path}/{key}"))), "")
    return "" if same(a, b) else f"{path}: {a!r} is not {b!r}"


@pytest.mark.parametrize(("name", "arguments", "mode"), IN_MODES)
def test_vector_equals_scalars(name: str, arguments: dict[str, Any], mode: AutoresetMode) -> None:
    def scalar() -> gym.Env:
        return gym.make(name, disable_env_checker=True, **arguments)

    scalars = SyncVectorEnv([scalar for _ in range(LANES)], autoreset_mode=mode)
    native = gym.make_vec(name, num_envs=LANES, autoreset_mode=mode, pool=None, **arguments)
    rng = np.random.default_rng(0)
    assert difference(scalars.reset(seed=3), native.reset(seed=3)) == ""
    highest, ended = int(native.single_action_space.n), 0
    for _ in range(STEPS.get(name, 250)):
        actions = rng.integers(-1, highest + 1, LANES)  # one in a few is not legal
        one, other = scalars.step(actions), native.step(actions)
        for part, x, y in zip(("observation", "reward", "terminated", "truncated", "info"), one, other, strict=True):
            assert difference(x, y, part) == ""
        ended += one[2].sum()
        if mode is AutoresetMode.DISABLED and one[2].any():
            mask = one[2].copy()
            seeds = [int(rng.integers(1000)) if rng.random() < 0.5 else None for _ in range(LANES)]
            x = scalars.reset(seed=seeds, options={"reset_mask": mask})
            assert difference(x, native.reset(seed=seeds, options={"reset_mask": mask})) == ""
    assert ended > LANES


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_make_vec_takes_the_native_one(name: str) -> None:
    envs = gym.make_vec(name, num_envs=3)
    assert type(envs.unwrapped).__module__.startswith("hetgym.")
    assert envs.num_envs == 3 and envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    seen, infos = envs.reset(seed=0)
    assert envs.observation_space.contains(seen)
    assert envs.unwrapped.action_masks().shape == infos["action_mask"].shape


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_observations_are_copies_unless_asked(name: str) -> None:
    for keep in (True, False):
        envs = gym.make_vec(name, num_envs=2, copy=keep)
        first, infos = envs.reset(seed=0)
        before = copy.deepcopy(first)
        actions = infos["action_mask"].argmax(axis=1)
        second = envs.step(actions)[0]
        assert same(first, before) is keep
        key = "action_mask"
        assert np.shares_memory(first[key], second[key]) is not keep


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"])
def test_a_copy_in_mid_episode_goes_on_alike(name: str, clone: Any) -> None:
    envs = gym.make_vec(name, num_envs=3)
    _, infos = envs.reset(seed=2)
    for _ in range(4):
        infos = envs.step(infos["action_mask"].argmax(axis=1))[4]
    twin = clone(envs)
    for _ in range(90):
        actions = infos["action_mask"].argmax(axis=1)
        one, other = envs.step(actions), twin.step(actions)
        assert difference(one[4], other[4]) == "" and same(one[0], other[0]) and same(one[1], other[1])
        infos = one[4]


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_what_makes_no_sense_is_refused(name: str) -> None:
    with pytest.raises(UnknownName, match="autoreset mode"):
        gym.make_vec(name, num_envs=2, autoreset_mode="sometimes")
    envs = gym.make_vec(name, num_envs=2, autoreset_mode="Disabled").unwrapped
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros(2, np.int64))
    with pytest.raises(ConfigError, match="seeds"):
        envs.reset(seed=[1, 2, 3])
    for mask in ([True, False], np.ones(3, np.bool_), np.zeros(2, np.bool_), np.ones(2)):
        with pytest.raises(ConfigError, match="reset_mask"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(ConfigError, match="no option"):
        envs.reset(options={"colour": 1})
    _, infos = envs.reset(seed=0)
    for actions in ([0], np.zeros(3, np.int64), 0, None, [[0, 0]]):
        with pytest.raises(ConfigError, match="2 actions, one for each lane"):
            envs.step(actions)
    assert not envs.lanes.legality.illegal.any()
    over = np.zeros(2, np.bool_)
    while not over.any():
        _, _, over, _, infos = envs.step(infos["action_mask"].argmax(axis=1))
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros(2, np.int64))


class Unreliable:
    """A generator of problems that fails when none is left."""

    left = 1_000

    def __call__(self, rng: np.random.Generator) -> hetgym.Problem:
        if self.left == 0:
            raise ProblemError("no problem is left")
        self.left -= 1
        n = int(rng.integers(2, 5))
        return hetgym.Problem.from_arrays(rng.uniform(1, 2, (n, 2)), [])


PADDING = {"max_operators": 4, "max_edges": 1, "max_devices": 2}


def test_a_step_whose_next_problem_cannot_be_drawn_changes_nothing_and_can_be_taken_again() -> None:
    generator = Unreliable()
    envs = gym.make_vec("HetSchedule-v0", 3, generator=generator, **PADDING)
    twin = gym.make_vec("HetSchedule-v0", 3, generator=Unreliable(), **PADDING)
    _, infos = envs.reset(seed=0)
    twin.reset(seed=0)
    refused = 0
    for left in range(40):
        actions = infos["action_mask"].argmax(axis=1)
        generator.left = left % 2  # of several lanes that begin in a step, the first one begins or none
        try:
            found = envs.step(actions)
        except ProblemError:
            refused += 1
            generator.left = 1_000
            found = envs.step(actions)
        known = twin.step(actions)
        for one, other in zip(found[:4], known[:4], strict=True):
            assert same(one, other)
        infos = found[4]
    assert refused > 5


def test_lanes_before_one_that_cannot_begin_begin() -> None:
    generator = Unreliable()
    envs = gym.make_vec("HetSchedule-v0", 3, generator=generator, autoreset_mode="Disabled", **PADDING).unwrapped
    envs.reset(seed=0)
    envs.step(envs.action_masks().argmax(axis=1))
    generator.left = 1
    with pytest.raises(ProblemError, match="no problem is left"):
        envs.reset(seed=7)
    assert envs.lanes.state.turn.tolist() == [0, 1, 1]
    envs.step(envs.action_masks().argmax(axis=1))
    assert envs.lanes.state.turn.tolist() == [1, 2, 2]
