"""The command line: ``hetgym bench``, ``plan``, ``train``, ``profile``, ``fit``, ``validate`` and ``list``."""

from hetgym.cli.main import main

__all__ = ["main"]
