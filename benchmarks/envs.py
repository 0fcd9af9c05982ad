"""Steps per second of the environments with random legal actions, compared with well-known environments.

    python benchmarks/envs.py [--json FILE] [--seconds 3] [--warm-up 20] [--only fixed random peers]
                              [--ids ID …] [--pools NAME …] [--million [ID …]]

*Fixed*: HetSchedule-v0 on one problem of 100 or 250 operators on four devices, with three inputs per operator.
*Random*: every environment on the random problems that it draws without arguments: from the pool that vector
environments have by default, from one that is not renewed, and with a new problem for each episode; HetSplit-v0 also on
one graph. On pools environments are stepped for ``--warm-up`` seconds before they are timed: until all problems have
been drawn, the time in which they are made would be measured, too. ``--pools`` takes some of these sources only.

*Scalar* is ``gym.make`` without the checker that Gymnasium adds for debugging; *lanes* are 64 of ``gym.make_vec``.
Resets and final infos are included. Times are processor time of this process, in which nothing runs beside the
environment, so that they hold on a machine that others use as well; the wall clock stands beside them. Lanes with
completions run on as many threads as there are cores, or as ``OMP_NUM_THREADS`` says. Processor time counts all
threads, so only the wall clock of an idle machine shows what they gain. ``--million`` takes a million steps in every
environment, and prints the process's growth.
Peers in the same run: CartPole-v1 (scalar and Gymnasium's own 64 lanes), and JSSEnv (a job-shop environment; ta01)
where it is installed.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from _common import command_line, random_problem, save, show

import hetgym  # noqa: F401

LANES = 64
POOLS: dict[str, dict[str, int | None]] = {
    "the default pool": {"pool": 256},
    "a fixed pool": {"pool": 256, "pool_plays": None},
    "new problems": {"pool": None},
}
"""Where random problems come from, and the arguments for it; the first is the default of vector environments."""

ONE: dict[str, dict[str, int | None]] = {"one graph": {"pool": 1, "pool_plays": None}}
"""The same for HetSplit-v0 alone."""

RANDOM: tuple[tuple[str, dict[str, Any]], ...] = (
    ("HetSchedule-v0", {"observation": "candidates", "completion": "off"}),
    ("HetSchedule-v0", {"observation": "candidates"}),
    ("HetSchedule-v0", {"observation": "graph", "completion": "off"}),
    ("HetDispatch-v0", {"observation": "candidates", "completion": "off"}),
    ("HetDispatch-v0", {"observation": "candidates"}),
    ("HetSplit-v0", {}),
    ("HetPipeline-v0", {}),
    ("HetImprove-v0", {"observation": "flat", "gains": False}),
    ("HetImprove-v0", {"observation": "flat"}),
)
"""Environment and arguments."""

LOOKS_AHEAD = {"HetSchedule-v0": "eft+oct", "HetDispatch-v0": "eft+oct", "HetImprove-v0": "gains of 16 moves"}
"""What each action would lead to, as environments show it by default."""

CLOCKS = {"steps_per_second": "processor time", "wall": "the wall clock"}
"""Keys of a row's speeds, and the clocks that they go by."""

COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "environment": lambda row: row["environment"],
    "problems": lambda row: str(row["problems"]),
    "observation": lambda row: row["observation"],
    "completion": lambda row: row["completion"],
    "kind": lambda row: row["kind"],
    "steps / s": lambda row: f"{row['steps_per_second']:,.0f}",
    "on the wall": lambda row: f"{row['wall']:,.0f}",
}


class Watch:
    """Sums up processor and wall time of what runs between :meth:`go` and :meth:`stop`."""

    def __init__(self) -> None:
        self.processor = self.wall = 0.0

    def go(self) -> None:
        """Begin to measure."""
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """Add what has passed since :meth:`go`."""
        self.processor += time.process_time() - self._processor
        self.wall += time.perf_counter() - self._wall

    def speeds(self, steps: int) -> dict[str, float]:
        """Steps per second of processor time, and of the wall clock."""
        return {"steps_per_second": steps / self.processor, "wall": steps / self.wall}


