"""ActorCritic: a logit for each action and a value of the state, from an observation of any environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hetgym._input.config import read
from hetgym.agents.actions import NEGLIGIBLE
from hetgym.agents.import_paths import found_at
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.heads import CandidateHead, ValueHead
from hetgym.agents.networks.pipeline_view import PipelineView
from hetgym.agents.networks.schedule_views import DispatchView, ImproveView, PlaceView
from hetgym.agents.networks.split_view import SplitView
from hetgym.agents.networks.views import Seen, View
from hetgym.agents.sizes import Sizes
from hetgym.errors import ConfigError, shown, unknown_name

VIEWS: dict[str, View] = {
    "place": PlaceView(),
    "dispatch": DispatchView(),
    "split": SplitView(),
    "pipeline": PipelineView(),
    "improve": ImproveView(),
}
"""Kind of decision -> view of its observations for networks."""

LEVELS = ("graph", "candidates")
"""Levels of observation that networks take: the graph and the candidates, or the candidates alone."""

FAR = 1e9  # Larger than any feature


class ActionFeatures(nn.Module):
    r"""Describes every action of every lane by a vector.

    .. math::
        x_a = \big[f_a,\ (f_a - \mu) / (\sigma + \varepsilon),\ h_{a}\big]

    with :math:`f_a` the environment's features of the action, at the level ``graph`` also those of its surroundings,
    :math:`\mu` and :math:`\sigma` their mean and standard deviation over the legal actions, and, at the level
    ``graph``, :math:`h_a` the embedding of the
    action's operator on its device by an :class:`~hetgym.agents.networks.EpisodeEncoder`. Two devices often
    differ by a hundredth of the makespan only, so training learns first from the middle part, which consists of
    differences.

    Args:
        view: name of one of :data:`VIEWS`.
        level: one of :data:`LEVELS`.
        sizes: sizes of the encoder.

    Shapes:
        - **seen** the environment's observation, [B, …] each.
        - **output** [B, A, F] and the mask [B, A], True where legal.
    """

    def __init__(self, view: str, level: str, sizes: Sizes) -> None:
        super().__init__()
        for what, name, known in (("view", view, VIEWS), ("level", level, LEVELS)):
            if name not in known:
                raise unknown_name(what, name, known)
        self.view = VIEWS[view]
        self.size = 2 * len(self.view.columns)
        self.encoder: nn.Module | None = None
        if level == "graph":
            from hetgym.agents.networks.episode_encoder import EpisodeEncoder

            self.encoder = EpisodeEncoder(self.view, sizes)
            self.norm = nn.LayerNorm(sizes.embedding)
            self.size += 2 * len(self.view.surroundings) + sizes.embedding

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the first features of a description, which rules may weigh."""
        return self.view.columns

    def head(self, hidden: int) -> nn.Module:
        """The module that scores the described actions, with hidden layers of this size; it has their shapes."""
        return CandidateHead(self.size, hidden)

    def forward(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Describe the actions; see the class for shapes."""
        mask = seen["action_mask"] > 0
        known = self.view.actions(seen)
        if self.encoder is not None:
            known = torch.cat([known, self.view.around(seen)], -1)
        parts = [known, relative(known, mask)]
        if self.encoder is not None:
            parts.append(self.norm(self.view.embeddings(seen, *self.encoder(seen))))
        return torch.cat(parts, -1), mask


def features_class(sizes: Sizes, load: bool = True) -> type[ActionFeatures]:
    """The class that describes actions in a network.

    Args:
        load: true to import the module that the sizes name, false to take it only if it is loaded.

    Raises:
        ConfigError: there is no such class.
    """
    if not sizes.features:
        return ActionFeatures
    found = found_at(sizes.features, "features", load)
    if not isinstance(found, type) or not issubclass(found, ActionFeatures):
        raise ConfigError(f"features {shown(sizes.features)} is {shown(found)}; derive it from ActionFeatures")
    return found


class ActorCritic(nn.Module):
    r"""Scores actions and values states: :math:`\pi(a) \propto e^{s_a}`, :math:`v`.

    :math:`s` is :meth:`ActionFeatures.head`, by default :class:`~hetgym.agents.networks.CandidateHead`, and :math:`v`
    :class:`~hetgym.agents.networks.ValueHead` over the :class:`ActionFeatures` of the legal actions. No
    parameter depends on the padding, so weights can be used with any. New weights give a uniform policy.

    Args:
        view: name of one of :data:`VIEWS`.
        level: one of :data:`LEVELS`.
        sizes: sizes of its layers.
        features: module that describes actions; by default one of the class that the sizes name.

    Shapes:
        - **seen** the environment's observation, [B, …] each.
        - **output** logits [B, A], ``-inf`` where not legal, and values [B].
    """

    def __init__(
        self, view: str, level: str = "candidates", sizes: Sizes | None = None, features: ActionFeatures | None = None
    ) -> None:
        super().__init__()
        self.kind, self.level, self.sizes = view, level, sizes or Sizes()
        self.features = features_class(self.sizes)(view, level, self.sizes) if features is None else features
        self.actor = self.features.head(self.sizes.hidden)
        self.critic = ValueHead(self.features.size, self.sizes.hidden)

    @classmethod
    def of_card(cls, card: Mapping[str, Any], where: str) -> ActorCritic:
        """A new network as a card describes it.

        Args:
            card: a value of :meth:`card`.
            where: origin of the card, for messages.

        Raises:
            ConfigError: the card does not describe a network, or names features that are not loaded.
        """
        try:
            sizes = read(Sizes, card["sizes"], where, "sizes")
            features_class(sizes, load=False)
            return cls(str(card["view"]), str(card["level"]), sizes)
        except KeyError as error:
            raise ConfigError(f"{where}: the card has no {error.args[0]!r}") from error

    def card(self) -> dict[str, Any]:
        """The description from which :meth:`of_card` builds the network again, as JSON values."""
        sizes = {name: value for name, value in asdict(self.sizes).items() if value != ""}
        return {"view": self.kind, "level": self.level, "sizes": sizes}

    def begin_as(self, rule: Mapping[str, float]) -> None:
        """Initialise new weights so that the policy prefers the action of the least weighted sum of features.

        Args:
            rule: weights by name of the feature; with 100, a hundredth of the reference is worth a factor of e.

        Raises:
            ConfigError: the head, one of a method's own, has no rule.
            UnknownName: no such feature.
        """
        columns = self.features.columns
        if rule and not hasattr(self.actor, "rule"):
            raise ConfigError(f"the head of {shown(self.sizes.features)} does not begin as a rule; leave rule out")
        with torch.no_grad():
            for name, weight in rule.items():
                if name not in columns:
                    raise unknown_name("candidate feature", name, columns)
                self.actor.rule[columns.index(name)] = weight

    def forward(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Logits and values; see the class for shapes."""
        described, mask = self.features(seen)
        return self.actor(described, mask), self.critic(described, mask)


def relative(values: Tensor, mask: Tensor) -> Tensor:
    """[B, A, F] distance of each value from the mean of the legal actions, in standard deviations; 0 if not legal."""
    weight = mask.to(values.dtype)[..., None]
    count = weight.sum(-2, keepdim=True).clamp(min=1.0)
    least = values.masked_fill(~mask[..., None], FAR).amin(-2, keepdim=True)
    above = (values - least) * weight  # so that a feature that is equal for all actions gives exactly 0
    apart = (above - above.sum(-2, keepdim=True) / count) * weight
    return apart / ((apart.square().sum(-2, keepdim=True) / count).sqrt() + NEGLIGIBLE)
