"""Exact reductions of sharding problems: an optimum under the memory limit stays one."""

from hetgym.sharding.reduction.reduced import Reduced, reduce

__all__ = ["Reduced", "reduce"]
