"""The experiments of the paper: their environments, what is published, what is fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regraft.bench.datasets.colours import ENVIRONMENTS
from regraft.bench.paper.published import (
    OFFICE_HOME,
    OFFICE_HOME_ENVIRONMENTS,
    PACS,
    PACS_ENVIRONMENTS,
    TRAINING_DOMAIN,
    Published,
)


@dataclass(frozen=True)
class Benchmark:
    """An experiment that holds out one environment at a time."""

    name: str  # DomainBed's, from which seeds follow
    title: str
    environments: tuple[str, ...]
    n_classes: int
    published: tuple[Published, ...]  # chosen by training-domain validation
    # Hyperparameters of the hull that no configuration draws, where they are not the usual ones.
    fixed: Mapping[str, Any] = field(default_factory=dict)
    sweeps_ranks: bool = False  # whether the transplant dimension is varied too
    compares_erm: bool = True  # whether tables also have ERM's rows, and the worst environment


COLORED_MNIST = Benchmark(
    name="ColoredMNIST",
    title="Colored MNIST",
    environments=ENVIRONMENTS,
    n_classes=2,
    published=TRAINING_DOMAIN,
    sweeps_ranks=True,
    compares_erm=False,
)


def _of_images(
    name: str, environments: tuple[str, ...], n_classes: int, published: tuple[Published, ...]
) -> Benchmark:
    # Heads of C classes differ in C - 1 directions: the whole hull.
    fixed = {"cro_rank": n_classes - 1}
    return Benchmark(name, name, environments, n_classes, published, fixed)


IMAGE_BENCHMARKS = {
    "pacs": _of_images("PACS", PACS_ENVIRONMENTS, 7, PACS),
    "officehome": _of_images("OfficeHome", OFFICE_HOME_ENVIRONMENTS, 65, OFFICE_HOME),
}
