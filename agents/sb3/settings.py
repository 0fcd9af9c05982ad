"""Settings of PPO, under the names of Stable-Baselines3."""

from __future__ import annotations

from dataclasses import dataclass

from hetgym._input.config import check_number
from hetgym.errors import ConfigError


@dataclass(frozen=True)
class PPOSettings:
    """Settings of PPO (Schulman et al., "Proximal policy optimization algorithms", arXiv 1707.06347, 2017).

    Attributes:
        learning_rate: learning rate of Adam.
        anneal_lr: true to decrease it linearly to 0 over the budget.
        n_steps: number of steps of each lane from one update to the next.
        batch_size: number of steps of a minibatch.
        n_epochs: number of passes over the steps of an update.
        gamma: discount; with 1 the value is the remaining return, as episodes always end.
        gae_lambda: lambda of generalised advantage estimation.
        clip_range: clipping range of the ratio of probabilities.
        normalize_advantage: true to normalise advantages of a minibatch to mean 0 and standard deviation 1.
        ent_coef, vf_coef: weights of the entropy and of the value's error.
        max_grad_norm: norm to which gradients are clipped.
        target_kl: divergence that ends an update early; None to never do so.

    Raises:
        ConfigError: a number out of its range.
    """

    learning_rate: float = 3e-4
    anneal_lr: bool = False
    n_steps: int = 64
    batch_size: int = 1024
    n_epochs: int = 4
    gamma: float = 1.0
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    normalize_advantage: bool = True
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    target_kl: float | None = None

    def __post_init__(self) -> None:
        for name in ("n_steps", "n_epochs"):
            check_number(getattr(self, name), name, ConfigError, minimum=1)
        check_number(self.batch_size, "batch_size", ConfigError, minimum=2)
        for name in ("learning_rate", "clip_range", "max_grad_norm"):
            check_number(getattr(self, name), name, ConfigError, positive=True)
        for name in ("gamma", "gae_lambda"):
            check_number(getattr(self, name), name, ConfigError, maximum=1.0)
        for name in ("ent_coef", "vf_coef"):
            check_number(getattr(self, name), name, ConfigError)
