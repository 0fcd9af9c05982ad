"""Problems as bytes, for processes that share no memory."""

import io

from hetgym.problem import Problem


def pack_problem(problem: Problem) -> bytes:
    """The content of the ``.npz`` file that :meth:`Problem.save` would write."""
    file = io.BytesIO()
    problem.save(file)
    return file.getvalue()


def unpack_problem(data: bytes) -> Problem:
    """The same problem, to the last bit."""
    return Problem.load(io.BytesIO(data))