def scalar(env: gym.Env, choose: Callable[[Any, Any], Any], budget: float, warm_up: float = 0.0) -> dict[str, float]:
    """Steps per second of one environment, without the time to choose actions, after some seconds that do not count."""
    seen, info = env.reset(seed=0)
    done = truncated = False
    while not (done or truncated):  # kernels are compiled when they are first needed, some at the end of an episode
        seen, _, done, truncated, info = env.step(choose(seen, info))
    seen, info = env.reset()
    for seconds in (warm_up, budget):
        steps, watch, end = 0, Watch(), time.perf_counter() + seconds
        while time.perf_counter() < end:
            action = choose(seen, info)
            watch.go()
            seen, _, done, truncated, info = env.step(action)
            if done or truncated:
                seen, info = env.reset()
            watch.stop()
            steps += 1
    return watch.speeds(steps)


def lanes(
    envs: gym.vector.VectorEnv, choose: Callable[[Any, Any], Any], budget: float, warm_up: float = 0.0
) -> dict[str, float]:
    """Steps per second of all lanes of a vector environment together, after some seconds that do not count."""
    seen, info = envs.reset(seed=0)
    ended = False
    while not ended:  # as above; the next step begins an episode
        seen, _, over, _, info = envs.step(choose(seen, info))
        ended = over.any()
    seen, _, _, _, info = envs.step(choose(seen, info))
    for seconds in (warm_up, budget):
        steps, watch, end = 0, Watch(), time.perf_counter() + seconds
        while time.perf_counter() < end:
            actions = choose(seen, info)
            watch.go()
            seen, _, _, _, info = envs.step(actions)
            watch.stop()
            steps += envs.num_envs
    return watch.speeds(steps)


def old_style(env: Any, rng: np.random.Generator, budget: float) -> dict[str, float]:
    """Steps per second of an environment with the interface before Gymnasium, such as JSSEnv."""
    seen = env.reset()
    steps, watch, end = 0, Watch(), time.perf_counter() + budget
    while time.perf_counter() < end:
        action = int(rng.choice(np.flatnonzero(seen["action_mask"])))
        watch.go()
        seen, _, done, *_ = env.step(action)
        if done:
            seen = env.reset()
        watch.stop()
        steps += 1
    return watch.speeds(steps)


def legal(rng: np.random.Generator) -> tuple[Callable[[Any, Any], int], Callable[[Any, Any], Any]]:
    """Functions that draw a random legal action from one mask, and from one mask per lane."""

    def one(_: Any, info: Any) -> int:
        return int(rng.choice(np.flatnonzero(info["action_mask"])))

    def many(_: Any, info: Any) -> Any:
        return np.where(info["action_mask"], rng.random(info["action_mask"].shape), -1.0).argmax(axis=1)

    return one, many


