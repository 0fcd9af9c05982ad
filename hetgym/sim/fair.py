"""Fair sharing: concurrent flows divide the links of their routes by max-min fairness.

A flow begins when its latency is over. Rates follow progressive filling (Bertsekas, Gallager, Data
Networks, section 6.5.2): the link with the least bandwidth per flow without a rate fixes the rates of
those flows; the same is repeated with the remaining bandwidth and flows.
"""

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim.kernel import State, settle

ROUNDING = 1e-12  # A flow is complete when at most this share of it is left: a remainder that rounding may cause


@record
class Flows(NamedTuple):
    """Flows under way; a flow is named by the first edge that it serves."""

    active: IntArray  # [e] flows that have begun, the first `tally[0]` of them
    # [2] number of active flows; 1 in `tally[1]` when some flow may have begun or ended since the rates were shared out
    tally: IntArray
    # size, left: [e] bytes in total, and bytes not yet transferred
    size: FloatArray
    left: FloatArray
    rate: FloatArray  # [e] byte/s
    route: IntArray  # [e] `source device * d + target device`
    next: IntArray  # [e] the next edge that the same flow serves, -1 for the last
    direct: BoolArray  # [1] true if no route has more than one link, so that links do not depend on each other
    spare: FloatArray  # [l] scratch: bandwidth not yet allocated
    open: IntArray  # [l] scratch: flows without a rate yet
    served: IntArray  # [e] scratch: readers of flows that just ended


def new_flows(p: ProblemArrays, needed: bool) -> Flows:
    """Allocate flows for all edges, or for none if flows are not needed."""
    e = len(p.successor) if needed else 0
    links = len(p.link_bandwidth) if needed else 0
    return Flows(
        np.zeros(e, np.int32),
        np.zeros(2, np.int32),
        np.zeros(e),
        np.zeros(e),
        np.zeros(e),
        np.zeros(e, np.int32),
        np.full(e, -1, np.int32),
        np.array([(np.diff(p.route_pointer) <= 1).all()]),
        np.zeros(links),
        np.zeros(links, np.int32),
        np.zeros(e, np.int32),
    )


@step
def clear(flows: Flows) -> None:
    """Forget all flows."""
    flows.tally[0] = 0
    flows.tally[1] = 0
    for edge in range(len(flows.next)):
        flows.next[edge] = -1


@step
def join(flows: Flows, leader: int, edge: int) -> None:
    """Let the flow that serves ``leader`` serve another edge as well."""
    flows.next[edge] = flows.next[leader]
    flows.next[leader] = edge


@step
def begin(flows: Flows, edge: int) -> None:
    """Activate a flow whose size and route are set: it takes its share from now on."""
    flows.left[edge] = flows.size[edge]
    flows.rate[edge] = 0.0
    flows.active[flows.tally[0]] = edge
    flows.tally[0] += 1
    flows.tally[1] = 1


@step
def complete(p: ProblemArrays, s: State, flows: Flows, now: float) -> int:
    """End the flows that have nothing left, settle their edges, list the readers in ``served``, and count them."""
    count = 0
    while flows.tally[1] == 1:
        _share(p, flows)
        k = 0
        while k < flows.tally[0]:
            edge = flows.active[k]
            if flows.left[edge] > 0.0 and now + flows.left[edge] / flows.rate[edge] > now:
                k += 1
                continue
            flows.tally[0] -= 1
            flows.active[k] = flows.active[flows.tally[0]]
            flows.tally[1] = 1
            member = edge
            while member >= 0:
                settle(p, s, member, s.sent[member], now)
                flows.served[count] = p.successor[member]
                count += 1
                member = flows.next[member]
    return count


@step
def next_completion(flows: Flows, now: float) -> float:
    """Time at which the first active flow ends if nothing changes [s]; inf without flows."""
    least = np.inf
    for k in range(flows.tally[0]):
        edge = flows.active[k]
        least = min(least, flows.left[edge] / flows.rate[edge])
    if now + least <= now:
        flows.tally[1] = 1  # the rest takes less time than the clock can resolve: the flow ends now
    return now + least


@step
def advance(flows: Flows, seconds: float) -> None:
    """Transfer what the active flows carry in `seconds` at their current rates."""
    for k in range(flows.tally[0]):
        edge = flows.active[k]
        left = flows.left[edge] - flows.rate[edge] * seconds
        if left <= ROUNDING * flows.size[edge]:
            left = 0.0
            flows.tally[1] = 1
        flows.left[edge] = left


# Invariant of the while loop (progressive filling): ``rate`` is final where it is not -1; ``to_do`` counts
# the active flows without a rate; ``open`` counts those flows for each link, and ``spare`` is the link's
# bandwidth less the final rates over it. Each turn fixes the flows over the tightest link, at least one, so
# the loop ends. O(turns * (links + flows * hops)). If no route has more than one link, links do not depend
# on each other and one pass is enough; a flow over no link at all has rate inf.
@step
def _share(p: ProblemArrays, flows: Flows) -> None:
    """Give every active flow its max-min fair rate."""
    flows.tally[1] = 0
    for link in range(len(flows.spare)):
        flows.spare[link] = p.link_bandwidth[link]
        flows.open[link] = 0
    for k in range(flows.tally[0]):
        flows.rate[flows.active[k]] = -1.0
        route = flows.route[flows.active[k]]
        for hop in range(p.route_pointer[route], p.route_pointer[route + 1]):
            flows.open[p.route_link[hop]] += 1
    to_do = flows.tally[0]
    if flows.direct[0]:
        for k in range(to_do):
            edge = flows.active[k]
            hop = p.route_pointer[flows.route[edge]]
            if hop < p.route_pointer[flows.route[edge] + 1]:
                link = p.route_link[hop]
                flows.rate[edge] = flows.spare[link] / flows.open[link]
            else:
                flows.rate[edge] = np.inf
        return
    while to_do > 0:
        tightest, share = -1, np.inf
        for link in range(len(flows.spare)):
            if flows.open[link] > 0 and (tightest < 0 or flows.spare[link] / flows.open[link] < share):
                tightest, share = link, flows.spare[link] / flows.open[link]
        for k in range(flows.tally[0]):
            edge = flows.active[k]
            route = flows.route[edge]
            crosses = False
            for hop in range(p.route_pointer[route], p.route_pointer[route + 1]):
                crosses |= p.route_link[hop] == tightest
            if flows.rate[edge] >= 0.0 or not crosses:
                continue
            flows.rate[edge] = share
            to_do -= 1
            for hop in range(p.route_pointer[route], p.route_pointer[route + 1]):
                link = p.route_link[hop]
                flows.open[link] -= 1
                if share < np.inf:
                    flows.spare[link] = max(0.0, flows.spare[link] - share)
