"""Heads: from embeddings to a score of each action, or to a value of the state."""

from __future__ import annotations

from hetgym.agents.networks._torch import Tensor, nn, torch

SPARSE = 8  # Below one legal action in so many, illegal ones are left out of the computation


class CandidateHead(nn.Module):
    r"""Scores actions by the features of each, and by the mean over all legal actions.

    .. math::
        s_a = w^\top \rho\big(C\,\rho(A\,x_a + B \operatorname*{mean}_{b\ \mathrm{legal}} x_b)\big) - u^\top x_a

    With :math:`w = 0`, as at the start, only the second term is left: a linear rule, which can express a
    heuristic. Permuting the actions permutes the scores.

    Args:
        features: number of features F of an action.
        hidden: size of the two hidden layers.
        rule: [F] initial :math:`u`, the cost of each feature; zero by default.

    Shapes:
        - **actions** [B, A, F], **mask** [B, A], True where legal.
        - **output** [B, A] scores, logits of a choice; ``-inf`` where not legal.
    """

    def __init__(self, features: int, hidden: int = 32, rule: Tensor | None = None) -> None:
        super().__init__()
        self.own = nn.Linear(features, hidden)
        self.all = nn.Linear(features, hidden, bias=False)
        self.mix = nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.rule = nn.Parameter(torch.zeros(features) if rule is None else rule.clone())
        nn.init.zeros_(self.score.weight)

    def forward(self, actions: Tensor, mask: Tensor) -> Tensor:
        """Score the actions; see the class for shapes."""
        if mask.sum() * SPARSE < mask.numel():
            return self._of_few(actions, mask)
        weight = mask.to(actions.dtype)[..., None]
        mean = (actions * weight).sum(-2, keepdim=True) / weight.sum(-2, keepdim=True).clamp(min=1.0)
        hidden = torch.relu(self.mix(torch.relu(self.own(actions) + self.all(mean))))
        score = self.score(hidden)[..., 0] - actions @ self.rule
        return score.masked_fill(~mask, float("-inf"))

    def _of_few(self, actions: Tensor, mask: Tensor) -> Tensor:
        """The same scores, computed for the legal actions alone."""
        x, mean = actions[mask], mean_of_few(actions, mask)
        among = self.all(mean)[mask.nonzero()[:, 0]]
        hidden = torch.relu(self.mix(torch.relu(self.own(x) + among)))
        score = self.score(hidden)[..., 0] - x @ self.rule
        return score.new_full(mask.shape, float("-inf")).masked_scatter(mask, score)


class ValueHead(nn.Module):
    r"""Values a state by the mean of its parts' features: :math:`v = \mathrm{MLP}(\operatorname{mean}_a x_a)`.

    Args:
        features: number of features F of a part.
        hidden: size of the hidden layer.

    Shapes:
        - **parts** [B, A, F], **mask** [B, A], False for parts to leave out.
        - **output** [B].
    """

    def __init__(self, features: int, hidden: int = 32) -> None:
        super().__init__()
        self.value = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, parts: Tensor, mask: Tensor) -> Tensor:
        """Value the state; see the class for shapes."""
        if mask.sum() * SPARSE < mask.numel():
            few: Tensor = self.value(mean_of_few(parts, mask))[..., 0]
            return few
        weight = mask.to(parts.dtype)[..., None]
        value: Tensor = self.value((parts * weight).sum(-2) / weight.sum(-2).clamp(min=1.0))[..., 0]
        return value


def mean_of_few(values: Tensor, mask: Tensor) -> Tensor:
    """[B, F] means over the few legal entries of [B, A, F]; zeros without any."""
    total = values.new_zeros(len(mask), values.shape[-1]).index_add(0, mask.nonzero()[:, 0], values[mask])
    return total / mask.sum(1, keepdim=True).clamp(min=1)
