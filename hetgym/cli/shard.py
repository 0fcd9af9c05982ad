"""``hetgym shard``: how a mesh of devices runs every operator of a model, each device on its part of the tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hetgym.cli.options import JsonOption, ModelOptions, words
from hetgym.errors import ConfigError

if TYPE_CHECKING:
    from hetgym.sharding import Mesh, ShardedPlan

LARGEST_MESH = 1 << 14  # Most ranks along an axis


def shard(
    model: Annotated[
        str,
        typer.Argument(
            help="A zoo name (see 'hetgym list graphs'), an .onnx, .pt2, .py or .json file; without --mesh, a sharding "
            "problem of the ASPLOS 2025 contest (.json or .json.gz)."
        ),
    ],
    mesh: Annotated[
        str,
        typer.Option(help="Ranks along each axis, outermost first, as in 2x4; auto:8 compares all meshes of 8 ranks."),
    ] = "",
    links: Annotated[
        str,
        typer.Option(
            help="Link of each axis: network between nodes; nvlink2 to nvlink5 or pcie3 to pcie5 within one. Default: "
            "nvlink3 for all."
        ),
    ] = "",
    board: Annotated[str, typer.Option(help="Device of every rank, a board such as A100 or H100.")] = "A100",
    optimizer: Annotated[
        str, typer.Option(help="sgd, momentum or adam: shard a training step. Default: inference.")
    ] = "",
    memory: Annotated[str, typer.Option(help="Most memory of a rank, as in 40GB. Default: that of the board.")] = "",
    budget: Annotated[str, typer.Option(help="Time to solve each mesh.")] = "10s",
    solver: Annotated[
        str, typer.Option(help="auto, trees, dual, greedy, or mip, which needs the extra 'exact'.")
    ] = "auto",
    as_json: JsonOption = False,
    *,
    options: ModelOptions,
) -> int:
    """Choose how a mesh of equal devices runs every operator of a model.

    Says what the plan costs by computation, resharding and reduction, which memory it takes at most and for what, and
    how far it is from a bound, beside data parallelism and Megatron's plan. The times of collectives are NCCL's curves.
    """
    from hetgym.cli.console import print_json, tell
    from hetgym.errors import HetgymError
    from hetgym.search.search import ended_by_interrupt

    if not mesh:
        if options != ModelOptions() or links or optimizer or memory:
            raise ConfigError("--mesh is missing: these options belong to a model on a mesh")
        return _problem(model, budget, solver, as_json)
    graph = options.load(model)
    found: list[ShardedPlan] = []
    refused: HetgymError | None = None
    with ended_by_interrupt() as interrupts:
        for one in _meshes(mesh, links, board):
            try:
                found.append(_plan(graph, one, optimizer, memory, budget, solver))
            except HetgymError as error:
                refused = error
            if interrupts.came:
                break
    if not found:
        assert refused is not None
        raise refused
    best = min(found, key=lambda plan: plan.report.cost)
    if interrupts.came:
        tell("interrupted: the search ended early; the plan is the best that it had found")
    if as_json:
        print_json(_figures(best) | {"meshes": [_figures(plan) for plan in found]})
    else:
        _print(best, found)
    return 130 if interrupts.came else 0


def _meshes(text: str, links: str, board: str) -> list[Mesh]:
    """The meshes that an option names."""
    from hetgym.sharding import Mesh, shapes

    auto, _, count = text.partition(":")
    sizes = [part.strip() for part in (count if auto == "auto" else text).lower().split("x")]
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= LARGEST_MESH for part in sizes):
        raise ConfigError(f"--mesh {text}: expected ranks along each axis, as in 2x4, or auto:8")
    if auto == "auto":
        if len(sizes) != 1:
            raise ConfigError(f"--mesh {text}: auto takes one number of ranks, as in auto:8")
        if links:
            raise ConfigError("--links belongs to one mesh, not to auto")
        return [Mesh(shape, device=board) for shape in shapes(int(sizes[0]))]
    return [Mesh(tuple(map(int, sizes)), links=tuple(words(links)), device=board)]


def _plan(graph: Any, mesh: Mesh, optimizer: str, memory: str, budget: str, solver: str) -> ShardedPlan:
    from hetgym._input.sizes import parse_size
    from hetgym.sharding import plan_sharding

    room = parse_size(memory) if memory else mesh.processor.usable_memory
    return plan_sharding(graph, mesh, optimizer=optimizer or None, memory=room, budget=budget, solver=solver)


def _figures(found: ShardedPlan) -> dict[str, Any]:
    """Figures of a plan, in SI units."""
    sharded, report, plan = found.sharded, found.report, found.plan
    return {
        "graph": sharded.graph.name,
        "mesh": list(sharded.mesh.shape),
        "links": list(sharded.mesh.links),
        "seconds": found.seconds,
        "parts": found.parts,
        "bound_s": None if plan is None or plan.bound is None else plan.bound * 1e-9,
        "solver": found.solver,
        "status": "optimal" if found.optimal else "feasible",
        "peak_bytes": report.peak,
        "peak_time": report.peak_time,
        "limit_bytes": sharded.problem.limit,
        "owners": [{"kind": kind, "name": name, "bytes": size} for kind, name, size in found.owners()],
        "classical": {
            name: {"seconds": other.cost * 1e-9 if not other.infinite else None, "peak_bytes": other.peak,
                   "fits": other.fits}
            for name, other in found.classical.items()
        },
        "unknown": list(sharded.unknown),
        "strategies": sharded.labels(report.choice),
    }  # fmt: skip


def _print(best: ShardedPlan, found: list[ShardedPlan]) -> None:
    """The plan in words and tables."""
    from hetgym._text import duration
    from hetgym.cli.console import print_table, say, tell
    from hetgym.cli.tables import table_of
    from hetgym.errors import size

    figures = _figures(best)
    say(f"{figures['graph']} on {'x'.join(map(str, figures['mesh']))}, {', '.join(figures['links'])}", "italic")
    parts = ", ".join(f"{name} {duration(value)}" for name, value in figures["parts"].items())
    say(f"{duration(best.seconds)}: {parts}", "bold")
    if figures["bound_s"] is not None:
        say(f"no plan takes less than {duration(figures['bound_s'])}; found by {best.solver}, {figures['status']}")
    limit = "" if figures["limit_bytes"] is None else f" of {size(figures['limit_bytes'])}"
    say(f"peak memory {size(best.report.peak)}{limit} at operator {best.report.peak_time}")
    table = table_of("at the peak", "kind", "memory", left=("at the peak", "kind"))
    for kind, name, amount in best.owners():
        table.add_row(name, kind, size(amount))
    print_table(table)
    table = table_of("plan", "mesh", "time", "peak memory", "fits", left=("plan", "mesh"))
    for plan in found:
        shape = "x".join(map(str, plan.sharded.mesh.shape))
        for name, report in {"best": plan.report, **plan.classical}.items():
            time = "impossible" if report.infinite else duration(report.cost * 1e-9)
            table.add_row(name, shape, time, size(report.peak), "yes" if report.fits else "no")
    print_table(table)
    if best.sharded.unknown:
        tell(f"replicated for want of a rule: {', '.join(best.sharded.unknown)}")


def _problem(path: str, budget: str, solver: str, as_json: bool) -> int:
    """Solve a problem of a file."""
    from hetgym.cli.console import print_json, say
    from hetgym.search.search import ended_by_interrupt
    from hetgym.sharding import load, solve, validate

    problem = load(path)
    with ended_by_interrupt() as interrupts:
        plan = solve(problem, budget, solver=solver)
    validate(problem, plan.choice)
    if as_json:
        document = {
            "problem": problem.name, "cost": plan.cost, "bound": plan.bound, "status": plan.status,
            "solver": plan.solver, "peak": plan.report.peak, "peak_time": plan.report.peak_time,
            "limit": problem.limit, "choice": plan.choice.tolist(),
        }  # fmt: skip
        print_json(document)
    else:
        limit = "" if problem.limit is None else f" of {problem.limit}"
        say(f"{problem.name}: cost {plan.cost}, {plan.status}, found by {plan.solver}", "bold")
        say(f"bound {plan.bound}; peak {plan.report.peak}{limit} at time {plan.report.peak_time}")
    return 130 if interrupts.came else 0
