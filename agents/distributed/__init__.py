"""Training on a Ray cluster: workers play episodes, while the learner stays in the process that was started.

Episodes do not depend on the worker that plays them, so a run gives the same weights as a local one. Workers need
neither PyTorch nor Stable-Baselines3.
"""

from hetgym.agents.distributed.crew import RayCluster, join

__all__ = ["RayCluster", "join"]
