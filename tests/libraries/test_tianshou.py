"""Tianshou: its Q-learning looks for masks in observations, and a network of a few lines gives them to its PPO."""

from __future__ import annotations

import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from libraries import recipe

from hetgym.envs.masked import MaskedObservation

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("tianshou.algorithm")
    import torch
    from tianshou.algorithm import PPO
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, Collector, CollectStats, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OnPolicyTrainerParams
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library


@pytest.mark.parametrize("name", recipe.EVERY)
def test_every_environment_is_played_within_its_masks(name: str) -> None:
    def collected() -> Any:
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        make = lambda: MaskedObservation(gym.make(name, observation="flat", **recipe.EVERY[name]))  # noqa: E731
        envs = DummyVectorEnv([make, make])
        envs.seed([3, 4])
        space, actions = make().observation_space["obs"], make().action_space
        network = Net(state_shape=space.shape, action_shape=actions.n, hidden_sizes=[8])
        policy = DiscreteQLearningPolicy(model=network, action_space=actions, eps_training=0.5, eps_inference=0.5)
        buffer = VectorReplayBuffer(4096, 2)
        Collector[CollectStats](policy, envs, buffer).collect(n_step=240, reset_before_collect=True)
        return buffer[:]

    found, again = collected(), collected()
    assert (np.take_along_axis(found.obs.mask, found.act[:, None], 1) == 1).all() and (found.obs.mask == 0).any()
    assert (found.act == again.act).all() and (found.rew == again.rew).all()
    assert (found.info.illegal_actions == 0).all() and found.done.any() and not found.hasnull()


class MaskedActor(DiscreteActor):
    """Logits of the legal actions; the others get no probability."""

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:
        logits, state = super().forward(obs.obs, state, info)
        return logits.masked_fill(torch.as_tensor(obs.mask) == 0, -1e9), state


class Critic(DiscreteCritic):
    """The value of the observation beside the mask."""

    def forward(self, obs: Any, **rest: Any) -> torch.Tensor:
        return super().forward(obs.obs, **rest)


@pytest.mark.slow
def test_an_agent_learns() -> None:
    began = time.perf_counter()
    torch.manual_seed(recipe.SEED)
    np.random.seed(recipe.SEED)  # noqa: NPY002  (Tianshou shuffles batches with NumPy's global generator)
    make = lambda: MaskedObservation(recipe.make())  # noqa: E731
    envs = DummyVectorEnv([make] * recipe.LANES)
    envs.seed(list(range(recipe.SEED, recipe.SEED + recipe.LANES)))
    space, actions = make().observation_space["obs"], make().action_space
    actor, critic = (Net(state_shape=space.shape, hidden_sizes=recipe.HIDDEN) for _ in range(2))
    policy = ProbabilisticActorPolicy(
        actor=MaskedActor(preprocess_net=actor, action_shape=actions.n, softmax_output=False),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        deterministic_eval=True,
        action_space=actions,
        action_scaling=False,
    )
    algorithm = PPO(
        policy=policy,
        critic=Critic(preprocess_net=critic),
        optim=AdamOptimizerFactory(lr=recipe.RATE),
        eps_clip=recipe.CLIP,
        vf_coef=recipe.VALUE,
        ent_coef=recipe.ENTROPY,
        max_grad_norm=recipe.NORM,
        gae_lambda=recipe.LAMBDA,
        gamma=recipe.GAMMA,
    )
    steps = recipe.LANES * recipe.ROUND
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=Collector[CollectStats](policy, envs, VectorReplayBuffer(steps, recipe.LANES)),
            max_epochs=1,
            epoch_num_steps=recipe.STEPS,
            collection_step_num_env_steps=steps,
            update_step_num_repetitions=recipe.EPOCHS,
            batch_size=recipe.BATCH,
            show_progress=False,
            verbose=False,
        )
    )

    def choose(seen: np.ndarray, mask: np.ndarray) -> int:  # `policy.compute_action` takes no mask
        return int(policy(Batch(obs=Batch(obs=seen[None], mask=mask[None]), info={})).act)

    found = recipe.played(choose)
    recipe.check("Tianshou", found, time.perf_counter() - began)
