"""READYS: choose a task for an idle device, or let it wait, by a GCN over the ready tasks' descendants.

Source: Grinsztajn, Beaumont, Jeannot, Preux, "READYS: A reinforcement learning based strategy for heterogeneous dynamic
scheduling", IEEE Cluster 2021; public code: github.com/nathangrinsztajn/RL_for_dynamic_scheduling. As there, tasks are
dispatched while they run, with noise on run times and with free communication; graph convolutions go from descendants
to ready tasks; the loss is A2C with the return against a heuristic's makespan.

Differences:

- Tasks of all idle devices are scored side by side, each task on each device. READYS asks one idle device at a time.
- Tasks that are not ready have static features only, so the convolutions of an episode are computed once. A window of w
  descendants is w layers. Running tasks appear as the backlog of their devices, not as nodes.
- Kinds of tasks are seen by their run times, not by one-hot codes, so that weights also serve other factorisations.
- A device is compared with the others by earliest finish; READYS sees when the next CPU and the next GPU get free.
- Times are measured in the mean cost of a task, so that weights of small factorisations serve large ones.
- Run times are log-normal; READYS adds normal noise to those on GPUs.
"""

from __future__ import annotations

from hetgym.agents.methods.graph_features import FEATURES, GraphFeatures, in_graph_units, in_units
from hetgym.agents.networks._geometric import GCNConv
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.actor_critic import FAR, relative
from hetgym.agents.networks.views import Seen
from hetgym.agents.sizes import Sizes
from hetgym.envs.dispatch.observation import DispatchCandidateColumn as Candidate
from hetgym.envs.dispatch.observation import DispatchDeviceColumn as Device
from hetgym.envs.place.observation import OperatorColumn as Operator

DYNAMIC = (Candidate.COST, Candidate.START, Candidate.FINISH, Candidate.UPWARD_RANK, Candidate.NEXT_EVENT)
"""Times of an action."""


class Descendants(nn.Module):
    r"""Graph convolutions along reversed edges, for each device: :math:`h \leftarrow h + \rho(\hat A^\top h W)`.

    Shapes: as :class:`~hetgym.agents.networks.OperatorDeviceEncoder`.
    """

    def __init__(self, hidden: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Linear(FEATURES, hidden)
        self.layers = nn.ModuleList(GCNConv(hidden, hidden, flow="target_to_source") for _ in range(layers))

    def forward(self, tokens: Tensor, edges: Tensor, edge_features: Tensor, graph: Tensor, present: Tensor) -> Tensor:
        """Embed the pairs of operators and devices; see the class for shapes."""
        pairs, _ = in_graph_units(tokens, edge_features, edges, graph)
        hidden = torch.relu(self.embed(pairs)).transpose(0, 1)
        for layer in self.layers:
            hidden = hidden + torch.relu(layer(hidden, edges))
        found: Tensor = hidden.transpose(0, 1)
        return found


class Readys(GraphFeatures):
    """Features of each ready task on each idle device, and of waiting; see the module."""

    def __init__(self, view: str, level: str, sizes: Sizes) -> None:
        super().__init__(view, level, sizes, Descendants(sizes.embedding, sizes.layers))
        self.size = 2 * (len(DYNAMIC) + 1) + 1 + 2 * sizes.embedding

    def forward(self, seen: Seen) -> tuple[Tensor, Tensor]:
        """Describe the actions; busy devices are masked unless nothing else is legal."""
        legal, candidates, devices = seen["action_mask"] > 0, seen["candidates"], seen["devices"]
        lanes, count = len(legal), devices.shape[1]
        idle = (devices[..., Device.QUEUED] + devices[..., Device.RUNNING] == 0).repeat(
            1, (legal.shape[1] - 1) // count
        )
        mask = legal & _with_wait(idle, True)
        mask = torch.where(mask.any(1, keepdim=True), mask, legal)
        least = seen["operators"][..., Operator.LEAST_COST]
        unit = (least.sum(1) / seen["operator_mask"].sum(1).clamp(min=1.0))[:, None, None]
        finish = candidates[:, :-1, Candidate.FINISH].masked_fill(~legal[:, :-1], FAR).view(lanes, -1, count)
        later = _with_wait((finish - finish.amin(-1, keepdim=True)).flatten(1), 0.0) * legal  # than on the best device
        times = in_units(torch.cat([candidates[..., DYNAMIC], later[..., None]], -1), unit)
        embedded = self.norm(self.view.embeddings(seen, *self.encoder(seen)))
        around = embedded.masked_fill(~legal[..., None], -FAR).amax(1, keepdim=True)  # as READYS sees waiting
        parts = [times, relative(times, mask), candidates[..., [Candidate.IS_WAIT]], embedded]
        return torch.cat([*parts, around.expand_as(embedded)], -1), mask


def _with_wait(values: Tensor, wait: float) -> Tensor:
    """[B, A] values of the pairs, and one for waiting."""
    return torch.cat([values, torch.full_like(values[:, :1], wait)], 1)
