"""Types of the results of PyTorch's operators on images: windows, sizes and margins; see :mod:`.torch_shapes`."""

import math

from hetgym.graph.torch_layouts import channels_last, sizes_of, tensor
from hetgym.graph.torch_shapes import Arguments, Result, Rule, Unknown, main, whole, wholes


def _window(size: int, kernel: int, step: int, pad: int, dilation: int = 1, up: bool = False) -> int:
    """Places of a window along an axis; ``up``: a last one may hang over the end."""
    if step < 1:
        raise ValueError("a stride is not above 0")
    room = size + 2 * pad - dilation * (kernel - 1) - 1
    count = -(-room // step) + 1 if up else room // step + 1
    return count - 1 if up and (count - 1) * step >= size + pad else count


def convolution(a: Arguments) -> Result:
    """A convolution over the axes behind the channels."""
    value, weight = main(a), a["weight"]
    rank = len(weight.shape) - 2
    shape, kernel, groups = sizes_of(value), sizes_of(weight)[2:], whole(a.get("groups", 1))
    if rank < 1 or len(shape) != rank + 2 or shape[1] != sizes_of(weight)[1] * groups:
        raise ValueError(f"a weight of shape {list(sizes_of(weight))} does not fit an operand of shape {list(shape)}")
    step, spread = wholes(a.get("stride", 1), rank), wholes(a.get("dilation", 1), rank)
    pads = a.get("padding", 0)
    if pads == "same":
        inner = shape[2:]
    else:
        pad = (0,) * rank if pads == "valid" else wholes(pads, rank)
        sides = zip(shape[2:], kernel, step, pad, spread, strict=True)
        inner = tuple(_window(n, k, s, p, d) for n, k, s, p, d in sides)
    return tensor((shape[0], sizes_of(weight)[0], *inner), value.dtype, channels_last(value))


def transposed_convolution(a: Arguments) -> Result:
    """A transposed convolution."""
    value, weight = main(a), a["weight"]
    rank = len(weight.shape) - 2
    shape, kernel = sizes_of(value), sizes_of(weight)[2:]
    options = (("stride", 1), ("padding", 0), ("output_padding", 0), ("dilation", 1))
    step, pad, more, spread = (wholes(a.get(key, default), rank) for key, default in options)
    sides = zip(shape[2:], kernel, step, pad, more, spread, strict=True)
    inner = ((n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, m, d in sides)
    channels = sizes_of(weight)[1] * whole(a.get("groups", 1))
    return tensor((shape[0], channels, *inner), value.dtype, channels_last(value))


def pooling(rank: int) -> Rule:
    """A pooling over the last ``rank`` axes."""

    def rule(a: Arguments) -> Result:
        value = main(a)
        shape, kernel = sizes_of(value), wholes(a["kernel_size"], rank)
        step = wholes(a.get("stride") or kernel, rank)
        pad, spread = wholes(a.get("padding", 0), rank), wholes(a.get("dilation", 1), rank)
        up = bool(a.get("ceil_mode"))
        sides = zip(shape[-rank:], kernel, step, pad, spread, strict=True)
        inner = tuple(_window(n, k, s, p, d, up) for n, k, s, p, d in sides)
        found = tensor((*shape[:-rank], *inner), value.dtype, channels_last(value))
        return [found, tensor(found.shape, "int64")] if a.get("return_indices") else found  # type: ignore[arg-type]

    return rule


def adaptive(rank: int) -> Rule:
    """A pooling to a given size of the last ``rank`` axes."""

    def rule(a: Arguments) -> Result:
        value = main(a)
        shape, size = sizes_of(value), a["output_size"]
        wanted = tuple(size) * (1 if len(size) == rank else rank) if isinstance(size, list | tuple) else (size,) * rank
        pairs = zip(shape[-rank:], wanted, strict=True)
        inner = tuple(before if after is None else whole(after) for before, after in pairs)
        return tensor((*shape[:-rank], *inner), value.dtype, channels_last(value))

    return rule


def resized(a: Arguments) -> Result:
    """An interpolation to a size or by a factor."""
    value, rank = main(a), len(main(a).shape) - 2
    shape = sizes_of(value)
    if a.get("size") is not None:
        inner = wholes(a["size"], rank)
    else:
        factors = a["scale_factor"]
        each = tuple(factors) if isinstance(factors, list | tuple) else (factors,) * rank
        if any(isinstance(factor, Unknown) for factor in each):
            raise ValueError("a size depends on data")
        inner = tuple(math.floor(size * factor) for size, factor in zip(shape[2:], each, strict=True))
    return tensor((*shape[:2], *inner), value.dtype, channels_last(value))


def padded(a: Arguments) -> Result:
    """A tensor with more, or fewer, elements at the ends of its last axes."""
    value, pads = main(a), wholes(a["pad"])
    shape = list(sizes_of(value))
    if len(pads) % 2 or len(pads) > 2 * len(shape):
        raise ValueError(f"{len(pads)} pads do not fit {len(shape)} dimensions")
    for k in range(len(pads) // 2):
        shape[-1 - k] += pads[2 * k] + pads[2 * k + 1]
    return tensor(shape, value.dtype, channels_last(value))


def shuffled(a: Arguments) -> Result:
    """``pixel_shuffle``: blocks of channels become pixels."""
    value, r = main(a), whole(a["upscale_factor"])
    *batch, channels, high, wide = sizes_of(value)
    if channels % (r * r):
        raise ValueError(f"{channels} channels do not make blocks of {r * r}")
    return tensor((*batch, channels // (r * r), high * r, wide * r), value.dtype)


def unshuffled(a: Arguments) -> Result:
    """``pixel_unshuffle``: blocks of pixels become channels."""
    value, r = main(a), whole(a["downscale_factor"])
    *batch, channels, high, wide = sizes_of(value)
    return tensor((*batch, channels * r * r, high // r, wide // r), value.dtype)


def patches(a: Arguments) -> Result:
    """``im2col``: windows of an image as columns."""
    value = main(a)
    batch, channels, *size = sizes_of(value)
    options = (("kernel_size", None), ("dilation", 1), ("padding", 0), ("stride", 1))
    kernel, spread, pad, step = (wholes(a.get(key, default), 2) for key, default in options)
    sides = zip(size, kernel, step, pad, spread, strict=True)
    columns = math.prod(_window(n, k, s, p, d) for n, k, s, p, d in sides)
    return tensor((batch, channels * math.prod(kernel), columns), value.dtype)


def image(a: Arguments) -> Result:
    """``col2im``: the sum of windows as an image."""
    batch, rows, _ = sizes_of(main(a))
    kernel, size = wholes(a["kernel_size"], 2), wholes(a["output_size"], 2)
    return tensor((batch, rows // math.prod(kernel), *size), main(a).dtype)
