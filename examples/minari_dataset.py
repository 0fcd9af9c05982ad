"""Write a Minari dataset of expert episodes; needs ``minari[create,hdf5]`` (written for 0.5).

``python examples/minari_dataset.py hetgym/place/heft-v0 --expert heft --episodes 100 --out datasets`` lets HEFT decide.
A shipped policy (``place-v1``) and the path of a trained one are experts, too. Equal arguments give equal episodes.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym

import hetgym
from hetgym.agents import Policy
from hetgym.planning import names


class InExpertsOrder(gym.Wrapper[Any, Any, Any, Any]):
    """Begins episodes as a scheduler does, which decides in an order of its own; Minari records what it sees.

    Minari keeps the options of a reset as attributes of a file and cannot keep problems, so they stay below it.
    """

    def __init__(self, env: gym.Env[Any, Any], expert: Any) -> None:
        super().__init__(env)
        self.expert = expert

    @property
    def spec(self) -> Any:
        """Of the environment itself, which ``dataset.recover_environment()`` makes again."""
        return self.env.spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode; options are the expert's."""
        return (
            self.expert.reset(self.env, seed, options) if hasattr(self.expert, "reset") else self.env.reset(seed=seed)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="name of the dataset, such as hetgym/place/heft-v0")
    parser.add_argument("--expert", default="heft", help="scheduler, shipped policy or path of a policy")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first episode")
    parser.add_argument("--observation", default="graph", choices=["graph", "candidates", "flat"])
    parser.add_argument("--out", type=Path, default=Path("datasets"), help="folder of datasets")
    given = parser.parse_args()
    os.environ["MINARI_DATASETS_PATH"] = str(given.out.resolve())  # relative ones it joins twice
    warnings.filterwarnings("ignore", module="minari")  # it asks for authors and permalinks
    import minari  # reads the folder of datasets when it is imported

    arguments: dict[str, Any] = {"observation": given.observation, "completion": "off"}
    try:
        if given.expert in names() and given.expert not in hetgym.agents.names():
            expert, arguments = hetgym.baselines.as_policy(given.expert), {**arguments, "decode": "append"}
        else:
            policy: Policy = hetgym.agents.load(given.expert)
            arguments, expert = {**arguments, **policy.arguments}, policy.agent()
        if given.episodes < 1:
            raise hetgym.errors.ConfigError("a dataset has at least one episode")
        if os.path.exists(given.out / given.dataset):
            raise hetgym.errors.ConfigError(f"{given.out / given.dataset} exists already")
    except hetgym.HetgymError as error:
        sys.exit(f"minari_dataset.py: {error}")
    env = InExpertsOrder(gym.make("HetSchedule-v0", **arguments), expert)
    collector = minari.DataCollector(env)
    for seed in range(given.seed, given.seed + given.episodes):
        observation, info = collector.reset(seed=seed)
        over = False
        while not over:
            observation, _, over, _, info = collector.step(expert(observation, info))
    dataset = collector.create_dataset(
        given.dataset,
        algorithm_name=given.expert,
        description=f"{given.episodes} episodes of {given.expert} in HetSchedule-v0, seeds from {given.seed} on",
        requirements=["hetgym"],
    )
    collector.close()
    returns = [float(episode.rewards.sum()) for episode in dataset.iterate_episodes()]
    print(f"{given.dataset}: {dataset.total_episodes} episodes, {dataset.total_steps} steps, "
          f"mean return {sum(returns) / len(returns):+.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
