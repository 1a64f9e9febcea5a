"""Folders of small pictures and a small network, for tests of the experiments on images."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from regraft.bench.networks.featurizers import Featurizer

TIMM_TOY = "test_resnet.r160_in1k"
DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")


def write_pacs(root: Path, each: int = 6, width: int = 36, height: int = 36) -> Path:
    """PACS with ``each`` pictures a class, whose class is the place of a square; its folder."""
    rng = np.random.default_rng(0)
    for shade, domain in enumerate(DOMAINS):
        for label, name in enumerate(CLASSES):
            folder = root / domain / name
            folder.mkdir(parents=True)
            for i in range(each):
                pixels = rng.integers(0, 60, (height, width, 3), dtype=np.uint8)
                top, left = 2 + 11 * (label // 3), 2 + 11 * (label % 3)
                pixels[top : top + 9, left : left + 9, shade % 3] += 180
                Image.fromarray(pixels).save(folder / f"{i}.png")
    return root


def write_photos(
    root: Path, domains: Sequence[str], classes: Sequence[str], n: int = 6, size: int = 24
) -> Path:
    """Write ``n`` pictures of noise a class: classes differ in brightness, domains in tint."""
    rng = np.random.default_rng(0)
    for i, domain in enumerate(domains):
        for j, label in enumerate(classes):
            (root / domain / label).mkdir(parents=True)
            light = np.full(3, 40 + 120 * j // (len(classes) - 1))
            light[i % 3] += 40
            for k in range(n):
                pixels = light + rng.integers(-20, 20, (size, size, 3))
                Image.fromarray(pixels.astype(np.uint8)).save(root / domain / label / f"{k}.png")
    return root


def small_featurizer(seed: int = 0) -> Featurizer:
    """A network that gives 8 features."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Conv2d(3, 8, 5, stride=3),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
    return Featurizer(network.eval(), (0.5, 0.4, 0.3), (0.2, 0.25, 0.3))
