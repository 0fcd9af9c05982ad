"""``hetgym list``: everything that hetgym knows by name."""

from typing import Annotated

import typer

from hetgym.cli.options import ImportOption, JsonOption, import_files
from hetgym.errors import ConfigError


def list_(
    what: Annotated[
        str,
        typer.Argument(
            help="graphs, llms, platforms, schedulers, suites, runtimes, costs, datasets, recipes or policies; for "
            "training steps on clusters: clusters, decoders, frameworks or planners."
        ),
    ] = "",
    imports: ImportOption = None,
    as_json: JsonOption = False,
) -> int:
    """List what hetgym knows by name."""
    from hetgym.cli.catalogue import CATALOGUES, entries
    from hetgym.cli.console import print_json, stdout
    from hetgym.cli.tables import catalogue

    if not what:
        raise ConfigError(f"hetgym list takes one of: {', '.join(CATALOGUES)}")
    import_files(imports)
    rows = entries(what)
    if as_json:
        print_json({what: rows})
    else:
        stdout().print(catalogue(rows))
    return 0