def ours(budget: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    """HetSchedule-v0 and HetDispatch-v0."""
    rows = []
    one, many = legal(rng)
    for operators in (100, 250):
        problem = random_problem(operators, 4)
        for name in ("HetSchedule-v0", "HetDispatch-v0"):
            for observation in ("graph", "candidates"):
                for completion in ("off", "eft+oct"):
                    arguments = {"problem": problem, "observation": observation, "completion": completion}
                    for kind in ("scalar", "lanes"):
                        if kind == "scalar":
                            env = gym.make(name, disable_env_checker=True, **arguments)
                            speed = scalar(env, one, budget)
                        else:
                            speed = lanes(gym.make_vec(name, num_envs=LANES, **arguments), many, budget)
                        rows.append(
                            {
                                "environment": name,
                                "problems": f"{operators} operators",
                                "observation": observation,
                                "completion": completion,
                                "kind": kind,
                                **speed,
                            }
                        )
    return rows


def drawn(
    budget: float, rng: np.random.Generator, warm_up: float, ids: Sequence[str], pools: Sequence[str]
) -> list[dict[str, Any]]:
    """The environments of some ids on random problems of some sources."""
    rows = []
    one, many = legal(rng)
    for name, arguments in (row for row in RANDOM if row[0] in ids):
        splits = name == "HetSplit-v0"
        sources = {problems: pool for problems, pool in (POOLS | ONE).items() if problems in pools}
        for problems, pool in sources.items():
            if problems in ONE and not splits:
                continue
            before = warm_up if pool["pool"] else 0.0
            env = gym.make(name, disable_env_checker=True, **pool, **arguments)
            speeds = {
                "scalar": scalar(env, one, budget, before if splits else 0.0),
                "lanes": lanes(gym.make_vec(name, num_envs=LANES, **pool, **arguments), many, budget, before),
            }
            rows += [
                {
                    "environment": name,
                    "problems": problems,
                    "observation": arguments.get("observation", "graph"),
                    "completion": arguments.get("completion", LOOKS_AHEAD.get(name, "-"))
                    if arguments.get("gains", True)
                    else "off",
                    "kind": kind,
                    **speed,
                    "ratio": {key: speed[key] / speeds["scalar"][key] for key in CLOCKS},
                }
                for kind, speed in speeds.items()
            ]
    return rows


def peers(budget: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    """CartPole, and JSSEnv where it is installed."""
    cart = gym.make("CartPole-v1", disable_env_checker=True)
    vector = gym.make_vec("CartPole-v1", num_envs=LANES, vectorization_mode="vector_entry_point")
    found = {
        ("CartPole-v1", "scalar"): scalar(cart, lambda *_: int(rng.integers(2)), budget),
        ("CartPole-v1", "lanes"): lanes(vector, lambda *_: rng.integers(2, size=LANES), budget),
    }
    try:
        from JSSEnv.envs.jss_env import JssEnv  # noqa: PLC0415

        found["JSSEnv, ta01", "scalar"] = old_style(JssEnv(), rng, budget)
    except Exception as reason:  # an old package, whose import may fail
        print(f"JSSEnv was not run: {reason}")
    return [
        {
            "environment": name,
            "problems": "-",
            "observation": "-",
            "completion": "-",
            "kind": kind,
            **speed,
        }
        for (name, kind), speed in found.items()
    ]


def rounded(speed: float) -> str:
    """Steps per second to three digits, in groups of three."""
    return f"{float(f'{speed:.3g}'):,.0f}".replace(",", " ")


def lanes_by_source(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Steps per second of lanes by the wall clock, a row for each environment and a column for each source."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        if row["kind"] == "lanes" and "ratio" in row:
            key = tuple(row[name] for name in ("environment", "observation", "completion"))
            line = found.setdefault(key, dict(zip(("environment", "observation", "completion"), key, strict=True)))
            line[row["problems"]] = rounded(row["wall"])
    return list(found.values())


def growth(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Growth of the process's memory over a million steps of 64 lanes of new problems, without the first tenth."""
    envs = gym.make_vec(name, num_envs=LANES, **arguments)
    _, many = legal(np.random.default_rng(0))
    seen, info = envs.reset(seed=0)
    sizes = []
    for step in range(1_000_000 // LANES):
        seen, _, _, _, info = envs.step(many(seen, info))
        if step % (100_000 // LANES) == 0:
            sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return {"name": name, "first_tenth_mib": sizes[1], "end_mib": sizes[-1]}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--warm-up", type=float, default=20.0, help="seconds before lanes on a pool are timed")
    parser.add_argument("--only", nargs="+", choices=("fixed", "random", "peers"), default=("fixed", "random", "peers"))
    ids = sorted({name for name, _ in RANDOM})
    parser.add_argument("--ids", nargs="+", choices=ids, default=ids, help="environments on random problems")
    parser.add_argument("--pools", nargs="+", choices=[*POOLS, *ONE], default=[*POOLS, *ONE], help="where from")
    parser.add_argument("--million", nargs="*", metavar="ID", help="also step a million times, for the memory")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    if "fixed" in options.only:
        rows += ours(options.seconds, rng)
    if "random" in options.only:
        rows += drawn(options.seconds, rng, options.warm_up, options.ids, options.pools)
    if "peers" in options.only:
        rows += peers(options.seconds, rng)
    show("Steps a second, random legal actions", rows, COLUMNS)
    if "random" in options.only:
        found = lanes_by_source(rows)
        names = ("environment", "observation", "completion", *dict.fromkeys(key for row in found for key in row))
        show("Speed", found, {name: lambda row, name=name: row.get(name, "-") for name in dict.fromkeys(names)})
    for key, clock in CLOCKS.items():
        wide = [row["ratio"][key] for row in rows if row["kind"] == "lanes" and "ratio" in row]
        if wide:
            print(f"lanes on random problems by {clock}: {min(wide):.1f} to {max(wide):.1f} times scalar")
    if options.million is not None:
        first = {name: (name, arguments) for name, arguments in reversed(RANDOM)}
        for name, arguments in first.values():
            if name in (options.million or ids):
                found = growth(name, arguments)
                print("{name}, a million steps: {first_tenth_mib:.0f} -> {end_mib:.0f} MiB".format(**found), flush=True)
    save(options.json, "envs", rows)


if __name__ == "__main__":
    main()
