"""Folders of small pictures and a small network, for tests of the experiments on images."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from regraft.bench.networks.featurizers import Featurizer

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
