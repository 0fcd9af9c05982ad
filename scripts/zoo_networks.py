"""Networks of the zoo that no package ships: a stacked LSTM unrolled in time, and NASNet-A cells."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class UnrolledLSTM(nn.Module):
    """Language model of stacked LSTM cells, unrolled: a grid of layers and time steps.

    The sizes are those of Sutskever et al. (NIPS 2014, section 3.4): 4 layers of 1000 cells on
    1000-dimensional embeddings. The vocabulary is 10 000 words, as in the Penn Treebank task.
    """

    def __init__(self, layers: int = 4, steps: int = 24, width: int = 1000, words: int = 10_000) -> None:
        super().__init__()
        self.steps = steps
        self.embedding = nn.Embedding(words, width)
        self.cells = nn.ModuleList(nn.LSTMCell(width, width) for _ in range(layers))
        self.decoder = nn.Linear(width, words)

    def forward(self, tokens: Tensor) -> Tensor:
        """[batch, steps] word ids -> [batch, steps, words] scores of the next word."""
        states: list[tuple[Tensor, Tensor] | None] = [None] * len(self.cells)
        tops = []
        for x in self.embedding(tokens).unbind(1):
            for layer, cell in enumerate(self.cells):
                h, c = cell(x, states[layer])
                states[layer] = h, c
                x = h
            tops.append(x)
        return self.decoder(torch.stack(tops, 1))


def _normalised(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class Separable(nn.Sequential):
    """A separable convolution, applied twice, as all of NASNet's are; the first one strides."""

    def __init__(self, before: int, after: int, kernel: int, stride: int = 1) -> None:
        layers: list[nn.Module] = []
        for channels, step in ((before, stride), (after, 1)):
            depthwise = nn.Conv2d(channels, channels, kernel, step, kernel // 2, groups=channels, bias=False)
            layers += [nn.ReLU(), depthwise, nn.Conv2d(channels, after, 1, bias=False), _normalised(after)]
        super().__init__(*layers)


class FactorisedReduction(nn.Module):
    """Halve the resolution by two 1x1 paths, one shifted by a pixel."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(1, 2)
        self.shift = nn.ZeroPad2d((-1, 1, -1, 1))
        self.left = nn.Conv2d(before, after // 2, 1, bias=False)
        self.right = nn.Conv2d(before, after - after // 2, 1, bias=False)
        self.norm = _normalised(after)

    def forward(self, x: Tensor) -> Tensor:
        """[n, before, h, w] -> [n, after, ceil(h / 2), ceil(w / 2)]."""
        x = torch.relu(x)
        return self.norm(torch.cat([self.left(self.pool(x)), self.right(self.pool(self.shift(x)))], 1))


def _pointwise(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.ReLU(), nn.Conv2d(before, after, 1, bias=False), _normalised(after))


class NormalCell(nn.Module):
    """NASNet-A's normal cell (Zoph et al., CVPR 2018, figure 4, left)."""

    def __init__(self, previous: int, current: int, width: int, shrink: bool) -> None:
        super().__init__()
        self.fit_previous = FactorisedReduction(previous, width) if shrink else _pointwise(previous, width)
        self.fit_current = _pointwise(current, width)
        self.current3, self.current5 = Separable(width, width, 3), Separable(width, width, 5)
        self.previous3, self.previous5 = Separable(width, width, 3), Separable(width, width, 5)
        self.again3 = Separable(width, width, 3)
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        self.channels = 6 * width

    def forward(self, previous: Tensor, current: Tensor) -> Tensor:
        """Outputs of the two cells before -> [n, 6 * width, h, w]."""
        p, c = self.fit_previous(previous), self.fit_current(current)
        blocks = [
            self.current3(c) + c,
            self.previous3(p) + self.current5(c),
            self.pool(c) + p,
            self.pool(p) + self.pool(p),
            self.previous5(p) + self.again3(p),
        ]
        return torch.cat([p, *blocks], 1)


class ReductionCell(nn.Module):
    """NASNet-A's reduction cell (Zoph et al., CVPR 2018, figure 4, right)."""

    def __init__(self, previous: int, current: int, width: int, shrink: bool) -> None:
        super().__init__()
        self.fit_previous = FactorisedReduction(previous, width) if shrink else _pointwise(previous, width)
        self.fit_current = _pointwise(current, width)
        self.current5, self.previous7 = Separable(width, width, 5, 2), Separable(width, width, 7, 2)
        self.again7, self.previous5 = Separable(width, width, 7, 2), Separable(width, width, 5, 2)
        self.inner3 = Separable(width, width, 3)
        self.largest, self.average = nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1, count_include_pad=False)
        self.inner_average = nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        self.channels = 4 * width

    def forward(self, previous: Tensor, current: Tensor) -> Tensor:
        """Outputs of the two cells before -> [n, 4 * width, h / 2, w / 2]."""
        p, c = self.fit_previous(previous), self.fit_current(current)
        first = self.current5(c) + self.previous7(p)
        second = self.largest(c) + self.again7(p)
        third = self.average(c) + self.previous5(p)
        fourth = self.largest(c) + self.inner3(first)
        fifth = self.inner_average(first) + second
        return torch.cat([second, third, fourth, fifth], 1)


class NASNetA(nn.Module):
    """NASNet-A for ImageNet: two reduction cells, then three stages of normal cells with reductions between.

    NASNet-A (4 @ 1056), the mobile network, is ``repeats=4, width=44``: 5.3 million parameters, 564
    million multiply-adds (table 3 of the paper).
    """

    def __init__(self, repeats: int = 1, width: int = 44, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, bias=False), _normalised(32))
        kinds: list[tuple[type[NormalCell] | type[ReductionCell], int]] = [
            (ReductionCell, width // 4),
            (ReductionCell, width // 2),
        ]
        for stage in range(3):
            kinds += [(ReductionCell, width << stage)] if stage else []
            kinds += [(NormalCell, width << stage)] * repeats
        previous = current = 32
        self.cells = nn.ModuleList()
        shrink = False  # the cell before reduced: its input is twice as large as its output
        for kind, cell_width in kinds:
            cell = kind(previous, current, cell_width, shrink)
            self.cells.append(cell)
            previous, current = current, cell.channels
            shrink = kind is ReductionCell
        self.classifier = nn.Linear(current, classes)

    def forward(self, images: Tensor) -> Tensor:
        """[batch, 3, 224, 224] -> [batch, classes]."""
        previous = current = self.stem(images)
        for cell in self.cells:
            previous, current = current, cell(previous, current)
        return self.classifier(torch.relu(current).mean((2, 3)))
