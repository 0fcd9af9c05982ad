"""The manual gives the shapes of observations."""

from __future__ import annotations

from hetgym.envs import (
    BLOCK_FEATURES,
    CUT_FEATURES,
    STAGE_FEATURES,
    HetPipelineEnv,
    feature_table,
)
from hetgym.pipeline import (
    DeviceKind,
    PipelineProblem,
)

TWO = [DeviceKind("gpu", 2)]

CHAIN = PipelineProblem.chain([[4.0], [1.0], [1.0], [2.0]], TWO, transfer=0.5, name="four")


def test_documentation_names_every_feature_count() -> None:
    text = HetPipelineEnv.__doc__ or ""
    space = HetPipelineEnv(CHAIN).observation_space
    for key, symbol in (("blocks", "N"), ("devices", "D"), ("candidates", "1 + D")):
        assert f"| ``{key}`` | [{symbol}, {space[key].shape[1]}] |" in text
    assert all(f"``{key}``" in text for key in space.spaces)
    for features in (BLOCK_FEATURES, STAGE_FEATURES, CUT_FEATURES):
        assert len(feature_table(features).splitlines()) == len(features)
