"""The one change of a split that gains most."""

from hetgym.llm.search import Split, Stage, fits
from hetgym.llm.site import Site
from hetgym.llm.timing import decode_seconds

LEAST = 0.01  # Least share of the time that a change must save


def best_change(site: Site, split: Split) -> Split | None:
    """The fitting split of least decoding time that differs in one place; None if none is better than the split.

    A change moves the border between two stages, or the border before the first GPU; chooses anew which experts lie on
    the CPU; or brings all layers to the GPUs and leaves the experts of the first ones on the CPU.
    """
    tried = [*_borders(split), *_experts(site, split)]
    best, seconds = None, (1 - LEAST) * decode_seconds(site, split) if fits(site, split) else float("inf")
    for one in tried:
        if one != split and fits(site, one) and (own := decode_seconds(site, one)) < seconds:
            best, seconds = one, own
    return best


def _borders(split: Split) -> list[Split]:
    """Splits with one border moved; a stage may go."""
    stages, found = split.stages, []
    for k in range(len(stages) - 1):
        for border in range(stages[k].first, stages[k + 1].end + 1):
            moved = (stages[k]._replace(end=border), stages[k + 1]._replace(first=border))
            kept = (stage for stage in (*stages[:k], *moved, *stages[k + 2 :]) if stage.end > stage.first)
            found.append(split._replace(stages=tuple(kept)))
    return found


def _experts(site: Site, split: Split) -> list[Split]:
    """Splits with other experts on the CPU, over the same stages and over those of GPUs alone."""
    mixed = [i for i, size in enumerate(site.parts.experts.tolist()) if size]
    if not (mixed and site.rules.experts and site.cpu is not None):
        return []
    found = [Split(split.stages, tuple(mixed[:count])) for count in range(len(mixed) + 1)]
    found += [Split(split.stages, tuple(mixed[count:])) for count in range(len(mixed))]
    first, *others = split.stages
    if first.devices == (site.cpu,):
        gpus = others or [Stage(group, 0, first.end) for group in site.groups[:1]]
        alone = (gpus[0]._replace(first=0), *gpus[1:])
        found += [Split(alone, tuple(mixed[:count])) for count in range(len(mixed) + 1)] if gpus else []
    return found
