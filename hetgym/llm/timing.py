"""Times of a split: a token decoded, by the simulator, and a prompt read."""

import numpy as np

from hetgym.costs.decoding import MIXTURE_PEAK, prompt_seconds
from hetgym.llm.search import Split, Stage
from hetgym.llm.site import Site
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import simulate

BATCH = 2048  # Tokens of a prompt that programs such as llama.cpp submit at once


def decode_seconds(site: Site, split: Split) -> float:
    """Time of a step of decoding [s]: the chain of layers, simulated under ``links``; a group is one device of it."""
    size = 4.0 * site.parts.hidden * site.load.sequences
    cost: list[float] = []
    device: list[int] = []
    moved, cpu = split.moved(len(site.parts.dense)), -1 if site.cpu is None else site.cpu
    there = ([], []) if site.cpu is None else [times.tolist() for times in site.cpu_times]
    for stage in split.stages:
        if stage.devices == (cpu,):
            cost += there[0][stage.first : stage.end]
            device += [cpu] * (stage.end - stage.first)
        else:
            alone, chosen = site.layer_times(stage.devices)
            for i in range(stage.first, stage.end):
                cost.append(alone[i] + (1.0 - moved[i]) * chosen[i])
                device.append(stage.devices[0])
                if moved[i]:
                    cost.append(moved[i] * there[1][i])
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
    """Time to read a prompt [s]: its steps pass through the stages like parts through a line.

    The line runs empty after each :data:`BATCH`.
    """
    done = np.zeros(len(split.stages))  # when each stage has finished the steps so far
    for first in range(0, tokens, site.load.step):
        if first % BATCH < site.load.step:
            done[:] = done.max()
        end = min(tokens, first + site.load.step)
        for k, stage in enumerate(split.stages):
            before = done[k - 1] if k else 0.0
            done[k] = max(done[k], before) + _stage_time(site, split, stage, first, end)
    return float(done.max())


def _stage_time(site: Site, split: Split, stage: Stage, first: int, end: int) -> float:
    """Time of some tokens of a prompt on a stage [s]; weights on the CPU are copied to a GPU if there is one."""
    parts, ways, tokens, cpu = site.parts, len(stage.devices), end - first, site.cpu
    layers = slice(stage.first, stage.end)
    flops = tokens * float((parts.dense_flops + parts.chosen_flops / MIXTURE_PEAK)[layers].sum())
    flops += parts.head_flops if stage.end == len(parts.dense) else 0.0
    attention = tokens * float(site.attention((first + end) / 2)[layers].sum())

    def computed(k: int, ways: int = 1) -> float:
        return prompt_seconds(site.platform[k], flops / ways, parts.hidden, attention / ways)

    if cpu is not None and stage.devices == (cpu,):
        gpu = next((group[0] for group in site.groups), cpu)
        moved = float((parts.dense + parts.experts)[layers].sum())
        copied = max(site.transfer(cpu, gpu, moved), computed(gpu)) if gpu != cpu else np.inf
        return min(copied, computed(cpu))
    slowest = max(computed(k, ways) for k in stage.devices)
    there = float((parts.experts * split.moved(len(parts.dense)))[layers].sum())
    if there and cpu is not None:
        slowest += site.transfer(cpu, stage.devices[0], there)
    if ways > 1:
        size = 4.0 * parts.hidden * tokens
        slowest += 2 * (stage.end - stage.first) * site.transfer(stage.devices[0], stage.devices[1], size)
    return slowest
