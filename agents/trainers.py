"""hetgym's own training algorithms, which ``hetgym.agents`` enters into the table; each loads when it is first used."""

from __future__ import annotations

from hetgym.agents.algorithms import ALGORITHMS, Algorithm

_SB3 = ("hetgym.agents.sb3.settings:PPOSettings", "hetgym.agents.sb3.training:train")

ALGORITHMS.update(
    {
        "ppo": Algorithm(*_SB3, "PPO of Stable-Baselines3, which reads masks from observations"),
        "maskable-ppo": Algorithm(*_SB3, "MaskablePPO of sb3-contrib"),
        "reinforce": Algorithm(
            "hetgym.agents.training.settings:ReinforceSettings",
            "hetgym.agents.training.reinforce:train",
            "policy gradient of whole episodes, with a critic or not, and with a teacher at first",
            shares=False,
        ),
        "self-labelling": Algorithm(
            "hetgym.agents.training.settings:SelfLabellingSettings",
            "hetgym.agents.training.self_labelling:train",
            "play each problem often and imitate the best, in any environment",
            shares=False,
        ),
        "place-labelling": Algorithm(
            "hetgym.agents.training.settings:PlaceLabellingSettings",
            "hetgym.agents.training.place_labelling:train",
            "play a problem often and imitate the best: the policy place-v1",
            env="HetSchedule-v0",
            reads=(),
        ),
        "list-gradient": Algorithm(
            "hetgym.agents.training.settings:ListGradientSettings",
            "hetgym.agents.training.list_gradient:train",
            "REINFORCE through a list scheduler, and imitation of searched plans: the policy gnn-v1",
            shares=False,
            env="HetSchedule-v0",
            reads=(),
        ),
        "run-gradient": Algorithm(
            "hetgym.agents.training.settings:RunGradientSettings",
            "hetgym.agents.training.run_gradient:train",
            "REINFORCE through simulated runs that follow a network: the policy gnn-dispatch-v1",
            shares=False,
            env="HetDispatch-v0",
            reads=(),
        ),
        "move-outcomes": Algorithm(
            "hetgym.agents.training.settings:OutcomeSettings",
            "hetgym.agents.training.outcomes:train",
            "search, and learn which moves make plans shorter: the policy place-v2",
            shares=False,
            env="HetSchedule-v0",
            reads=(),
        ),
        "split-outcomes": Algorithm(
            "hetgym.agents.training.settings:SplitOutcomeSettings",
            "hetgym.agents.training.split_outcomes:train",
            "search, and learn which splits make plans shorter: the policy split-v2",
            shares=False,
            env="HetSplit-v0",
            reads=("rule",),
        ),
    }
)
