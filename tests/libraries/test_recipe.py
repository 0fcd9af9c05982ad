"""The recipe tells good agents from bad ones, and the page's code for each library makes environments with masks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from libraries import recipe

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-another-library.md"

pytestmark = pytest.mark.filterwarnings("ignore")  # of illegal actions, and of libraries


@pytest.mark.slow
def test_neither_chance_nor_an_agent_without_masks_passes() -> None:
    first_to_finish = recipe.played(
        lambda seen, mask: np.where(mask, seen["candidates"][:, 3], np.inf).argmin(), "candidates"
    )
    assert abs(first_to_finish.mean) < 1e-12  # HEFT's choice
    recipe.check("HEFT", first_to_finish, 0.0)
    any_action = recipe.by_chance(masked=False)
    assert any_action.illegal > 0.1
    for bad in (recipe.by_chance(), recipe.Played(any_action.illegal, 0.0)):
        with pytest.raises(AssertionError):
            recipe.check("none", bad, 0.0)


def code_of(library: str) -> dict[str, Any]:
    """The names that the code below a library's heading makes."""
    (section,) = re.findall(rf"^## {library}\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    blocks = re.findall(r"```py\n(.*?)```", section, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, f"{PAGE.name}, {library}", "exec", dont_inherit=True), names)
    return names


def test_torchrl_as_on_the_page() -> None:
    pytest.importorskip("torchrl")
    played = code_of("TorchRL")["env"].rollout(100)
    assert played["action_mask"].gather(-1, played["action"][..., None]).all() and played["next", "done"].any()


def test_rllib_as_on_the_page() -> None:
    pytest.importorskip("tree")
    runner = pytest.importorskip("ray.rllib.env.single_agent_env_runner").SingleAgentEnvRunner
    (episode,) = runner(config=code_of("RLlib")["config"].env_runners(num_env_runners=0)).sample(num_episodes=1)
    assert episode.is_done and episode.get_infos(-1)["illegal_actions"] == 0


def test_tianshou_as_on_the_page() -> None:
    pytest.importorskip("tianshou.algorithm")
    import torch
    from tianshou.data import Batch
    from tianshou.utils.net.common import Net

    net = Net(state_shape=(3,), hidden_sizes=[4])
    actor = code_of("Tianshou")["MaskedActor"](preprocess_net=net, action_shape=2, softmax_output=False)
    logits, _ = actor(Batch(obs=np.zeros((1, 3), np.float32), mask=np.array([[0, 1]], np.int8)))
    assert torch.softmax(logits, -1).tolist() == [[0.0, 1.0]]
