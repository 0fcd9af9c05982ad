"""The table of formats, and the one function that writes any of them."""

import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from hetgym._input.files import as_path, is_file, write_bytes
from hetgym._input.json import parse
from hetgym._types import IntArray
from hetgym.bench.plan import plan_document
from hetgym.errors import ConfigError, shown, unknown_name
from hetgym.export.device_map import export_device_map, unknown_weights
from hetgym.export.llama_cpp import export_llama_cpp
from hetgym.export.module_weights import known_weights
from hetgym.export.onnx_runtime import export_onnx_runtime
from hetgym.export.pipelining import export_pipelining, export_stages
from hetgym.export.placement import Placement, PlanLost
from hetgym.parallel import ParallelPlan
from hetgym.platform import Platform
from hetgym.problem import Problem
from hetgym.schedule import Schedule, validate
from hetgym.sim import Trace, simulate

SCHEMA = "plan.schema.json"


@dataclass(frozen=True)
class Format:
    """A form of plans."""

    name: str  # as in `--export name`
    file: str  # default name of its file
    holds: str  # what of a plan it holds, for listings
    whole: bool = False  # whether it takes whole layers and modules only


FORMATS = (
    Format("json", "plan.json", "everything: devices and times of operators, or stages of training steps."),
    Format("onnxruntime", "onnxruntime.json", "the device of each node, at most one of a kind."),
    Format("accelerate", "device_map.json", "the device of each PyTorch module: GPUs, or the CPU.", True),
    Format("llama.cpp", "llama.cpp.args", "the device of each layer and weight of a language model."),
    Format("pipelining", "pipelining.json", "the modules at which torch.distributed.pipelining begins a stage."),
)
"""The forms of plans."""


def find_format(name: str) -> Format:
    """The form of a name; UnknownName if there is none."""
    for known in FORMATS:
        if known.name == name:
            return known
    raise unknown_name("format of plans", name, [known.name for known in FORMATS])


def written_files(format: str, file: Path) -> list[Path]:
    """The files that an export to a path writes, the copy of a model last."""
    return [file.with_suffix(".json"), file] if _annotates(format, file) else [file]


def plan_schema() -> dict[str, Any]:
    """The JSON schema of plans, draft 2020-12: of operators, and of training steps."""
    text = files("hetgym.export").joinpath(SCHEMA).read_text("utf-8")
    schema: dict[str, Any] = parse(text, SCHEMA, ConfigError)
    return schema


def export_plan(
    plan: Schedule | Trace | ParallelPlan,
    format: str,
    path: str | os.PathLike[str] | None = None,
    *,
    problem: Problem | None = None,
    platform: Platform | None = None,
    model: str | os.PathLike[str] | None = None,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    weights: Iterable[str] | None = None,
    layers: Sequence[str] | None = None,
    backend: str = "CUDA",
) -> dict[str, Any]:
    """Put a plan into the form of another program.

    Args:
        plan: a schedule with its problem, a trace, or a plan of a training step.
        format: name of a form of :data:`FORMATS`.
        path: file to write; None writes none. For ``onnxruntime`` a path that ends in ``.onnx`` takes a copy of the
            model with annotated nodes, and the session options go to the ``.json`` file beside it. For ``llama.cpp``
            the file holds the words of the command line.
        problem: the problem of a schedule.
        platform: its devices; without it, every accelerator is taken for a GPU.
        model: name or file from which the graph was loaded: the ONNX file for ``onnxruntime``, a ``.pt2`` file, which
            names its weights, for ``accelerate``. Names of the zoo are known by the problem.
        batch: batch size with which the ONNX file was imported.
        dims: sizes of its named axes.
        weights: for ``accelerate``, names of all parameters and buffers of the module, as in ``module.state_dict()``
            and ``module.named_buffers()``; needed unless the plan has one device or the model is known.
        layers: for ``pipelining`` of a training step, the path of the submodule that begins each layer; those of Llama
            in transformers by default.
        backend: for ``llama.cpp``, the first part of the names of GPUs.

    Returns:
        What the file holds; for ``llama.cpp`` the words are ``"args"``.

    Raises:
        ConfigError: the form cannot hold the plan, and the message says what would be lost; or an argument is missing
            or of another type, or the file cannot be written, or is the model itself.
        InvalidSchedule: the schedule is not one of the problem.
        ProblemError: not a problem.
        UnknownName: no such form.

    >>> import hetgym
    >>> problem = hetgym.Problem.build(hetgym.load_graph("gpt2"), hetgym.load_platform("cpu-gpu"))
    >>> schedule = hetgym.baselines.get("single-device")(problem)
    >>> export_plan(schedule, "accelerate", problem=problem)
    {'': 0}
    """
    find_format(format)
    file = None if path is None else as_path(path, "an exported plan", ConfigError)
    if model is not None:
        as_path(model, "the model of a plan", ConfigError)
    if platform is not None and not isinstance(platform, Platform):
        raise ConfigError(f"platform must be a hetgym.Platform, as hetgym.load_platform returns, not {shown(platform)}")
    weights, layers = _names("weights", weights), _names("layers", layers)
    if file is not None and model is not None and any(is_file(own, model) for own in written_files(format, file)):
        raise ConfigError(f"{os.fspath(model)}: an export would overwrite the model; give it another path")
    if isinstance(plan, ParallelPlan):
        _check_training(format)
        document = plan.to_dict() if format == "json" else export_stages(plan, layers)
    elif format == "json":
        known = _problem(plan, problem)
        trace = plan if isinstance(plan, Trace) else simulate(known, plan, plan.model)
        title = platform.name if platform else ""
        document = plan_document(trace, os.fspath(model or ""), title, batch, problem=problem)
    else:
        known = _problem(plan, problem)
        if isinstance(plan, Schedule):
            validate(known, plan, memory=False)
        given = platform, model, batch, dims, weights, backend
        document = _of_operators(known, plan.assignment, format, file, *given)
    if file is not None:
        args = document["args"] if format == "llama.cpp" else None
        text = shlex.join(args) if args is not None else json.dumps(document, indent=1)
        write_bytes(written_files(format, file)[0], f"{text}\n".encode(), ConfigError)
    return document


