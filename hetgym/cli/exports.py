"""``--export``: plans in the forms of other programs, written beside the plan."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetgym._text import counted
from hetgym.errors import ConfigError, HetgymError

if TYPE_CHECKING:
    from hetgym.export import Format
    from hetgym.parallel import ParallelPlan
    from hetgym.problem import Problem
    from hetgym.sim import Trace


@dataclass(frozen=True)
class Exports:
    """Forms in which a plan is wanted."""

    wanted: Sequence[tuple[Format, Path | None]]  # form and file; None for the form's own file in the run's folder
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of export_plan

    def check(self, problem: Problem | None) -> None:
        """Refuse (ConfigError) forms that hold no plan of a problem, or training step (None), before the search."""
        from hetgym.export.formats import check_export

        for form, _ in self.wanted:
            check_export(form.name, problem, **self.arguments)

    def placeable(self, problem: Problem) -> Problem:
        """The problem whose plans all forms can hold, with a notice of what it leaves out; ConfigError if none is."""
        from hetgym.cli.console import tell

        if not any(form.whole for form, _ in self.wanted):
            return problem
        from hetgym.export.whole_modules import on_accelerators, whole_modules

        grouped = whole_modules(problem)
        if grouped.num_operators < problem.num_operators:
            tell(
                f"accelerate: the plan is of whole layers and modules, {grouped.num_operators} of them for "
                f"{counted(problem.num_operators, 'operator')}, since Accelerate places no smaller parts"
            )
        found = on_accelerators(grouped)
        beside = [name for name, ahead in zip(found.device_names, found.asynchronous, strict=True) if not ahead]
        if found is not grouped and beside:
            names = ", ".join(beside)
            tell(f"accelerate: the plan leaves {names} out, whose weights would be copied to a GPU at each call")
        return found

    def write(self, plan: Trace | ParallelPlan, folder: Path) -> tuple[dict[str, Path], HetgymError | None]:
        """Write all that hold the plan; returns the files by form, and an error that names what the others lose."""
        from hetgym.cli.console import tell
        from hetgym.export import export_plan

        found, refused = dict[str, Path](), list[str]()
        for form, file in self.wanted:
            if file or form.name != "json":  # plan.json is there already
                path = file or folder / form.file
                try:
                    document = export_plan(plan, form.name, path, **self.arguments)
                    found[form.name] = path
                    if form.name == "pipelining" and len(document["stages"]) == 1:
                        tell(
                            "pipelining: the plan has one stage, so there is nothing to split. It is for the time of "
                            "one pass; a pipeline that keeps several devices busy is cut by hetgym.pipeline"
                        )
                except HetgymError as error:
                    refused.append(str(error))
        return found, ConfigError("; ".join(refused)) if refused else None


def parse_exports(texts: Sequence[str] | None) -> list[tuple[Format, Path | None]]:
    """Forms and files of ``--export``; UnknownName if there is no such form.

    >>> [(form.name, file) for form, file in parse_exports(["llama.cpp", "json:my/plan.json"])]
    [('llama.cpp', None), ('json', PosixPath('my/plan.json'))]
    """
    if not texts:
        return []
    from hetgym.export import find_format

    pairs = [text.partition(":") for text in texts]
    return [(find_format(name.strip()), Path(file) if file else None) for name, _, file in pairs]


def check_exports(wanted: Sequence[tuple[Format, Path | None]], inputs: Sequence[str], results: Path) -> None:
    """Refuse (ConfigError) exports over ``inputs`` or each other, or that cannot be written, before planning."""
    from hetgym._input.files import check_writable, is_file
    from hetgym.export.formats import written_files

    taken: list[Path] = []
    for form, file in wanted:
        for path in written_files(form.name, file or Path("results of a run", form.file)):
            if file and (path.parent.is_dir() or not path.absolute().is_relative_to(results.absolute())):
                check_writable(path, ConfigError)
            for own in inputs:
                if file and is_file(path, own):
                    raise ConfigError(f"--export {form.name}:{file} would overwrite {own}, which the plan is made from")
            if any(is_file(path, other) or os.path.realpath(path) == os.path.realpath(other) for other in taken):
                raise ConfigError(f"two exports would write to {path if file else form.file}")
            taken.append(path)
