"""Write a Minari dataset of expert episodes; needs ``minari[create,hdf5]`` (written for 0.5).

``python examples/minari_dataset.py hetgym/place/heft-v0 --expert heft --episodes 100 --out datasets`` lets HEFT decide.
A shipped policy (``place-v1``) and the path of a trained one are experts, too. Equal arguments give equal episodes.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NoReturn

import gymnasium as gym

import hetgym
from hetgym.agents import Policy
from hetgym.baselines import names


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


def refuse(error: hetgym.HetgymError) -> NoReturn:
    """End with a message on one line."""
    print(f"minari_dataset.py: {error}", file=sys.stderr)
    sys.exit(2)


def check_place(dataset: str, out: Path) -> None:
    """Refuse a dataset that could not be written, before its episodes are played.

    Raises:
        ConfigError: not a name of a dataset, a dataset that exists, or a folder that cannot be written.
    """
    if not re.fullmatch(r"([-\w]{2,99}/|[-\w]{1,99}(/[-\w]{1,99})+/)?[-\w]{1,99}-v\d{1,9}", dataset):
        raise hetgym.ConfigError(
            f"{dataset} is not a name of a dataset: it ends in a version, and words of letters, digits, _ and - stand "
            "before it, as in hetgym/place/heft-v0"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
        for folder in (out / dataset).parents:
            if folder.is_relative_to(out) and folder.exists() and not folder.is_dir():
                raise NotADirectoryError(0, "Not a directory", str(folder))
    except (OSError, ValueError) as error:
        raise hetgym.ConfigError(
            f"{getattr(error, 'filename', None) or out}: cannot be written ({getattr(error, 'strerror', error)})"
        ) from error
    if (out / dataset).exists():
        raise hetgym.ConfigError(f"{out / dataset} exists already")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="name of the dataset, such as hetgym/place/heft-v0")
    parser.add_argument("--expert", default="heft", help="scheduler, shipped policy or path of a policy")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first episode")
    parser.add_argument("--observation", default="graph", choices=["graph", "candidates", "flat"])
    parser.add_argument("--out", type=Path, default=Path("datasets"), help="folder of datasets")
    given = parser.parse_args()
    try:
        if given.episodes < 1 or given.seed < 0:
            raise hetgym.ConfigError("a dataset has at least one episode, and seeds from 0 on")
        check_place(given.dataset, given.out)
    except hetgym.HetgymError as error:
        refuse(error)
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
    except hetgym.HetgymError as error:
        refuse(error)
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
