"""Random chains of blocks on devices of two kinds."""

from dataclasses import dataclass

import numpy as np

from hetgym.errors import ProblemError
from hetgym.pipeline.problem import DeviceKind, PipelineProblem
from hetgym.pipeline.training import TrainingPipeline


@dataclass(frozen=True)
class RandomChains:
    """A generator of small random chains with times, transfers, weights and activations.

    Times of blocks are log-normal. Accelerators run each block faster than CPUs by a factor that differs between
    blocks. The transfers of a cut in the middle of a chain take ``ccr`` times as long as a block on average. The memory
    of each device is 0.4 to 1 times what training all blocks on one micro-batch needs.

    Raises:
        ProblemError: an empty range, or no device.

    >>> step = RandomChains()(np.random.default_rng(0))
    >>> 8 <= step.problem.num_operators <= 20, step.problem.num_devices
    (True, 4)
    """

    blocks: tuple[int, int] = (8, 20)  # fewest and most blocks
    # accelerators, cpus: numbers of devices
    accelerators: int = 2
    cpus: int = 2
    ccr: tuple[float, float] = (0.05, 1.0)  # least and largest ratio of transfer times to run times

    def __post_init__(self) -> None:
        devices = self.accelerators + self.cpus
        if not (1 <= self.blocks[0] <= self.blocks[1] and devices >= 1 and 0 <= self.ccr[0] <= self.ccr[1]):
            raise ProblemError(f"{self} holds no pipeline: blocks, devices and ccr must not be empty")

    @property
    def limit(self) -> tuple[int, int]:
        """Most blocks and devices of any draw."""
        return self.blocks[1], self.accelerators + self.cpus

    def __call__(self, rng: np.random.Generator) -> TrainingPipeline:
        """Draw a chain."""
        n = int(rng.integers(self.blocks[0], self.blocks[1] + 1))
        fast = 1e-3 * rng.lognormal(0.0, 0.6, n)
        cost = np.stack([fast, fast * rng.uniform(1.2, 4.0) * rng.lognormal(0.0, 0.3, n)], axis=1)
        ccr = float(np.exp(rng.uniform(*np.log(np.maximum(self.ccr, 1e-9)))))
        transfer = ccr * fast.mean() * rng.lognormal(0.0, 0.5, n)
        size = np.round(1e6 * rng.lognormal(0.0, 0.8, n))
        stash = np.round(2e6 * rng.lognormal(0.0, 0.5, n))
        memory = float(rng.uniform(0.4, 1.0)) * float((4 * size + stash).sum())
        kinds = [DeviceKind("accelerator", self.accelerators, memory), DeviceKind("cpu", self.cpus, 2 * memory)]
        problem = PipelineProblem.chain(cost, kinds, transfer, size, name=f"chain-{n}")
        return TrainingPipeline(problem, stash=stash)
