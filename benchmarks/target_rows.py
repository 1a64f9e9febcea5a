"""Targets of which it is known whether they are a mixture of what the sources have.

Gaussian groups whose laws are known; PACS photos beside three other styles; and coloured digits
with a featurizer trained as in make_banks.py: as they are, noisy, and printed in a font.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import HERE, SHARED
from make_banks import draw_cell, save, train_featurizer
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from safetensors.numpy import load_file
from scipy.special import logsumexp

from regraft import CROClassifier, load_demo
from regraft.bench.datasets.colored_mnist import ColouredDigits, make_environments
from regraft.bench.paper.pretraining import embed

PIXELS = HERE / "data" / "target" / "pixels.safetensors"
SOURCE_ROWS, TARGET_ROWS, ALIEN_ROWS = 6_000, 12_000, 3_000
NOISE = 64.0  # of pixels, 0 to 255
CELL = 2  # the environment -90 % is the target
FEATURES = 10


@dataclass(frozen=True)
class GaussianGroups:
    """Two groups of two classes, Gaussian around known means; each group has its own direction."""

    means: NDArray[np.float64]  # (2, 2, d) of group and class
    sources: NDArray[np.float64]  # (K,) share of group 1

    def draw(self, n: int, share: float, random: Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        """Draw features (n, d) and labels (n,) of a domain with this share of group 1."""
        u, y = (random.random(n) < share).astype(int), random.integers(2, size=n)
        return self.means[u, y] + random.standard_normal((n, self.means.shape[2])), y

    def draw_sources(self, n: int, random: Generator) -> tuple[NDArray[Any], ...]:
        parts = [self.draw(n, share, random) for share in self.sources]
        X, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return X, y, np.repeat(np.arange(len(self.sources)), n)

    def log_p(self, X: NDArray[Any], share: float) -> NDArray[Any]:
        """Log P(y | x) (n, 2) in a domain with this share of group 1."""
        log_density = np.einsum("nd,gcd->ngc", X, self.means) - 0.5 * (self.means**2).sum(axis=2)
        joint = logsumexp(log_density + np.log([1 - share, share])[:, None], axis=1)
        log_p: NDArray[Any] = joint - logsumexp(joint, axis=1, keepdims=True)
        return log_p


def draw_groups(random: Generator) -> GaussianGroups:
    """Groups 3 to 4 deviations apart; in each, classes 1.7 to 1.9 apart in its own direction."""
    basis = np.linalg.qr(random.standard_normal((FEATURES, 3)))[0].T
    apart, *within = random.uniform(3, 4) / 2, *random.uniform(0.85, 0.95, size=2)
    means = np.array(
        [
            [
                (2 * u - 1) * apart * basis[0] + (2 * y - 1) * within[u] * basis[1 + u]
                for y in (0, 1)
            ]
            for u in (0, 1)
        ]
    )
    return GaussianGroups(means, random.permutation([0.9, 0.75, 0.6]))


@functools.cache
def read_pacs() -> tuple[CROClassifier, NDArray[np.float64]]:
    """A model of art, cartoon and sketch, and the photos."""
    data = np.load(SHARED / "pacs" / "efficientnet_lite0.npz", allow_pickle=False)
    names, X = data["domains"][data["domain"]], data["X"].astype(np.float64)
    unseen = names == "photo"
    return CROClassifier().fit(X[~unseen], data["y"][~unseen], names[~unseen]), X[unseen]


@functools.cache
def read_demo() -> tuple[CROClassifier, NDArray[np.float64], NDArray[np.bool_]]:
    """A model of the demo bank, its target rows, and whether their colours agree with labels."""
    demo = load_demo("-90%")
    model = CROClassifier().fit(demo.X, demo.y, demo.sample_domain)
    return model, demo.X_target, demo.colour_target == demo.y_target


@functools.cache
def read_digits(mnist: Path) -> tuple[CROClassifier, dict[str, NDArray[Any]]]:
    """A model of two sources of coloured digits, and features of digits that nothing has seen."""
    if not PIXELS.exists():
        PIXELS.parent.mkdir(parents=True, exist_ok=True)
        save(embed_digits(mnist), PIXELS, {"noise": str(NOISE)})
    bank = {name: values.astype(np.float64) for name, values in load_file(PIXELS).items()}
    model = CROClassifier().fit(bank["X"], bank["y"].astype(int), bank["domain"])
    return model, bank


def embed_digits(mnist: Path, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Train the featurizer and embed sources, the target, a noisy target, and printed digits."""
    torch.manual_seed(seed)
    draw = draw_cell(CELL, mnist, seed)
    network = train_featurizer(draw, "cuda" if torch.cuda.is_available() else "cpu").cpu()
    random = np.random.default_rng(seed)
    target = take(draw.environments[CELL], torch.arange(TARGET_ROWS))
    noisy = take(draw.environments[CELL], TARGET_ROWS + torch.arange(ALIEN_ROWS))
    noise = NOISE * torch.from_numpy(random.standard_normal(noisy.images.shape))
    noisy = replace(noisy, images=(noisy.images + noise).clamp(0, 255).to(torch.uint8))
    digits = random.integers(10, size=3 * ALIEN_ROWS).astype(np.uint8)
    printed = make_environments(print_digits(digits, random), digits, seed)[CELL]
    rows = [
        take(draw.environments[i], t[:SOURCE_ROWS])
        for i, t in zip(draw.sources, draw.train, strict=True)
    ]
    found = {
        "X": torch.cat([embed(network, each) for each in rows]),
        "y": torch.cat([each.y for each in rows]),
        "domain": torch.arange(len(rows)).repeat_interleave(SOURCE_ROWS),
        "target": embed(network, target),
        "agrees": (target.colour == target.y).long(),
        "noisy": embed(network, noisy),
        "printed": embed(network, printed),
    }
    return {name: values.numpy() for name, values in found.items()}


def take(digits: ColouredDigits, rows: torch.Tensor) -> ColouredDigits:
    return ColouredDigits(digits.images[rows], digits.y[rows], digits.colour[rows])


def print_digits(digits: NDArray[np.uint8], random: Generator) -> NDArray[np.uint8]:
    """Images (n, 28, 28) of digits in Pillow's own font, of several sizes and places."""
    fonts = [ImageFont.load_default(size) for size in range(18, 27)]
    images = np.empty((len(digits), 28, 28), np.uint8)
    for at, digit in enumerate(digits):
        image = Image.new("L", (28, 28))
        place = tuple(14 + random.integers(-2, 3, size=2))
        font = fonts[random.integers(len(fonts))]
        ImageDraw.Draw(image).text(place, str(digit), fill=255, font=font, anchor="mm")
        images[at] = np.asarray(image)
    return images
