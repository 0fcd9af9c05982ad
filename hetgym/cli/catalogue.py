"""The catalogue: everything that hetgym knows by name, as rows for ``hetgym list``."""

from collections.abc import Callable
from typing import Any

from hetgym.errors import check_name

Entry = dict[str, Any]


def graphs() -> list[Entry]:
    """Zoo graphs at batch size 1, language models in one pass over a whole sequence, with their sizes."""
    from hetgym.graph import load_graph, zoo

    entries = []
    for name in [*zoo.names(), *zoo.language_models()]:
        graph = load_graph(name)
        sizes = {"operators": len(graph), "edges": len(graph.edges)}
        amounts = {"gflop": float(graph.flops.sum()) / 1e9, "weights_mb": graph.model_bytes / 1e6}
        entries.append({"name": name, **sizes, **amounts})
    return entries


def llms() -> list[Entry]:
    """Language models that are known by their numbers."""
    from hetgym.graph.model_names import load_language_model, model_names

    loaded = [(name, load_language_model(name)) for name in model_names()]
    return [
        {
            "name": name,
            "billion parameters": found.parameters / 1e9,
            "layers": len(found.layers),
            "experts": found.experts,
            "context": found.positions,
        }
        for name, found in loaded
    ]


def platforms() -> list[Entry]:
    """Platform presets."""
    from hetgym.platform import load_platform, platform_names

    entries = []
    for name in platform_names():
        platform = load_platform(name)
        devices = [f"{d.name} ({d.model})" if d.model else d.name for d in platform.devices]
        entries.append({"name": name, "devices": devices, "description": platform.description})
    return entries


def clusters() -> list[Entry]:
    """Cluster presets."""
    from hetgym.parallel import cluster_names, load_cluster

    loaded = [(name, load_cluster(name)) for name in cluster_names()]
    return [
        {
            "name": name,
            "GPUs": found.gpus,
            "pools": [f"{p.nodes} x {p.per_node} {p.device.model or p.name}" for p in found.pools],
        }
        for name, found in loaded
    ]


def decoders() -> list[Entry]:
    """Language models that training steps are planned for."""
    from hetgym.parallel import SIZES

    shown = ("blocks", "hidden", "heads", "sequence", "dtype")
    return [{"name": name, **{key: getattr(size, key) for key in shown}} for name, size in SIZES.items()]


def frameworks() -> list[Entry]:
    """Training programs on clusters."""
    from hetgym.parallel import FRAMEWORKS, Framework

    plain = Framework()
    return [
        {"name": name, "settings": ", ".join(f"{k} {v}" for k, v in found.__dict__.items() if v != getattr(plain, k))}
        for name, found in FRAMEWORKS.items()
    ]


def planners() -> list[Entry]:
    """Planners of training steps."""
    from hetgym.baselines.parallel import PLANNERS

    return [{"name": name, "summary": (f.__doc__ or "").split("\n")[0]} for name, f in PLANNERS.items()]


def schedulers() -> list[Entry]:
    """Registered schedulers."""
    from hetgym.planning import rows

    shown = ("kind", "plans_for", "complexity", "summary", "citation")
    return [
        {"name": row.name, "also": list(row.aliases), **{key.replace("_", " "): getattr(row, key) for key in shown}}
        for row in rows()
    ]


def suites() -> list[Entry]:
    """Suites of problems."""
    from hetgym.workloads import load_suite, suite_names

    loaded = [load_suite(name) for name in suite_names()]
    return [{"name": suite.name, "problems": len(suite), "summary": suite.summary} for suite in loaded]


def runtimes() -> list[Entry]:
    """Runtime presets."""
    from hetgym.bench.job import explain
    from hetgym.sim import PRESETS

    clauses = {name: explain(switches) for name, switches in PRESETS.items()}
    return [{"name": name, "summary": f"{clause[0].upper()}{clause[1:]}."} for name, clause in clauses.items()]


def costs() -> list[Entry]:
    """Shipped cost models."""
    from hetgym.costs import artefact

    found = []
    for name in artefact.names():
        header, _ = artefact.load(artefact.locate(name))
        card = header.get("card", {})
        found.append({"name": name, "model": header.get("model", ""), "source": str(card.get("source", ""))})
    return found


def datasets() -> list[Entry]:
    """Shipped measurements."""
    from hetgym.measurements import Dataset, dataset

    loaded = [(name, Dataset.load(name)) for name in dataset.names()]
    return [
        {"name": name, "rows": len(found.table), "device": found.device.model, "notes": found.notes}
        for name, found in loaded
    ]


def recipes() -> list[Entry]:
    """Shipped training recipes."""
    from hetgym.agents.recipe import load_recipe, names

    loaded = [(name, load_recipe(name)) for name in names()]
    return [
        {"name": name, **{key: getattr(found, key) for key in ("algorithm", "env", "steps")}}
        | {"summary": found.description}
        for name, found in loaded
    ]


def policies() -> list[Entry]:
    """Pretrained policies, and rules, which nothing has trained."""
    from hetgym.agents.play import runtimes_of
    from hetgym.agents.pretrained import card, names
    from hetgym.agents.rules import RULES, rule
    from hetgym.envs.core.kinds import IDS

    kinds, cards = {environment: kind for kind, environment in IDS.items()}, {name: card(name) for name in names()}
    made = [
        {
            "name": name,
            "kind": "policy",
            "env": found["env"],
            "decides": kinds[found["env"]],
            "trained for": list(runtimes_of(found)),
            "algorithm": found["recipe"]["algorithm"],
            "summary": found["recipe"]["description"],
        }
        for name, found in cards.items()
    ]
    by_hand = [
        {"name": name, "kind": "rule", "env": rule(name).card["env"], "decides": chosen.kind, "summary": chosen.summary}
        for name, chosen in RULES.items()
    ]
    return made + [{**dict.fromkeys(made[0], ""), "trained for": [], **entry} for entry in by_hand]


CATALOGUES: dict[str, Callable[[], list[Entry]]] = {
    "graphs": graphs, "llms": llms, "platforms": platforms, "schedulers": schedulers, "suites": suites,
    "runtimes": runtimes,
    "costs": costs, "datasets": datasets, "recipes": recipes, "policies": policies, "clusters": clusters,
    "decoders": decoders, "frameworks": frameworks, "planners": planners,
}  # fmt: skip
"""Name of a catalogue -> function that gives its rows."""


def entries(what: str) -> list[Entry]:
    """The rows of one catalogue.

    Raises:
        UnknownName: no such catalogue.

    >>> [entry["name"] for entry in entries("runtimes")][:2]
    ['classic', 'links']
    """
    check_name("catalogue", what, CATALOGUES)
    return CATALOGUES[what]()
