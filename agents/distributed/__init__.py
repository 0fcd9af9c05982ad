"""Training on a Ray cluster: workers play, while the learner stays in the process that was started.

What is played does not depend on which worker plays it, so a run ends with the weights of a local one. Workers need
neither PyTorch nor Stable-Baselines3.
"""

from hetgym.agents.distributed.crew import RayCluster, join

__all__ = ["RayCluster", "join"]
