"""Random training steps on small clusters of two kinds of GPUs."""

from dataclasses import dataclass

import numpy as np

from hetgym.device import Device
from hetgym.errors import ProblemError
from hetgym.parallel.cluster import Cluster, Pool
from hetgym.parallel.framework import Framework
from hetgym.parallel.layers import ProfiledLayers
from hetgym.parallel.network import MeasuredNetwork, Wire
from hetgym.parallel.problem import TrainingProblem


@dataclass(frozen=True)
class RandomSteps:
    """A generator of small training problems: profiled layers on two nodes, one of fast and one of slow GPUs.

    Times, parameters and activations of layers are log-normal. Slow GPUs take 1.3 to 3 times as long as fast ones. A
    fast GPU has 0.3 to 1 times the memory that training the model on micro-batches of one sample needs, a slow one 1 to
    2 times. So some plan always fits, and most settings do not allow every plan.

    Raises:
        ProblemError: an empty range, or no GPU.

    >>> problem = RandomSteps()(np.random.default_rng(0))
    >>> 6 <= problem.costs.layers <= 12, problem.cluster.gpus
    (True, 8)
    """

    layers: tuple[int, int] = (6, 12)  # fewest and most layers
    gpus: int = 4
    global_batch: int = 8  # samples of a step

    def __post_init__(self) -> None:
        if not (1 <= self.layers[0] <= self.layers[1] and self.gpus >= 1 and self.global_batch >= 1):
            raise ProblemError(f"{self} holds no training problem: layers, gpus and global_batch must not be empty")

    def __call__(self, rng: np.random.Generator) -> TrainingProblem:
        """Draw a problem."""
        n, framework = int(rng.integers(self.layers[0], self.layers[1] + 1)), Framework()
        forward = 1e-2 * rng.lognormal(0.0, 0.4, n)
        fast = np.stack([forward, 2.0 * forward, 0.1 * forward], axis=1)  # [n, 3] forward, backward, update [s]
        base = {"fast": fast, "slow": fast * rng.uniform(1.3, 3.0) * rng.lognormal(0.0, 0.1, (n, 1))}
        times = {
            (name, tensor, batch): table / tensor**0.8 * [batch**0.9, batch**0.9, 1.0]
            for name, table in base.items()
            for tensor in (1, 2)
            for batch in (1, 2)
        }
        mean = np.array([5e7, 4e8, 2e7])  # parameters, bytes of stash and of boundary
        sizes = np.round(mean * rng.lognormal(0.0, 0.4, (n, 3)))
        costs = ProfiledLayers(times, {1: sizes, 2: sizes / [2.0, 2.0, 1.0]})
        need = float(framework.state_bytes * sizes[:, 0].sum() + sizes[:, 1].sum())
        rooms = {"fast": need * rng.uniform(0.3, 1.0), "slow": need * rng.uniform(1.0, 2.0)}
        near, far = (Wire(5e-6, (1.0,), (float(rng.uniform(*span)),)) for span in ((5e10, 2e11), (5e9, 2e10)))
        network = MeasuredNetwork(far, {self.gpus: near})
        pools = [
            Pool(Device(name, "gpu", {"float16": 1e14}, 1e12, float(room)), 1, self.gpus, network)
            for name, room in rooms.items()
        ]
        cluster = Cluster(f"cluster-{n}", tuple(pools))
        return TrainingProblem(costs, cluster, self.global_batch, framework, (1, 2), (1, 2), self.gpus * 2)
