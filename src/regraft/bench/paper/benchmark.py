"""The experiments of the paper: their environments, what is published, what is fixed."""

from __future__ import annotations

from dataclasses import dataclass

from regraft.bench.datasets.colored_mnist import ENVIRONMENTS
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


IMAGE_BENCHMARKS = {
    "pacs": Benchmark("PACS", "PACS", PACS_ENVIRONMENTS, 7, PACS),
    "officehome": Benchmark("OfficeHome", "OfficeHome", OFFICE_HOME_ENVIRONMENTS, 65, OFFICE_HOME),
}
