"""``python -m hetgym``: the command line, where the ``hetgym`` script is not on the path."""

from hetgym.cli import main

if __name__ == "__main__":  # not in a process that imports this one's main module again
    main()
