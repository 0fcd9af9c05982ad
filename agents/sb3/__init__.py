"""Stable-Baselines3: policies over our networks, and training from recipes."""

from __future__ import annotations
