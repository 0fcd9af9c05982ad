"""Stable-Baselines3: policies with hetgym's networks, and training from recipes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.agents.sb3.loading import load_model
    from hetgym.agents.sb3.plans import as_model
    from hetgym.agents.sb3.policies import ActionExtractor, ActionPolicy, MaskedActionPolicy
    from hetgym.agents.sb3.settings import PPOSettings

_HOME = {
    "hetgym.agents.sb3.loading": ("load_model",),
    "hetgym.agents.sb3.plans": ("as_model",),
    "hetgym.agents.sb3.policies": ("ActionExtractor", "ActionPolicy", "MaskedActionPolicy"),
    "hetgym.agents.sb3.settings": ("PPOSettings",),
}

__all__ = ["ActionExtractor", "ActionPolicy", "MaskedActionPolicy", "PPOSettings", "as_model", "load_model"]

__getattr__ = lazy(__name__, _HOME)
