"""Policies of Stable-Baselines3 with hetgym's networks.

``MaskablePPO(MaskedActionPolicy, make_vec_env("HetSchedule-v0", 16, observation="candidates"))``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.actor_critic import ActorCritic, features_class
from hetgym.agents.sizes import Sizes
from hetgym.envs.core.spaces import KindSpace
from hetgym.errors import ConfigError, require

if TYPE_CHECKING:
    BaseFeaturesExtractor: Any
    ActorCriticPolicy: Any
    MaskableActorCriticPolicy: Any
else:
    BaseFeaturesExtractor = require(
        "stable_baselines3.common.torch_layers", "agents", "these policies"
    ).BaseFeaturesExtractor
    ActorCriticPolicy = require("stable_baselines3.common.policies", "agents", "these policies").ActorCriticPolicy
    MaskableActorCriticPolicy = require(
        "sb3_contrib.common.maskable.policies", "agents", "these policies"
    ).MaskableActorCriticPolicy


class ActionExtractor(BaseFeaturesExtractor):
    """:class:`~hetgym.agents.networks.ActionFeatures` as a feature extractor of Stable-Baselines3.

    Args:
        observation_space: space of an environment, with ``observation="graph"`` or ``"candidates"``.
        sizes: see :class:`~hetgym.agents.networks.Sizes`.

    Shapes:
        - **observations** [B, …] by key.
        - **output** [B, A, F + 1], the last column being the mask.
    """

    def __init__(self, observation_space: spaces.Space[Any], **sizes: Any) -> None:
        self.sizes = Sizes(**sizes)
        if not isinstance(observation_space, KindSpace):
            raise ConfigError("this policy takes observation='graph' or 'candidates' of one of hetgym's environments")
        self.kind, self.level = observation_space.kind, observation_space.level
        features = features_class(self.sizes)(self.kind, self.level, self.sizes)
        super().__init__(observation_space, features.size + 1)
        self.features = features

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """Describe actions; see the class for shapes."""
        described, mask = self.features(observations)
        return torch.cat([described, mask[..., None].to(described.dtype)], -1)


class Split(nn.Module):
    """A head that takes features and mask as one array, [B, A, F + 1]."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, features: Tensor) -> Tensor:
        """Apply the head; see the class for shapes. Legal actions that features leave out keep finite logits."""
        found: Tensor = self.head(features[..., :-1], features[..., -1] > 0)
        return found.clamp(min=-1e8)  # as sb3-contrib masks, whose entropy is NaN otherwise


class _ActionPolicy:
    """Base of both policies: an :class:`~hetgym.agents.networks.ActorCritic` in place of their networks."""

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Discrete, lr_schedule: Any, **arguments: Any
    ) -> None:
        defaults = {"features_extractor_class": ActionExtractor, "net_arch": [], "ortho_init": False}
        super().__init__(observation_space, action_space, lr_schedule, **(defaults | arguments))  # type: ignore[call-arg]

    def _build(self: Any, lr_schedule: Any) -> None:
        """Use hetgym's heads where Stable-Baselines3 would make layers whose size is that of the action space."""
        self._build_mlp_extractor()
        extractor = self.features_extractor
        network = ActorCritic(extractor.kind, extractor.level, extractor.sizes, extractor.features)
        self.action_net = Split(network.actor)
        self.value_net = nn.Sequential(Split(network.critic), nn.Unflatten(0, (-1, 1)))
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)
        self._network = [network]  # in a list, so that its parameters are not listed twice

    @property
    def network(self: Any) -> ActorCritic:
        """The network, which shares its weights with the policy."""
        found: ActorCritic = self._network[0]
        return found


class ActionPolicy(_ActionPolicy, ActorCriticPolicy):
    r"""A policy for ``stable_baselines3.PPO``, which has no action masks: the policy reads them from the observation.

    .. math::
        \pi(a) = \operatorname{softmax}_{a\ \mathrm{legal}} s_a

    with the logits and the value of :class:`~hetgym.agents.networks.ActorCritic`.

    Args:
        observation_space: space of an environment, with ``observation="graph"`` or ``"candidates"``.
        action_space: the environment's.
        lr_schedule: see Stable-Baselines3.
        arguments: arguments of Stable-Baselines3's policy; ``features_extractor_kwargs`` holds the
            :class:`~hetgym.agents.networks.Sizes`.
    """


class MaskedActionPolicy(_ActionPolicy, MaskableActorCriticPolicy):
    """A policy for ``sb3_contrib.MaskablePPO``, which passes the masks once more; see :class:`ActionPolicy`."""


POLICIES = {"ppo": ActionPolicy, "maskable-ppo": MaskedActionPolicy}  # Algorithm -> its policy
