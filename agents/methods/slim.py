"""SLIM, self-labelling for job shops.

Source: Corsini, Porrello, Calderara, Dell'Amico, "Self-Labeling the Job Shop Scheduling Problem", NeurIPS 2024,
arXiv 2401.11849; the loss is the algorithm ``self-labelling``.

As there: two graph attention layers embed the operators of a shop once, with messages along jobs, both ways, and
between the operators of a machine; at each decision the jobs, described by the embedding of their next operator and by
the state of the schedule, attend to each other; a feed-forward network scores them.

Differences: decisions are taken during the simulated run, and schedules are non-delay (:class:`ShopFeatures`);
operators and jobs have other features, all relative to the shop, its jobs and its machines; the policy may start as a
rule; it imitates the best of 16 samples instead of 256, four times, and is smaller, so that training takes minutes.
"""

from __future__ import annotations

from hetgym.agents.methods.job_shops import Shop, ShopFeatures
from hetgym.agents.networks._geometric import GATConv
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.sizes import Sizes

HEADS = 4  # of both kinds of attention; they divide the size of embeddings
OPERATOR, STATE = 14, 19  # numbers of features of an operator, and of a job's state


class GraphAttention(nn.Module):
    """Graph attention layers, which all see the features, too."""

    def __init__(self, hidden: int, layers: int) -> None:
        super().__init__()
        widths = [OPERATOR] + [OPERATOR + hidden] * (layers - 1)
        self.layers = nn.ModuleList(GATConv(width, hidden // HEADS, heads=HEADS) for width in widths)
        self.size = OPERATOR + hidden

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """[N, F + H] features and embeddings of operators."""
        seen = x
        for layer in self.layers:
            seen = torch.cat([x, torch.relu(layer(seen, edges))], -1)
        return seen


class Slim(ShopFeatures):
    """Describes a job by its state, with the embedding of its next operator, and by what it attends to.

    Args:
        sizes: ``embedding`` is the width of both kinds of attention, ``layers`` the number of layers of the first.
    """

    columns = ("work_left",)

    def __init__(self, view: str, level: str, sizes: Sizes) -> None:
        width = sizes.embedding
        super().__init__(view, level, sizes, STATE + 2 * width)
        self.graph = GraphAttention(width, sizes.layers)
        self.mix = nn.Linear(STATE + self.graph.size, width)
        self.attend = nn.MultiheadAttention(width, HEADS, batch_first=True)
        self._last: tuple[object, Tensor, Tensor] | None = None

    def jobs(self, shop: Shop, lane: Tensor, lanes: int) -> Tensor:
        """[B, J, F] see the class."""
        known, hidden = state(shop), self.embedded(shop, lane, lanes)
        operator = hidden.gather(1, shop.front[..., None].expand(-1, -1, hidden.shape[-1]))
        x = torch.relu(self.mix(torch.cat([known, operator], -1)))
        others, _ = self.attend(x, x, x, key_padding_mask=~shop.left, need_weights=False)
        return torch.cat([known, x, others], -1)

    def embedded(self, shop: Shop, lane: Tensor, lanes: int) -> Tensor:
        """[B, n, H] the embeddings: of each kind of shop once, or without gradients those of a lane's last call."""
        mark = torch.stack([shop.cost, shop.rest, shop.machine.to(shop.cost.dtype)], -1)
        if torch.is_grad_enabled():
            kinds, which = torch.unique(mark.flatten(1), dim=0, return_inverse=True)
            first = torch.empty(len(kinds), dtype=torch.long).scatter_(0, which, torch.arange(len(mark)))
            return self.embed(shop, first)[which]
        stamp = [(part.data_ptr(), part._version) for part in self.graph.parameters()], lanes, mark.shape[1]
        if self._last is None or self._last[0] != stamp:
            none = mark.new_full((lanes, *mark.shape[1:]), -1.0)
            self._last = stamp, none, mark.new_zeros(lanes, mark.shape[1], self.graph.size)
        _, marks, found = self._last
        new = (marks[lane] != mark).flatten(1).any(1).nonzero()[:, 0]
        if len(new):
            marks[lane[new]], found[lane[new]] = mark[new], self.embed(shop, new)
        return found[lane]

    def embed(self, shop: Shop, rows: Tensor) -> Tensor:
        """[R, n, H] the embeddings of some of the shops."""
        x, n = describe(shop)[rows], shop.job.shape[1]
        job, machine, real = shop.job[rows], shop.machine[rows], shop.real[rows]
        number = torch.arange(len(rows) * n).view(-1, n)
        follows = real[:, 1:] & (job[:, 1:] == job[:, :-1])
        chain = torch.stack([number[:, :-1][follows], number[:, 1:][follows]])
        beside = (machine[:, :, None] == machine[:, None]) & real[:, None] & real[:, :, None]
        row, one, other = (beside & ~torch.eye(n, dtype=torch.bool)).nonzero(as_tuple=True)
        edges = torch.cat([chain, chain.flip(0), torch.stack([row * n + one, row * n + other])], 1)
        embedded: Tensor = self.graph(x.flatten(0, 1), edges).view(len(rows), n, -1)
        return embedded


def describe(shop: Shop) -> Tensor:
    """[B, n, OPERATOR] features of operators at rest: times relative to shop, job and machine."""
    total, least = shop.rest + shop.before, 1e-9
    work = shop.cost.new_zeros(shop.load.shape).scatter_add(1, shop.machine, shop.cost * shop.real)
    load = work.gather(1, shop.machine)
    longest, most = total.amax(1, keepdim=True), work.amax(1, keepdim=True)
    own = total.clamp(min=least)
    parts = [shop.cost / shop.unit, shop.rest / own, shop.before / own, shop.cost / own]
    parts += [shop.cost / load.clamp(min=least), total / longest, shop.rest / longest, load / most]
    parts += [*among(shop.cost, shop.job, shop.real), *among(shop.cost, shop.machine, shop.real)]
    return torch.stack(parts, -1) * shop.real[..., None]


def among(values: Tensor, group: Tensor, real: Tensor) -> list[Tensor]:
    """[B, n] each value among those of its group: deviations from the mean, share of the largest, and their spread."""
    none = values.new_zeros(len(values), int(group.max()) + 1)
    weight = real.to(values.dtype)
    count = none.scatter_add(1, group, weight).clamp(min=1)
    mean = (none.scatter_add(1, group, values * weight) / count).gather(1, group)
    apart = (values - mean) * weight
    spread = (none.scatter_add(1, group, apart.square()) / count).sqrt().gather(1, group)
    most = none.scatter_reduce(1, group, values * weight, "amax").gather(1, group)
    return [apart / (spread + 1e-4), values / most.clamp(min=1e-9), spread / mean.clamp(min=1e-9)]


def state(shop: Shop) -> Tensor:
    """[B, J, STATE] each job now: its next operator, the one behind it, and the machines of both."""
    left = shop.left.to(shop.cost.dtype)
    last = shop.first + (shop.length - 1).clamp(min=0)
    second = torch.minimum(shop.front + 1, last)
    more = left * (second > shop.front)
    rest, most = shop.of(shop.rest, shop.front), shop.load.amax(1, keepdim=True).clamp(min=1e-6)
    longest = (rest * left).amax(1, keepdim=True).clamp(min=1e-6)
    machine, after = shop.of(shop.machine, shop.front), shop.of(shop.machine, second)
    start = torch.maximum(shop.ready, shop.of(shop.free, machine))
    ends = torch.maximum(((start + rest) * left).amax(1, keepdim=True), (shop.free + shop.load).amax(1, keepdim=True))
    ends = ends.clamp(min=1e-6)
    waits = left * (shop.ready <= 0)
    queue = torch.zeros_like(shop.load).scatter_add(1, machine, waits)
    queued = torch.zeros_like(shop.load).scatter_add(1, machine, waits * shop.of(shop.cost, shop.front)) / shop.unit
    parts = [rest / longest, rest / most, (start + rest) / ends, (rest - shop.of(shop.cost, shop.front)) / longest]
    parts += [(start / shop.unit).clamp(max=5), (-shop.ready / shop.unit).clamp(-5, 5)]
    parts += [(shop.length - shop.placed) / shop.length.clamp(min=1), more]
    for which, on, there in ((shop.front, machine, left), (second, after, more)):
        free, load = shop.of(shop.free, on), shop.of(shop.load, on)
        parts += [there * shop.of(shop.cost, which) / shop.unit, there * load / most, there * (free + load) / ends]
        parts += [there * shop.of(queue, on) / 4, there * shop.of(queued, on) / 4]
    parts.append(more * (shop.of(shop.free, after) / shop.unit).clamp(max=5))
    return torch.stack(parts, -1) * left[..., None]
