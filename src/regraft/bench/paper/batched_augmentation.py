"""DomainBed's random changes of training images, for whole batches on any device.

All draws are made beforehand on the CPU, so they are the same on every device, a resumed training
sees the same ones, and a step that applies them can be recorded as a CUDA graph.

The four changes of colour come in a random order, an image its own. Brightness, contrast and
saturation all blend an image with a reference (black, its mean grey, its own grey), hence each is
one blend with three weights. Hue stands between three slots of blends before it and three after:
an image uses the slots that its order asks for, and blends with nothing in the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import permutations

import torch
from torch import Tensor
from torch.nn import functional

from regraft.bench.datasets.augmentation import AREA, ASPECT, ATTEMPTS, JITTER, P_FLIP, P_GREY

_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE = range(4)
_SLOTS = 3  # of blends before the hue is turned, and as many after it
_LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in grey (ITU-R 601)


@dataclass(frozen=True)
class Changes:
    """What happens to images, one entry per image in the leading dimensions of each tensor."""

    box: Tensor  # (..., 4) left, top, width and height of the part kept, as shares of the image
    is_flipped: Tensor  # (...)
    blends: Tensor  # (..., 6, 3) weights of the image, its mean grey and its grey; black's is left
    hue: Tensor  # (...) turn, as a share of the circle
    is_grey: Tensor  # (...)

    def to(self, device: torch.device) -> Changes:
        """Return the same on ``device``."""
        return Changes(*(getattr(self, field.name).to(device) for field in fields(self)))

    def select(self, index: Tensor) -> Changes:
        """Select the entry of the first dimension that ``index`` (1,) names."""
        parts = (getattr(self, field.name) for field in fields(self))
        return Changes(*(part.index_select(0, index).squeeze(0) for part in parts))


def draw_changes(aspects: Tensor, generator: torch.Generator) -> Changes:
    """Draw changes of images whose width is ``aspects`` (...) times their height."""
    shape = aspects.shape
    jitter = JITTER * (2 * torch.rand((*shape, 4), generator=generator) - 1)
    orders = torch.tensor(list(permutations(range(4))))
    order = orders[torch.randint(len(orders), shape, generator=generator)]
    return Changes(
        box=_draw_boxes(aspects, generator),
        is_flipped=torch.rand(shape, generator=generator) < P_FLIP,
        blends=arrange_blends(1 + jitter[..., :_HUE], order),
        hue=jitter[..., _HUE],
        is_grey=torch.rand(shape, generator=generator) < P_GREY,
    )


def arrange_blends(factors: Tensor, order: Tensor) -> Tensor:
    """Arrange blends (..., 6, 3) of ``factors`` (..., 3) of brightness, contrast and saturation.

    ``order`` (..., 4) names these three by 0, 1 and 2 and the hue by 3, first things first.
    """
    # Something before the hue goes to the slot of its place, something after it to one of the
    # last three: its place less one, for the hue has none, and three more.
    place, hue = order.argsort(dim=-1), (order == _HUE).long().argmax(dim=-1, keepdim=True)
    slots = torch.where(place < hue, place, place + _SLOTS - 1)[..., :_HUE]
    nothing = torch.tensor([1.0, 0.0, 0.0], dtype=factors.dtype)
    weights = nothing.repeat(*factors.shape, 1)  # (..., 3, 3) of brightness, contrast, saturation
    weights[..., 0] = factors
    weights[..., _CONTRAST, 1] = 1 - factors[..., _CONTRAST]
    weights[..., _SATURATION, 2] = 1 - factors[..., _SATURATION]
    blends = nothing.repeat(*order.shape[:-1], 2 * _SLOTS, 1)
    return blends.scatter(-2, slots.unsqueeze(-1).expand_as(weights), weights)


def change(pixels: Tensor, changes: Changes, size: int) -> Tensor:
    """Change images (b, 3, h, w) in [0, 1] and make them ``size`` x ``size`` pixels large."""
    x = crop(pixels, changes.box, changes.is_flipped, size)
    slots = changes.blends.unbind(dim=1)
    for weights in slots[:_SLOTS]:
        x = blend(x, weights)
    x = turn_hue(x, changes.hue)
    for weights in slots[_SLOTS:]:
        x = blend(x, weights)
    return torch.where(changes.is_grey[:, None, None, None], grey(x), x)


def crop(pixels: Tensor, box: Tensor, is_flipped: Tensor, size: int) -> Tensor:
    """Resample parts ``box`` (b, 4) of images to ``size``, mirrored where ``is_flipped`` (b,)."""
    left, top, width, height = box.unbind(dim=1)
    across = torch.where(is_flipped, -width, width)
    nothing = torch.zeros_like(width)
    # In the coordinates of a grid the image spans [-1, 1].
    maps = torch.stack(
        [across, nothing, 2 * left + width - 1, nothing, height, 2 * top + height - 1]
    )
    shape = [len(pixels), pixels.shape[1], size, size]
    grid = functional.affine_grid(maps.T.reshape(-1, 2, 3), shape, align_corners=False)
    return functional.grid_sample(pixels, grid, padding_mode="border", align_corners=False)


def whole(pixels: Tensor, size: int) -> Tensor:
    """Resample whole images (b, 3, h, w) bilinearly to ``size``."""
    box = torch.tensor([0.0, 0.0, 1.0, 1.0], device=pixels.device).expand(len(pixels), 4)
    return crop(pixels, box, torch.zeros(len(pixels), dtype=torch.bool, device=pixels.device), size)


def grey(x: Tensor) -> Tensor:
    """Return the luma (b, 1, h, w) of images (b, 3, h, w)."""
    red, green, blue = torch.split(x, 1, dim=1)
    return _LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue


def blend(x: Tensor, weights: Tensor) -> Tensor:
    """Mix images, their mean grey and their grey by ``weights`` (b, 3), cut to [0, 1]."""
    own, flat, luma = weights[:, :, None, None, None].unbind(dim=1)
    shades = grey(x)
    reference = flat * shades.mean(dim=(2, 3), keepdim=True) + luma * shades
    return (own * x + reference).clamp(0, 1)


def turn_hue(x: Tensor, turn: Tensor) -> Tensor:
    """Turn all hues of images (b, 3, h, w) by a share of the circle, ``turn`` (b,)."""
    red, green, blue = torch.split(x, 1, dim=1)
    value = x.amax(dim=1, keepdim=True)
    chroma = value - x.amin(dim=1, keepdim=True)
    scale = chroma.clamp(min=torch.finfo(x.dtype).tiny)
    # The hue in sixths of the circle: 0 is red, 2 green and 4 blue. Grey has any.
    hue = torch.where(
        value == red,
        (green - blue) / scale,
        torch.where(value == green, (blue - red) / scale + 2, (red - green) / scale + 4),
    )
    hue = hue + 6 * turn[:, None, None, None]
    # Made on the device: a CUDA graph cannot wait for a copy from the host.
    start = torch.arange(5, 0, -2, dtype=x.dtype, device=x.device)[:, None, None]
    away = (start + hue).remainder(6)
    return value - chroma * torch.minimum(away, 4 - away).clamp(0, 1)


def _draw_boxes(aspects: Tensor, generator: torch.Generator) -> Tensor:
    """Draw crops (..., 4): of several attempts the first that fits, or else the middle."""
    shape = (ATTEMPTS, *aspects.shape)
    area = AREA[0] + (AREA[1] - AREA[0]) * torch.rand(shape, generator=generator)
    low, high = (math.log(ratio) for ratio in ASPECT)
    ratio = torch.exp(low + (high - low) * torch.rand(shape, generator=generator))
    widths, heights = (area * ratio / aspects).sqrt(), (area / ratio * aspects).sqrt()
    fits = (widths <= 1) & (heights <= 1)
    first = fits.long().argmax(dim=0, keepdim=True)
    found = fits.any(dim=0)
    middle = aspects.clamp(*ASPECT)  # the nearest aspect that is allowed
    width = torch.where(found, widths.gather(0, first)[0], (middle / aspects).clamp(max=1))
    height = torch.where(found, heights.gather(0, first)[0], (aspects / middle).clamp(max=1))
    places = torch.rand((2, *aspects.shape), generator=generator)
    places = torch.where(found, places, 0.5)
    return torch.stack([places[0] * (1 - width), places[1] * (1 - height), width, height], dim=-1)
