"""Real networks on randomly varied platforms: a distribution to draw from."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hetgym.errors import ProblemError
from hetgym.problem import Problem

NETWORKS = (
    "alexnet", "bert_base", "inception_v1", "inception_v2", "lstm", "nasnet", "resnet50", "shufflenet", "squeezenet",
    "vgg19", "vit_b16", "zfnet512",
)  # fmt: skip
"""Networks of the zoo of at most 450 operators."""

PLATFORMS = ("8gpu-node", "cpu-2gpu-nvlink", "cpu-gpu", "cpu-gpu-balanced", "cpu-gpu-npu", "even-pair")


@dataclass(frozen=True)
class RealMix:
    """Problems of real networks: for each a network, a batch size, a transform and a platform are drawn.

    Costs are those of the roofline model, multiplied by a log-normal factor for each device and a smaller one for each
    operator on each device. Links are varied in the same way. All draws therefore differ, but they keep the structure
    of the networks.

    Raises:
        ProblemError: there is nothing to draw from.

    >>> RealMix(networks=("squeezenet",), platforms=("cpu-gpu",))(np.random.default_rng(0)).num_devices
    2
    """

    networks: tuple[str, ...] = NETWORKS  # names of the zoo
    platforms: tuple[str, ...] = PLATFORMS  # names of presets
    batches: tuple[int, ...] = (1, 2, 4, 8, 16)  # batch sizes
    # names out of `fuse` and `training`; the empty name stands for the unchanged network
    transforms: tuple[str, ...] = ("", "fuse", "training")
    # standard deviation of the logarithm of a device's and a link's factor; 0 for the unchanged platform
    spread: float = 0.3
    most: int = 450  # largest number of operators; draws with more are repeated

    def __post_init__(self) -> None:
        if not (self.networks and self.platforms and self.batches and self.transforms and self.spread >= 0):
            raise ProblemError(f"{self} holds no problem: nothing may be empty, spread not negative")

    def __call__(self, rng: np.random.Generator) -> Problem:
        """Draw a problem; ProblemError if no draw of a hundred is small enough."""
        for _ in range(100):
            network, platform, batch, transform = (
                some[int(rng.integers(len(some)))]
                for some in (self.networks, self.platforms, self.batches, self.transforms)
            )
            problem = _base(str(network), str(platform), int(str(batch)), str(transform))
            if problem.num_operators <= self.most:
                return varied(problem, rng, self.spread)
        raise ProblemError(f"{self}: no draw has at most {self.most} operators")


@lru_cache(maxsize=1024)
def _base(network: str, platform: str, batch: int, transform: str) -> Problem:
    from hetgym.graph import load_graph
    from hetgym.graph.transforms import fuse, training
    from hetgym.platform import load_platform

    graph = load_graph(network, batch=batch)
    if transform:
        graph = fuse(graph).graph if transform == "fuse" else training(graph)
    problem = Problem.build(graph, load_platform(platform), "roofline")
    problem.name = f"{network}{f'-b{batch}' if batch > 1 else ''}{f'-{transform}' if transform else ''}@{platform}"
    return problem


def varied(problem: Problem, rng: np.random.Generator, spread: float) -> Problem:
    """A copy of a problem with random changes of its devices and links.

    ``spread`` is the standard deviation of the logarithm of the factors of devices and links; a third of it is that of
    single operators on single devices.
    """
    if spread == 0.0:
        return problem
    n, d = problem.num_operators, problem.num_devices
    device, operator = rng.normal(0.0, spread, d), rng.normal(0.0, spread / 3, (n, d))
    links = rng.normal(0.0, spread, (2, d, d))
    return problem.replace(
        cost=problem.cost * np.exp(device + operator),
        latency=problem.latency * np.exp(links[0]),
        bandwidth=problem.bandwidth * np.exp(links[1]),
    )
