"""Word of what a call is doing, on stderr, if it takes more than a moment."""

from __future__ import annotations

import sys
from threading import Event, Thread
from time import monotonic

from hetgym._text import plain

PATIENCE = 1.5  # Time after which the first line is printed [s]
EVERY = 10.0  # Time from one line to the next [s]


class Progress:
    """A context within which lines say how far a call has come.

    Args:
        name: name with which lines begin.
        quiet: true to print nothing.

    Attributes:
        now: what is being done.
    """

    def __init__(self, name: str, quiet: bool = False) -> None:
        self.name, self.now = name, "beginning"
        self._over = Event()
        if quiet:
            self._over.set()
        self._thread = Thread(target=self._tell, name=f"hetgym-progress-{name}", daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _tell(self) -> None:
        began, pause = monotonic(), PATIENCE
        while not self._over.wait(pause):
            if sys.stderr is not None:
                line = plain(f"hetgym: {self.name}: {self.now} ({monotonic() - began:.0f} s)")
                print(line, file=sys.stderr, flush=True)
            pause = EVERY
