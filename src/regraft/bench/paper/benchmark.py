"""The experiments of the paper: their environments, what is published, what is fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from regraft.bench.datasets.colored_mnist import ENVIRONMENTS
from regraft.support.data_files import read_toml

Source = Literal["DomainBed", "CRO paper"]

_TABLES = read_toml(__package__, "published.toml")


@dataclass(frozen=True)
class Published:
    """One row of a published table of test accuracies, in percent."""

    algorithm: str
    source: Source
    cells: Mapping[str, tuple[float, float]]  # held-out environment -> mean, standard error
    average: float


def published_rows(name: str) -> tuple[Published, ...]:
    """Build the rows of one table of the data file, in its order."""
    environments = _TABLES[name]["environments"]
    return tuple(
        Published(
            algorithm,
            source,
            dict(zip(environments, map(tuple, row["cells"]), strict=True)),
            row["average"],
        )
        for source, rows in _TABLES[name]["rows"].items()
        for algorithm, row in rows.items()
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
    published=published_rows("training_domain"),
    sweeps_ranks=True,
    compares_erm=False,
)
IMAGE_BENCHMARKS = {
    name.lower(): Benchmark(
        name, name, tuple(_TABLES[table]["environments"]), n_classes, published_rows(table)
    )
    for name, table, n_classes in (("PACS", "pacs", 7), ("OfficeHome", "office_home", 65))
}
