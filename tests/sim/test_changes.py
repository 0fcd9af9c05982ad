"""Losses of devices: cases that the property against the plain-Python reference rarely reaches."""

from __future__ import annotations

from typing import Any

import oracle_online

from hetgym import Problem, Runtime
from hetgym.sim import Loss, online


def test_two_losses_leave_no_reader_without_its_input() -> None:
    """Operator 2 has its input, from 0, when 0 has to run again for 1; before it has, 2 loses its device as well.

    0 runs on device 0 until 1, 2 is queued on device 1 behind 3, and 1 still waits for 4. Device 0 is lost at
    1.5, so that 0 runs again, on device 2 behind 4, until 5. Device 1 is lost at 3: 3 can run at once, but 2
    has to wait for 0.
    """
    problem = Problem.from_arrays(
        [[1.0, 3.0, 3.0], [1.0] * 3, [1.0] * 3, [10.0, 10.0, 4.0], [2.0] * 3], [(0, 1, 0.0), (0, 2, 0.0), (4, 1, 0.0)]
    )
    home = [0, 2, 1, 1, 2]

    def decide(situation: Any) -> tuple[int, int]:
        operator = int(situation.ready[0])
        return operator, home[operator] if situation.alive[home[operator]] else 2

    losses = [Loss(0, 1.5), Loss(1, 3.0)]
    trace = online(problem, decide, changes=losses)
    assert trace.start.tolist() == [2.0, 10.0, 9.0, 5.0, 0.0]
    assert oracle_online.online(problem, decide, Runtime(), [0.0] * 5, losses).start == trace.start.tolist()