def check_export(
    format: str,
    problem: Problem | None,
    *,
    platform: Platform | None = None,
    model: str | os.PathLike[str] | None = None,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
) -> None:
    """Refuse (ConfigError) a form that cannot hold any plan of the problem, before a plan is searched for.

    The problem is None for a training step; see :func:`export_plan` for the other arguments.
    """
    if problem is None:
        _check_training(format)
    elif format != "json":
        one_device = np.zeros(problem.num_operators, np.int32)
        with suppress(PlanLost):  # another plan may do
            _of_operators(problem, one_device, format, None, platform, model, batch, dims)
        placement = Placement.of(problem, one_device, platform, model)
        if format == "accelerate" and not placement.language_model and known_weights(problem.name, model) is None:
            raise ConfigError(f"{format} {unknown_weights(placement)}")


def _names(what: str, names: Iterable[str] | None) -> list[str] | None:
    """The names of an argument; ConfigError about anything other than a sequence of names."""
    if names is None:
        return None
    found = list(names) if isinstance(names, Iterable) else []
    if not isinstance(names, Iterable) or isinstance(names, str) or not all(isinstance(name, str) for name in found):
        raise ConfigError(f"{what} are a sequence of names, not {shown(names)}")
    return found


def _annotates(format: str, file: Path | None) -> bool:
    return format == "onnxruntime" and file is not None and file.suffix == ".onnx"


def _of_operators(
    problem: Problem,
    assignment: IntArray,
    format: str,
    file: Path | None,
    platform: Platform | None,
    model: str | os.PathLike[str] | None,
    batch: int | None,
    dims: Mapping[str, int] | None,
    weights: Iterable[str] | None = None,
    backend: str = "CUDA",
) -> dict[str, Any]:
    """The document of a placement of operators; the arguments are those of :func:`export_plan`."""
    placement = Placement.of(problem, assignment, platform, model)
    annotated = file if _annotates(format, file) else None
    make: dict[str, Callable[[], dict[str, Any]]] = {
        "onnxruntime": lambda: export_onnx_runtime(placement, model, batch, dims, annotated),
        "accelerate": lambda: export_device_map(
            placement, known_weights(problem.name, model) if weights is None else weights
        ),
        "llama.cpp": lambda: export_llama_cpp(placement, backend),
        "pipelining": lambda: export_pipelining(placement),
    }
    return make[format]()


def _check_training(format: str) -> None:
    """Refuse (ConfigError) a form that holds no plan of a training step."""
    if format not in ("json", "pipelining"):
        raise ConfigError(
            f"{format} holds no plan of a training step: its stages, replicas and micro-batches would be lost; "
            "json and pipelining hold them"
        )


def _problem(plan: object, problem: Problem | None) -> Problem:
    """The problem of a plan; ConfigError if there is none."""
    if isinstance(plan, Trace):
        return plan.problem
    if not isinstance(plan, Schedule):
        raise ConfigError(f"a plan is a Schedule, a Trace or a ParallelPlan, not {shown(plan)}")
    if problem is None:
        raise ConfigError("a schedule is exported with its problem: export_plan(schedule, format, problem=problem)")
    return problem
