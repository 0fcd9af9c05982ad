"""Networks: what learns, in PyTorch and PyTorch Geometric; sizes of graphs and platforms are free everywhere."""

from hetgym.agents.networks.encoder import OperatorDeviceEncoder
from hetgym.agents.networks.heads import CandidateHead, ValueHead

__all__ = ["CandidateHead", "OperatorDeviceEncoder", "ValueHead"]
