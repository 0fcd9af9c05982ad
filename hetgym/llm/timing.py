"""Times of a split: a token decoded, by the simulator, and a prompt read."""

import numpy as np

from hetgym._sums import summed
from hetgym.costs.decoding import MIXTURE_PEAK, prompt_seconds
from hetgym.llm.search import Split, Stage
from hetgym.llm.site import Site
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import simulate


def decode_seconds(site: Site, split: Split) -> float:
    """Time of a step of decoding [s]: the chain of layers, simulated under ``links``; a group is one device of it."""
    size = 4.0 * site.parts.hidden * site.load.sequences
    cost: list[float] = []
    device: list[int] = []
    away, cpu = set(split.away), -1 if site.cpu is None else site.cpu
    for stage in split.stages:
        if stage.devices == (cpu,):
            times = site.cpu_times()[0]
            cost += times[stage.first : stage.end].tolist()
            device += [cpu] * (stage.end - stage.first)
        else:
            alone, chosen = site.layer_times(stage.devices)
            for i in range(stage.first, stage.end):
                cost.append(alone[i] + (0.0 if i in away else chosen[i]))
                device.append(stage.devices[0])
                if i in away:
                    cost.append(site.cpu_times()[1][i])
                    device.append(cpu)
    last = split.stages[-1].devices
    cost.append(site.head_time(last))
    device.append(last[0])
    return _simulated(site, cost, device, size)


def _simulated(site: Site, cost: list[float], device: list[int], size: float) -> float:
    """Makespan of a chain of operators [s]."""
    n, d = len(cost), len(site.platform)
    table = np.full((n, d), np.inf)
    table[np.arange(n), device] = cost
    edges = [(i, i + 1, size) for i in range(n - 1)]
    network = np.array(site.platform.latency), np.array(site.platform.bandwidth)
    problem = Problem.from_arrays(table, edges, *network, output_bytes=size, name="decoding")
    order = [[i for i, own in enumerate(device) if own == k] for k in range(d)]
    return float(simulate(problem, Schedule(assignment=device, order=order), runtime="links").makespan)


def prompt_time(site: Site, split: Split, tokens: int) -> float:
    """Time to read a prompt [s]: steps of some tokens pass through the stages like parts through a line."""
    steps = -(-tokens // site.load.step)
    each = [_stage_time(site, split, stage, min(tokens, site.load.step)) for stage in split.stages]
    return summed(each) + (steps - 1) * max(each)


def _stage_time(site: Site, split: Split, stage: Stage, tokens: int) -> float:
    """Time of a step of a prompt on a stage [s]; weights on the CPU are copied to a GPU if there is one."""
    parts, ways = site.parts, len(stage.devices)
    layers = slice(stage.first, stage.end)
    flops = tokens * float((parts.dense_flops + parts.chosen_flops / MIXTURE_PEAK)[layers].sum())
    flops += parts.head_flops if stage.end == len(parts.dense) else 0.0
    gpus = [k for group in site.groups for k in group]
    if site.cpu is not None and stage.devices == (site.cpu,):
        if not gpus:
            return prompt_seconds(site.platform[site.cpu], flops, parts.hidden)
        moved = float((parts.dense + parts.experts)[layers].sum())
        copied = max(
            site.transfer(site.cpu, gpus[0], moved), prompt_seconds(site.platform[gpus[0]], flops, parts.hidden)
        )
        return min(copied, prompt_seconds(site.platform[site.cpu], flops, parts.hidden))
    slowest = max(prompt_seconds(site.platform[k], flops / ways, parts.hidden) for k in stage.devices)
    away = [i for i in split.away if stage.first <= i < stage.end]
    if away and site.cpu is not None:
        slowest += site.transfer(site.cpu, stage.devices[0], float(parts.experts[away].sum()))
    if ways > 1:
        size = 4.0 * parts.hidden * tokens
        slowest += 2 * (stage.end - stage.first) * site.transfer(stage.devices[0], stage.devices[1], size)
    return slowest
