"""Play every environment at random: ``python examples/random_agent.py --episodes 5``."""

from __future__ import annotations

import argparse

import gymnasium as gym
import numpy as np

from hetgym.agents import play, uniform
from hetgym.envs import ENVIRONMENTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=5)
    episodes = parser.parse_args().episodes
    for name in ENVIRONMENTS:
        env = gym.make(name)
        returns = [play(env, uniform(seed), seed=seed).total_reward for seed in range(episodes)]
        print(f"{name:<15} return {np.mean(returns):+.3f} (mean of {episodes} episodes)")


if __name__ == "__main__":
    main()
