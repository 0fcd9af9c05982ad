"""Playing episodes again."""

from __future__ import annotations

import math
from typing import Any

from hetgym.envs.core.registry import arguments_of, environment_of
from hetgym.envs.core.replay import DRAWS, Replay, influences, plain, restored
from hetgym.errors import ConfigError, shown
from hetgym.schedule import Schedule


def replay(problem: Any, episode: Replay, **arguments: Any) -> dict[str, Any]:
    """Play an episode again, in an environment with the arguments that the episode holds.

    Args:
        problem: the episode's problem, as ``env.unwrapped.replayable`` gives it during the episode: a problem, a list
            of jobs, a pipeline, or a graph and a platform. Or the source from which the environment drew it, such as a
            list of problems, or None for a generator; the problem is then drawn with the episode's seed.
        episode: the value of ``info["replay"]``.
        arguments: further arguments of the environment, such as ``observation``, or an object that a replay does not
            hold (a cost model, a generator).

    Returns:
        The last ``info``.

    Raises:
        UnknownName: no such environment.
        ConfigError: the problem, the arguments or the number of actions differ from the episode's, an object must be
            passed, or the makespan differs in the end.
    """
    given = problem if isinstance(problem, tuple) else (problem,)
    env = environment_of(episode.env_id)(*given, **_arguments(episode, arguments, drawn=problem is None))
    start = None if episode.start is None else Schedule(*episode.start)
    names = ("conditions", "order", "gap", "arrivals", "release", "weights")
    options = {name: getattr(episode, name) for name in names} | {"schedule": start}
    chosen = {key: value for key, value in options.items() if value is not None}
    are_jobs = isinstance(problem, list) and len(problem) == episode.jobs > 1
    info: dict[str, Any]
    _, info = env.reset(seed=episode.seed, options=chosen | ({"problem": problem} if are_jobs else {}))
    if are_jobs and env.lanes.identity(0) != episode.problem:  # the jobs were drawn from the list
        _, info = env.reset(seed=episode.seed, options=chosen)
    identity = env.lanes.identity(0)
    if identity != episode.problem:
        raise ConfigError(f"this episode was played on {episode.problem}, not on {identity}")
    taken, over = 0, bool(env.lanes.over[0])
    for action in episode.actions:
        if over:
            break
        _, _, over, _, info = env.step(action)
        taken += 1
    if not over or taken < len(episode.actions):
        wrong = f"{taken} actions were enough" if over else "they do not end it"
        raise ConfigError(f"the episode on {identity} has {len(episode.actions)} actions, but {wrong}")
    if episode.makespan is not None and not math.isclose(info["makespan"], episode.makespan, rel_tol=1e-9):
        raise ConfigError(
            f"the episode on {identity} ended with a makespan of {episode.makespan:.9g} s, its replay ends with "
            f"{info['makespan']:.9g} s: the graph, an object among the arguments or the version of hetgym differs"
        )
    return info


def _arguments(episode: Replay, given: dict[str, Any], drawn: bool) -> dict[str, Any]:
    """The arguments of the environment: those of the episode, and those given in addition.

    Args:
        episode: the episode.
        given: by the caller.
        drawn: true if the problem must be drawn by a generator.

    Raises:
        ConfigError: a given argument differs from that of the episode, or one must be given.
    """
    held = dict(episode.arguments or ())
    known = influences(arguments_of(episode.env_id)) | held
    for name, value in given.items() if episode.arguments is not None else ():
        if name in known and plain(name, value) != known[name]:
            was = shown(known[name])
            raise ConfigError(f"this episode was played with {name}={was}, not with {name}={shown(value)}")
    wanted = {name: value for name, value in held.items() if (drawn or name not in DRAWS) and name not in given}
    for name, value in wanted.items():
        if isinstance(value, str) and value.startswith("<"):
            raise ConfigError(f"this episode was played with {name}={value}, an object that it does not hold: pass it")
    jobs = {"jobs": episode.jobs} if episode.jobs > 1 else {}
    return {name: restored(name, value) for name, value in wanted.items()} | jobs | given
