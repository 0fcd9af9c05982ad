"""TensorBoard: curves of a run, which continue from its checkpoint when it resumes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetgym.errors import require


class Curves:
    """Writes scalars to ``<folder>/events.out.tfevents.*``, of a run that begins or resumes at ``step``.

    Values that an earlier process logged after that step are hidden.
    """

    def __init__(self, folder: Path, step: int = 0) -> None:
        writer = require("torch.utils.tensorboard", "agents", "training").SummaryWriter
        self._writer: Any = writer(str(folder), purge_step=step if step else None)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Log values; ``values``: by name, as in ``evaluation/return``."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()
