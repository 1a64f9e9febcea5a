"""DomainBed's random changes of training images, drawn first and then applied with Pillow."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from regraft.support.extras import require

SIZE = 224  # pixels on each side of what the network sees
AREA = (0.7, 1.0)  # of the crop, as a share of the image
ASPECT = (3 / 4, 4 / 3)  # of the crop, width to height
ATTEMPTS = 10  # at a crop that fits into the image
P_FLIP, P_GREY = 0.5, 0.1
JITTER = 0.3

# What is done to a training image before its colours: a crop, a crop of the image made ``SIZE``
# pixels large, or nothing but this resizing. Some images are never changed.
Style = Literal["crop", "resize and crop", "resize", "never"]
Box = tuple[int, int, int, int]  # left, top, right and bottom edge


@dataclass(frozen=True)
class Change:
    """The changes of one image, in this order."""

    box: Box  # the part that is kept
    is_flipped: bool
    jitters: tuple[tuple[str, float], ...]  # one of Pillow's enhancers, or hue, and how much
    is_grey: bool


def draw_change(rng: np.random.Generator, width: int, height: int) -> Change:
    """Draw a random change of an image of ``width`` x ``height`` pixels."""
    box = _draw_box(rng, width, height)
    is_flipped = rng.random() < P_FLIP
    factors = rng.uniform(1 - JITTER, 1 + JITTER, size=3).tolist()
    hue = rng.uniform(-JITTER, JITTER)
    jitters = [*zip(("Brightness", "Contrast", "Color"), factors, strict=True), ("hue", hue)]
    order = rng.permutation(len(jitters)).tolist()
    return Change(box, is_flipped, tuple(jitters[i] for i in order), rng.random() < P_GREY)


def prepare_image(image: Any, seed: tuple[int, int] | None, style: Style) -> Any:
    """Make a Pillow image ``SIZE`` x ``SIZE`` pixels large, changed at random by a ``seed``."""
    if seed is None or style == "never":
        return resize(image)
    if style != "crop":
        image = resize(image)
    change = draw_change(np.random.default_rng(seed), *image.size)
    if style == "resize":
        change = replace(change, box=(0, 0, *image.size))
    return change_image(image, change)


def change_image(image: Any, change: Change) -> Any:
    """Change a Pillow image in RGB, and make it ``SIZE`` x ``SIZE`` pixels large."""
    image = resize(image.crop(change.box))
    if change.is_flipped:
        image = image.transpose(require("PIL.Image", "images").Transpose.FLIP_LEFT_RIGHT)
    for name, amount in change.jitters:
        if name == "hue":
            image = _turn_hue(image, amount)
        else:
            image = getattr(require("PIL.ImageEnhance", "images"), name)(image).enhance(amount)
    return image.convert("L").convert("RGB") if change.is_grey else image


def resize(image: Any) -> Any:
    """Make a Pillow image ``SIZE`` x ``SIZE`` pixels large."""
    return image.resize((SIZE, SIZE), require("PIL.Image", "images").Resampling.BILINEAR)


def _draw_box(rng: np.random.Generator, width: int, height: int) -> Box:
    for _ in range(ATTEMPTS):
        area = width * height * rng.uniform(*AREA)
        aspect = math.exp(rng.uniform(math.log(ASPECT[0]), math.log(ASPECT[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1))
            return left, top, left + w, top + h
    # The middle of the image, as much of it as has an allowed aspect.
    w = min(width, round(height * ASPECT[1]))
    h = min(height, round(width / ASPECT[0]))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def _turn_hue(image: Any, share: float) -> Any:
    """Turn all hues by a ``share`` of the circle, which Pillow parts into 256 steps."""
    steps = int(share * 255)
    hue, saturation, value = image.convert("HSV").split()
    turned = hue.point([(level + steps) % 256 for level in range(256)])
    merge = require("PIL.Image", "images").merge
    return merge("HSV", (turned, saturation, value)).convert("RGB")
