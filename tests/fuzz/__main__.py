"""Feed mutated files to every loader, and keep those that it does not refuse in a sentence.

    python -m tests.fuzz [--inputs 20000] [--seed 0] [--workers N] [--only LOADER,...] [--out FOLDER]
    python -m tests.fuzz --one LOADER:INDEX [--seed 0] [--out FOLDER]

A loader may load a file or raise a :class:`hetgym.HetgymError` whose message is one line. Anything else is a
finding: another exception or a warning, a crash of the interpreter, more than ``MEMORY`` beyond what the process had
before, more than ``SECONDS`` of processor time. Findings are written to the folder, one for each place in the code,
with the file that caused it. Input k of a seed is the same in every run. The exit code is 1 if anything was found.
Set ``HETGYM_DATA`` for further inputs, see :mod:`tests.fuzz.corpus`.
"""

from __future__ import annotations

import argparse
import os
import sys

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy and torch are imported: workers are forked

from pathlib import Path  # noqa: E402

from tests.fuzz.loaders import LOADERS  # noqa: E402
from tests.fuzz.running import Fuzzer, one  # noqa: E402


def main() -> int:
    """Run; see the top of this module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=20_000, help="number of mutated files, over all loaders")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", default=",".join(LOADERS), help="names of loaders")
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--one", default="", metavar="LOADER:INDEX", help="write that input to --out, and load it here")
    options = parser.parse_args()
    names = options.only.split(",")
    for name in names:
        if name not in LOADERS:
            parser.error(f"no loader {name!r}; known: {', '.join(LOADERS)}")
    if options.one:
        name, _, index = options.one.partition(":")
        return one(name, int(index), options.seed, options.out)
    fuzzer = Fuzzer(names, options.seed, options.out)
    fuzzer.run(options.first, options.first + options.inputs, options.workers)
    print(fuzzer.summary())
    return 1 if fuzzer.findings else 0


if __name__ == "__main__":
    sys.exit(main())
