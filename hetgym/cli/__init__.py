"""The command line, and all code that knows of a terminal; one module for each command."""

from hetgym.cli.app import main

__all__ = ["main"]
