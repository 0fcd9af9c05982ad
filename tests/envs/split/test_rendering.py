"""Text frames of splitting."""

from __future__ import annotations

from split_tools import machine, products

from hetgym.envs import (
    HetSplitEnv,
)


def test_text_frames_name_what_is_split() -> None:
    env = HetSplitEnv(products(2), machine(), render_mode="ansi")
    env.reset(seed=0)
    assert "0/2 decided" in env.render() and "next: p0 (MatMul): leave, batch x2 equal" in env.render()
    env.step(1)
    assert "p0: batch x2 equal" in env.render()
    env.step(0)
    assert "done: makespan" in env.render()
