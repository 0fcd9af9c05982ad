"""Policies and rules in the table of schedulers: shipped ones, and policies read from files."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from hetgym.agents.lists.planner import ListPlanner
from hetgym.agents.play import SCHEDULING, Policy
from hetgym.agents.pretrained import load
from hetgym.agents.regions.planner import RegionPlanner
from hetgym.agents.rules import rule
from hetgym.baselines.window_executors import WindowExecutor
from hetgym.errors import ArtefactError, ConfigError
from hetgym.planning.baseline import Baseline
from hetgym.planning.decode import by_start, decode_in_order
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search.device_orders import forced
from hetgym.search.search import check_limits
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime
from hetgym.sim.runtime import runtime_name

LARGEST = 2_000  # Operators up to which place_v2_search leaves the classic model to the policy that was made for it


def gnn_v1(problem: Problem, runtime: str | Runtime = "classic", samples: int = 1, seed: int = 0) -> Schedule:
    """The pretrained list policy: a graph network looks at the problem once, and a list scheduler decodes what it says.

    Args:
        samples: number of plans; the best is returned. See :meth:`hetgym.agents.ListPlanner.plan`.
        seed: seed of the draws.

    Raises:
        ConfigError: no samples.
        OutOfMemory: the runtime enforces capacities, and no plan that fits was found.
    """
    return load("gnn-v1").plan(problem, runtime=runtime, samples=samples, seed=seed)


def place_v1(problem: Problem, passes: int = 4) -> Schedule:
    """The pretrained place policy, greedy: the best of an episode in each of a few orders of decisions.

    Args:
        passes: number of orders.

    Raises:
        ConfigError: fewer than one pass.
    """
    return load("place-v1").plan(problem, passes=passes)


def place_v1_search(problem: Problem, seed: int = 0, budget: int = 1_000_000, seconds: float | None = None) -> Schedule:
    """The pretrained place policy, improved by a large-neighbourhood search in which it reinserts operators.

    Args:
        budget: largest number of operators placed in trials.

    Raises:
        ConfigError: a negative budget, or a time that is not positive.
    """
    check_limits("place-v1-search", budget, seconds)
    return load("place-v1").plan(problem, seconds, operators=budget, seed=seed)


def place_v2(problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """The pretrained region policy: regions that it proposes are priced, some for each operator."""
    return load("place-v2").plan(problem, runtime=runtime)


def place_v2_search(
    problem: Problem,
    start: str | Schedule = "best",
    seed: int = 0,
    budget: int = 1_000_000,
    seconds: float | None = None,
    runtime: str | Runtime = "classic",
    executor: WindowExecutor | None = None,
) -> Schedule:
    """The pretrained region policy within a budget: region annealing whose regions it proposes.

    With a limit of time, problems of up to :data:`LARGEST` operators are left to :func:`place_v1_search` under the
    classic model, if they leave a choice of devices: whatever share of the time it had there, the rest was better spent
    on it, too.

    Args:
        start: the schedule that is improved, or the name of its scheduler; ``"best"``: the best of ``peft-again``,
            ``heft`` and ``single-device``.
        budget: largest number of operators launched in trials.
        executor: anneals the windows of large problems; by default on the threads of this process.

    Raises:
        UnknownName: no such scheduler.
        ConfigError: a negative budget, or a time that is not positive.
    """
    check_limits("place-v2-search", budget, seconds)
    small = problem.num_operators <= LARGEST
    if start == "best" and seconds is not None and small and as_runtime(runtime).is_classic and not forced(problem):
        return place_v1_search(problem, seed, budget, seconds)
    options: dict[str, Any] = {"runtime": runtime, "start": start, "seed": seed, "executor": executor}
    return load("place-v2").plan(problem, seconds, operators=budget, **options)


def doppler(problem: Problem) -> Schedule:
    """DOPPLER: one policy selects a ready operator, another one its device; imitation, then REINFORCE."""
    return _planned(load("doppler"), problem)


def giph(problem: Problem) -> Schedule:
    """GiPH: from a random placement 2n moves of one operator each, chosen by a graph network of all pairs."""
    return _planned(load("giph"), problem)


def l2d(problem: Problem) -> Schedule:
    """L2D: a graph isomorphism network dispatches; trained on job shops."""
    return _planned(load("l2d"), problem)


def gdp(problem: Problem) -> Schedule:
    """GDP: a network embeds the whole graph, and places all operators at once."""
    return _planned(load("gdp"), problem)


def readys(problem: Problem) -> Schedule:
    """READYS: a graph network dispatches by the descendants of what is ready; trained on tiled matrices."""
    return _planned(load("readys"), problem)


def slim(problem: Problem) -> Schedule:
    """SLIM: graph attention dispatches, self-labelled; trained on job shops."""
    return _planned(load("slim"), problem)


def placeto(problem: Problem) -> Schedule:
    """Placeto: one sweep over a random placement, in which a graph network moves each operator once."""
    return _planned(load("placeto"), problem)


def maskable_ppo_graph(problem: Problem) -> Schedule:
    """MaskablePPO: operators in order, each on the device that a graph network prefers."""
    return _planned(load("maskable-ppo-graph"), problem)


def slim_place(problem: Problem) -> Schedule:
    """SLIM for placement: operators in order, each on the device that a network of self-labelled samples prefers."""
    return _planned(load("slim-place"), problem)


def dispatch(problem: Problem) -> Schedule:
    """The dispatch rule: operators are inserted in the order of their starts in a run without noise."""
    return _dispatched(rule("dispatch"), problem)


def planned_dispatch(problem: Problem) -> Schedule:
    """The dispatch rule whose roll-outs follow a plan, which is improved before each decision."""
    return _dispatched(rule("planned-dispatch"), problem)


def gnn_dispatch_v1(problem: Problem) -> Schedule:
    """The pretrained dispatch policy: operators are inserted in the order of their starts in a run without noise."""
    return _planned(load("gnn-dispatch-v1"), problem)


def _planned(policy: Policy, problem: Problem) -> Schedule:
    """The plan of a policy's greedy episode."""
    if policy.kind == "dispatch":
        return _dispatched(policy, problem, policy.arguments.get("runtime", "classic"))
    made: Schedule = policy.plan(problem)
    return made


