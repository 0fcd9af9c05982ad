"""Fresh problems: drawn from a seed, so that no program can have memorised them."""

from collections.abc import Sequence

import numpy as np

from hetgym.errors import ConfigError
from hetgym.problem import Problem
from hetgym.workloads import Neighbourhood, ProblemSpec, RandomMix

WITHIN = 2.0  # Largest factor by which times, bytes and bandwidths of a suite's problem are changed
MIX = RandomMix(operators=(30, 200))  # Distribution of the problems that are new as a whole
MOST = 10_000  # Most fresh problems


def fresh_problems(specs: Sequence[ProblemSpec], count: int, seed: int) -> list[ProblemSpec]:
    """Draw problems: alternately a problem of a suite with changed numbers and a random problem.

    The numbers of a suite's problem are changed as by :class:`hetgym.workloads.Neighbourhood`: the time of each
    operator, the speed of each device, the bytes of each tensor and the bandwidth of each link by a factor from 1/2 to
    2, log-uniformly. Its graph is unchanged. The other problems are those of :class:`hetgym.workloads.RandomMix` with
    30 to 200 operators.

    Args:
        specs: problems of the suite.
        count: number of problems.
        seed: seed of all draws; problem k does not depend on ``count``.

    Returns:
        Problems named ``fresh-<number>``, which does not reveal the seed; each is drawn when it is built.

    Raises:
        ConfigError: an impossible number or seed, or no problems to draw from.
    """
    if not 0 <= count <= MOST or seed < 0:
        raise ConfigError(f"{count} fresh problems of seed {seed}: 0 to {MOST} problems, and no negative seed")
    if not specs:
        raise ConfigError("fresh problems are drawn from those of a suite, and there are none")
    return [_spec(specs, seed, number) for number in range(count)]


def _spec(specs: Sequence[ProblemSpec], seed: int, number: int) -> ProblemSpec:
    name = f"fresh-{number}"

    def make() -> Problem:
        rng = np.random.default_rng([seed, number])
        if number % 2:
            return MIX(rng).replace(name=name)
        near = Neighbourhood(specs[int(rng.integers(len(specs)))].build(), WITHIN)
        return near.problem(near.draw(rng), name)

    return ProblemSpec(name, name, "-", make)
