"""Stable-Baselines3: policies with hetgym's networks, and training from recipes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.agents.sb3.loading import load_model as load_model
    from hetgym.agents.sb3.plans import as_model as as_model
    from hetgym.agents.sb3.policies import ActionExtractor as ActionExtractor
    from hetgym.agents.sb3.policies import ActionPolicy as ActionPolicy
    from hetgym.agents.sb3.policies import MaskedActionPolicy as MaskedActionPolicy
    from hetgym.agents.sb3.settings import PPOSettings as PPOSettings

lazy(__name__)
