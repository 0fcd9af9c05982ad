"""Accelerate: ``device_map``, from paths of modules to devices.

Source: Hugging Face Accelerate, "Big Model Inference" and ``accelerate.dispatch_model``: keys are paths of modules, a
module covers its submodules, values are GPU numbers, ``"cpu"`` or other devices of PyTorch. A module that is named
fetches its inputs; what a module that is not named does between its submodules runs where its inputs lie. Beside GPUs,
modules on ``"cpu"`` run on the first GPU, to which ``dispatch_model`` copies their weights at each call.
"""

from collections.abc import Iterable, Mapping

from hetgym._text import counted
from hetgym.errors import ConfigError
from hetgym.export.placement import Placement, Target, around, called_module, lost, under

PROGRAM = "Accelerate"


def export_device_map(placement: Placement, weights: Iterable[str] | None = None) -> dict[str, int | str]:
    """Path of each of the largest modules that run on one device -> number of a GPU, ``"cpu"`` or ``"npu:0"``.

    Language models of the zoo have the paths of ``transformers``; modules before their layers, such as rotary
    tables, go with the table of words. For other modules, ``weights`` are names of parameters and buffers, as in
    ``module.state_dict()``, to which ``module.named_buffers()`` adds those that are not saved. One that belongs to a
    module of several devices goes where the operators that this module runs itself read weights. Those that no operator
    of the plan reads, such as position embeddings that were folded into constants, go to the first device.

    Raises:
        ConfigError: operators have no modules, Accelerate would run one on a device other than the plan's, operators
            on several devices may read a weight, or the weights are unknown and the plan has several devices.
    """
    paths = placement.modules(PROGRAM)
    _check_devices(placement)
    covered = _cover(placement, paths)
    runs = _check(placement, paths, covered)
    found = {path: _device(target) for path, target in covered.items()}
    if placement.language_model:
        words = placement.device_of("embed_tokens")
        for path in placement.paths(PROGRAM).front:
            if not any(_inside(path, known) for known in found):
                found[path] = _device(words or _first(placement))
    elif weights is None and "" not in found:
        raise ConfigError(f"{PROGRAM} {unknown_weights(placement)}")
    for weight in weights or ():
        if not any(_inside(weight, path) for path in found):
            owner = weight.rpartition(".")[0]
            shared = any(_inside(path, owner) for path in found)
            found[weight if shared else owner] = _device(_reader(placement, paths, runs, owner) or _first(placement))
    return found


def unknown_weights(placement: Placement) -> str:
    """What is missing where a plan does not name all weights."""
    return (
        f"needs a device for every weight, and the plan of {placement.title} does not name those that no operator "
        "reads; plan its .pt2 file, or pass weights=… to hetgym.export_plan, the names of all parameters and buffers"
    )


def _check_devices(placement: Placement) -> None:
    """Refuse two CPUs, a CPU beside other devices, which would run its operators, and tied weights on two devices."""
    cpus = [target for target in placement.used if target.kind == "cpu"]
    if len(cpus) > 1:
        lost(PROGRAM, f"knows one CPU, and the plan uses {cpus[0].name} and {cpus[1].name}")
    if cpus and len(placement.used) > 1:
        count = sum(placement.where(i) == cpus[0] for i in range(len(placement.names)))
        main = _first(placement).name
        lost(
            PROGRAM,
            f"copies weights that are mapped to the CPU to {main} at each call and computes there, so "
            f"{counted(count, 'operator')} of {cpus[0].name} would run on {main}; plan for GPUs alone, or a language "
            "model by 'hetgym llm --target accelerate', which counts these copies",
        )
    for readers in placement.tied:
        first, other = readers[0], next((i for i in readers if placement.where(i) != placement.where(readers[0])), None)
        if other is not None:
            lost(
                PROGRAM,
                f"keeps tied weights on one device, and the plan has {placement.names[first]!r} on "
                f"{placement.where(first).name} and {placement.names[other]!r}, which reads the same weight, on "
                f"{placement.where(other).name}",
            )


def _reader(placement: Placement, paths: list[str], runs: Mapping[int, Target], owner: str) -> Target | None:
    """The device of the operators of a module itself that read weights; None if there are none."""
    own = [i for i, path in enumerate(paths) if placement.weighted[i] and path == owner]
    at = {runs[i].name: runs[i] for i in own}
    if len(at) > 1:
        lost(
            PROGRAM,
            f"puts each weight on one device, and operators of {called_module(owner)} read weights on "
            f"{' and '.join(at)}{placement.advice}",
        )
    return next(iter(at.values()), None)


def _inside(path: str, module: str) -> bool:
    return not module or under(path, module)


def _cover(placement: Placement, paths: list[str]) -> dict[str, Target]:
    """Path -> device of the largest modules whose operators all run on one device, in the order of the operators."""
    devices: dict[str, set[int]] = {}
    above = [["", *around(path)] for path in paths]
    for i, ancestors in enumerate(above):
        for path in ancestors:
            devices.setdefault(path, set()).add(int(placement.device[i]))
    found: dict[str, Target] = {}
    for ancestors in above:
        whole = next((path for path in ancestors if len(devices[path]) == 1), None)
        if whole is not None:
            found.setdefault(whole, placement.targets[next(iter(devices[whole]))])
    return found


def _check(placement: Placement, paths: list[str], covered: Mapping[str, Target]) -> dict[int, Target]:
    """The device on which Accelerate runs each operator; ConfigError, which names one, if the plan has another."""
    inputs, wrong = placement.inputs(), []
    runs: dict[int, Target] = {}
    order = range(len(paths))
    first = _first(placement)
    for i in order:
        module = next((path for path in ["", *around(paths[i])] if path in covered), None)
        if module is not None:
            runs[i] = covered[module]
            continue
        at = {runs[k].name: runs[k] for k in inputs[i] if k in runs}
        runs[i] = next(iter(at.values()), first)
        if len(at) > 1 or runs[i] != placement.where(i):
            wrong.append(i)
    if wrong:
        name = placement.names[wrong[0]]
        lost(
            PROGRAM,
            f"runs modules where their weights are, so {len(wrong)} of {len(paths)} operators, such as {name!r}, would "
            f"not run on the planned device{placement.advice}",
        )
    return runs


def _first(placement: Placement) -> Target:
    """The main device of Accelerate: the first that is not the CPU."""
    used = [placement.where(i) for i in range(len(placement.names))]
    return next((target for target in used if target.kind != "cpu"), used[0])


def _device(target: Target) -> int | str:
    if target.kind == "gpu":
        return target.number
    return "cpu" if target.kind == "cpu" else f"{target.kind}:{target.number}"
