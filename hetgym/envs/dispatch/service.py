"""The order in which jobs are served: the one with the least work left first."""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import step
from hetgym.envs.dispatch.state import DispatchTables
from hetgym.sim.progress import OPEN, Progress


# Each pass over the order takes out the operators of one job, in the order that they had: by upward rank. So the result
# depends on the work alone, and not on earlier orders. O(j (j + n)).
@step
def serve(tables: DispatchTables, run: Progress) -> None:
    """Sort the operators by the work that is left of their jobs; jobs that are not known yet come last.

    The work is the mean run time of all operators that are not committed. Of equal jobs the smaller number comes first.
    """
    jobs, left = len(tables.came), tables.left
    if jobs == 1:
        return
    for j in range(jobs):
        left[j] = 0.0
    for i in range(len(run.status)):
        if tables.release[i] > run.clock[0]:
            left[tables.job[i]] = np.inf
        elif run.status[i] <= OPEN:
            left[tables.job[i]] += tables.work[i]
    count = 0
    for _ in range(jobs):
        least = -1
        for j in range(jobs):
            if left[j] >= 0.0 and (least < 0 or left[j] < left[least]):
                least = j
        left[least] = -1.0
        for i in tables.order:
            if tables.job[i] == least:
                tables.spare[count] = i
                count += 1
    for k in range(count):
        i = tables.spare[k]
        tables.order[k], tables.turn[i] = i, k
