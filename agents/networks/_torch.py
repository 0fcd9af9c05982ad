"""PyTorch, imported in one place, so that its absence gives an error of one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym.errors import require

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
else:
    torch = require("torch", "agents", "a PyTorch network")
    nn, Tensor = torch.nn, torch.Tensor

__all__ = ["Tensor", "nn", "torch"]
