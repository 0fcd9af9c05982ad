"""PyTorch and PyTorch Geometric, asked for in one place, so that their absence is said in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetgym.errors import require

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    MessagePassing: Any
else:
    torch = require("torch", "agents", "networks")
    nn, Tensor = torch.nn, torch.Tensor
    MessagePassing = require("torch_geometric.nn", "agents", "networks").MessagePassing

__all__ = ["MessagePassing", "Tensor", "nn", "torch"]
