"""PyTorch Geometric, imported only by modules that pass messages, as it takes seconds to load."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from hetgym.errors import require

if TYPE_CHECKING:
    MessagePassing: Any
    GATConv: Any
    GCNConv: Any
    GINConv: Any
else:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it compiles with torch.jit, which PyTorch deprecates
        _nn = require("torch_geometric.nn", "agents", "a PyTorch network")
    MessagePassing, GATConv = _nn.MessagePassing, _nn.GATConv
    GCNConv, GINConv = _nn.GCNConv, _nn.GINConv

__all__ = ["GATConv", "GCNConv", "GINConv", "MessagePassing"]