def _dispatched(policy: Any, problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
    """Operators inserted in the order of their starts in a run without noise."""
    trace = policy.play(problem=problem, runtime=runtime)["trace"]
    order = by_start(problem, trace.start, trace.finish)
    return decode_in_order(problem, trace.assignment, order, runtime=runtime)


def of_file(path: str) -> Baseline:
    """The row of a trained policy, named by its path; it plans for the runtime of the episodes that make its plans.

    Args:
        path: path of ``policy.safetensors`` as ``hetgym train`` writes it; or of an artefact's weights, with its card
            in a ``.json`` file beside it.

    Raises:
        ArtefactError: the file is not a readable policy, or the policy does not schedule problems.
        MissingExtra: the policy needs PyTorch, which is not installed.
    """
    policy = _policy(path)
    plan = "plan_for_runtime_by_file" if isinstance(policy, ListPlanner | RegionPlanner) else "plan_by_file"
    function, options = f"hetgym.agents.schedulers:{plan}", {"path": str(Path(path).resolve())}
    model = runtime_name(as_runtime(policy.arguments.get("runtime", "classic")))
    return Baseline(path, "policy", function, "trained policy", "", options, model=model)


def plan_by_file(problem: Problem, path: str) -> Schedule:
    """A trained policy read from a file, one greedy episode.

    Args:
        path: path of the policy's weights.
    """
    return _planned(_policy(path), problem)


def plan_for_runtime_by_file(problem: Problem, path: str, runtime: str | Runtime = "classic") -> Schedule:
    """A trained policy read from a file, which plans for the runtime.

    Args:
        path: path of the policy's weights.
    """
    planner = _policy(path)
    assert isinstance(planner, ListPlanner | RegionPlanner)
    return planner(problem, runtime)


def _policy(path: str) -> Policy:
    """The policy of a file; the file is read again only when it changes."""
    try:
        return _read(path, Path(path).stat().st_mtime_ns)
    except FileNotFoundError:
        raise ArtefactError(f"{path}: no such file") from None


@cache
def _read(path: str, changed: int) -> Policy:
    policy = load(path)
    if policy.kind not in SCHEDULING:
        raise ConfigError(f"{path}: a {policy.kind} policy does not schedule problems; it acts in its own environment")
    return policy
