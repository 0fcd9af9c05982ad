"""L2D: learning to dispatch, a graph network over the operators of a job shop.

Source: Zhang, Song, Cao, Zhang, Tan, Xu, "Learning to Dispatch for Job Shop Scheduling via Deep Reinforcement
Learning", NeurIPS 2020, arXiv 2010.12367.

As there: two features of an operator, a lower bound on its completion and whether it is scheduled; a Graph Isomorphism
Network (GIN) over the disjunctive graph, in which an operator hears from the one before it in its job and, once
scheduled, from the one before it on its machine; an action is a job's next operator, described by its embedding and the
mean of all; PPO, with the decrease of a bound on the makespan as reward.

Differences: decisions are taken during the simulated run, so that operators start in the order of decisions, without
insertion into earlier gaps, and schedules are non-delay (:class:`ShopFeatures`); bounds count from now, in the mean
work of a job, so that shops of more machines look alike; layers have no batch normalisation; the heads also see the
time and the environment's bound.
"""

from __future__ import annotations

from hetgym.agents.methods.job_shops import Shop, ShopFeatures
from hetgym.agents.networks._geometric import GINConv
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.sizes import Sizes
from hetgym.envs.place.observation import OperatorColumn as Operator


class L2D(ShopFeatures):
    """Describes a job by the embedding of its next operator, and by the mean over all operators.

    Args:
        sizes: ``embedding`` is the width of the GIN, ``layers`` the number of its layers.
    """

    def __init__(self, view: str, level: str, sizes: Sizes) -> None:
        width = sizes.embedding
        super().__init__(view, level, sizes, 2 * width)
        self.layers = nn.ModuleList(
            GINConv(nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width)))
            for inputs in [2, *[width] * (sizes.layers - 1)]
        )

    def jobs(self, shop: Shop, lane: Tensor, lanes: int) -> Tensor:
        """[B, J, 2 H] see the class."""
        scheduled = shop.operators[..., Operator.IS_PLACED]
        work = (shop.cost * shop.real).sum(1, keepdim=True) / (shop.length > 0).sum(1, keepdim=True)
        x = torch.stack([(completion(shop) - shop.now) / work, scheduled], -1).flatten(0, 1)
        edges = torch.cat([shop.chains(), arcs(shop)], 1)
        for layer in self.layers:
            x = torch.relu(layer(x, edges))
        x = x.view(*shop.job.shape, -1)
        weight = shop.real[..., None].to(x.dtype)
        mean = (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
        front = x.gather(1, shop.front[..., None].expand(-1, -1, x.shape[-1]))
        return torch.cat([front, mean.expand_as(front)], -1)


def completion(shop: Shop) -> Tensor:
    """[B, n] completion of each operator, for those that are not scheduled at the earliest."""
    begin = shop.now + shop.ready.clamp(min=0) + shop.of(shop.rest, shop.front)
    ahead = begin.gather(1, shop.job) - shop.rest + shop.cost
    finish, queued = shop.operators[..., Operator.FINISH], shop.now + shop.free.gather(1, shop.machine)
    known = torch.where(finish > 0, finish, queued)
    return torch.where(shop.operators[..., Operator.IS_PLACED] > 0, known, ahead)


def arcs(shop: Shop) -> Tensor:
    """[2, E] scheduled operators that follow each other on a machine, numbered through all shops."""
    lanes, n = shop.job.shape
    scheduled = (shop.operators[..., Operator.IS_PLACED] > 0) & shop.real
    start = shop.operators[..., Operator.START]
    start = torch.where(shop.operators[..., Operator.FINISH] > 0, start, shop.now.expand_as(start))
    key = (shop.machine * 100.0).double() + start.double()  # shares of the reference are at most 10
    order = key.masked_fill(~scheduled, float("inf")).argsort(1)
    before, after = order[:, :-1], order[:, 1:]
    same = scheduled.gather(1, after) & (shop.machine.gather(1, before) == shop.machine.gather(1, after))
    number = torch.arange(lanes)[:, None] * n
    return torch.stack([(before + number)[same], (after + number)[same]])
