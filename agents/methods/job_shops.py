"""What the methods for job shops share: a shop as jobs and machines, and the decisions of non-delay schedules."""

from __future__ import annotations

import abc

from hetgym.agents.networks._torch import Tensor, torch
from hetgym.agents.networks.actor_critic import ActionFeatures
from hetgym.agents.networks.views import Seen
from hetgym.agents.sizes import Sizes
from hetgym.envs.dispatch.observation import DispatchCandidateColumn as Candidate
from hetgym.envs.dispatch.observation import DispatchDeviceColumn as Device
from hetgym.envs.place.observation import OperatorColumn as Operator
from hetgym.errors import ConfigError

KEYS = ("operators", "operator_mask", "costs", "devices", "device_mask", "now", "candidate_operators")
"""Keys of observations that networks for job shops read, besides those of candidates."""


class Shop:
    """The state of B job shops, from observations of HetDispatch-v0.

    Every operator runs on one machine, and operators are numbered job by job. Times are shares of the reference.

    Attributes:
        real: [B, n] True where an operator is not padding.
        cost, rest, before: [B, n] run time of each operator; that of its job from there on, and before.
        job, machine: [B, n] job and machine of each operator.
        length, placed, left: [B, J] number of each job's operators, 0 for padding; of those that are committed; and
            True for jobs that have others.
        first, front: [B, J] first operator of each job, and the next one, or the last one of a job without.
        ready: [B, J] time from now until that one is ready, negative if it waits already.
        free, load: [B, D] time from now until each machine is free, and run time of what is not committed there.
        unit: [B, 1] mean run time of the operators.
    """

    def __init__(self, seen: Seen) -> None:
        operators, devices, self.now = seen["operators"], seen["devices"], seen["now"]
        self.operators, self.real = operators, seen["operator_mask"] > 0
        self.cost, self.rest = operators[..., Operator.LEAST_COST], operators[..., Operator.UPWARD_RANK]
        self.before = operators[..., Operator.DOWNWARD_RANK]
        entry = self.real & (operators[..., Operator.IN_DEGREE] == 0)
        self.job = (entry.cumsum(1) - 1).clamp(min=0)
        there = seen["device_mask"] > 0
        self.machine = seen["costs"].masked_fill(~there[:, None], float("inf")).argmin(-1)
        none = self.now.new_zeros(len(self.job), int(self.job.max()) + 1)
        self.length = none.scatter_add(1, self.job, self.real.float()).long()
        self.placed = none.scatter_add(1, self.job, operators[..., Operator.IS_PLACED] * self.real).long()
        self.left = self.placed < self.length
        self.first = self.length.cumsum(1) - self.length
        self.front = (self.first + torch.minimum(self.placed, self.length - 1)).clamp(min=0)
        self.free, total = devices[..., Device.BACKLOG], devices[..., Device.TOTAL_COST]
        self.load = total * there.sum(1, keepdim=True) - devices[..., Device.BUSY]
        last = (self.first + self.placed - 1).clamp(min=0)
        finish = self.of(operators[..., Operator.FINISH], last) - self.now
        begun = self.of(operators[..., Operator.FINISH], last) > 0  # the others begin as soon as time goes on
        until = torch.where(begun, finish, self.of(self.free, self.of(self.machine, last)))
        self.ready = torch.where(self.placed > 0, until, -self.now)
        self.unit = self.cost.sum(1, keepdim=True) / self.real.sum(1, keepdim=True)

    def of(self, values: Tensor, which: Tensor) -> Tensor:
        """[B, J] the values [B, n] of some operators, or [B, D] of machines."""
        return values.gather(1, which)

    def chains(self) -> Tensor:
        """[2, E] operators that follow each other in a job, numbered through all shops."""
        n = self.job.shape[1]
        number = torch.arange(len(self.job) * n).view(-1, n)
        both = self.real[:, 1:] & (self.job[:, 1:] == self.job[:, :-1])
        return torch.stack([number[:, :-1][both], number[:, 1:][both]])


class ShopFeatures(ActionFeatures):
    """Base of networks for job shops in HetDispatch-v0, which decide what goes first of the operators that wait.

    Of the environment's actions only those of non-delay schedules are left: an operator of the first idle machine for
    which one is ready, or waiting if there is no such machine. An action is described by :meth:`jobs` where there is a
    choice, by the time, and by the bound on the makespan after it.
    """

    def __init__(self, view: str, level: str, sizes: Sizes, size: int) -> None:
        if (view, level) != ("dispatch", "graph"):
            raise ConfigError("networks for job shops take HetDispatch-v0 with observation='graph'")
        super().__init__(view, "candidates", sizes)
        self.size = size + 2

    @abc.abstractmethod
    def jobs(self, shop: Shop, lane: Tensor, lanes: int) -> Tensor:
        """[B, J, F] the jobs of shops, which [B] ``lane`` numbers among ``lanes``."""

    def choices(self, seen: Seen) -> Tensor:
        """[B, A] True for the actions that are left."""
        legal, devices = seen["action_mask"] > 0, seen["devices"]
        idle = devices[..., Device.RUNNING] + devices[..., Device.QUEUED] == 0
        able = legal[:, :-1].view(len(legal), -1, devices.shape[1]) & idle[:, None]
        first = able.any(1).float().argmax(-1)
        able &= (torch.arange(devices.shape[1]) == first[:, None])[:, None]
        able = able.flatten(1)
        return torch.cat([able, legal[:, -1:] & ~able.any(1, keepdim=True)], 1)

    def forward(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Describe the actions; see :class:`ActionFeatures` for shapes."""
        mask = self.choices(seen)
        lane, action = mask.nonzero(as_tuple=True)
        known = torch.stack([seen["now"][lane, 0], seen["candidates"][lane, action, Candidate.BOUND]], -1)
        described = seen["now"].new_zeros(*mask.shape, self.size)
        described[lane, action, -2:] = known
        chooses = (mask.sum(1) > 1).nonzero()[:, 0]
        if len(chooses):
            shop = Shop({key: seen[key][chooses] for key in KEYS})
            found = self.jobs(shop, chooses, len(mask))
            row, action = mask[chooses].nonzero(as_tuple=True)
            operator = seen["candidate_operators"][chooses].long()[row, action // seen["devices"].shape[1]]
            described[chooses[row], action, :-2] = found[row, shop.job[row, operator]]
        return described, mask
