"""Published test accuracies (%), to set beside our own.

DomainBed's are its authors' reference tables (3 trials, 20 configurations). In Colored MNIST's
"+90%" the colour agrees with the label in 90% of the images, in "-90%" it disagrees in as many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from regraft.bench.datasets.colored_mnist import ENVIRONMENTS

PACS_ENVIRONMENTS = ("A", "C", "P", "S")
OFFICE_HOME_ENVIRONMENTS = ("A", "C", "P", "R")
Source = Literal["DomainBed", "CRO paper"]
_Cell = tuple[float, float]


@dataclass(frozen=True)
class Published:
    """One row of a published table, in percent."""

    algorithm: str
    source: Source
    cells: Mapping[str, _Cell]  # held-out environment -> mean, standard error
    average: float


def _row(
    source: Source,
    algorithm: str,
    plus90: _Cell,
    plus80: _Cell,
    minus90: _Cell,
    average: float,
) -> Published:
    cells = dict(zip(ENVIRONMENTS, (plus90, plus80, minus90), strict=True))
    return Published(algorithm, source, cells, average)


def _rows(
    environments: tuple[str, ...], means: Mapping[str, tuple[tuple[_Cell, ...], float]]
) -> tuple[Published, ...]:
    """Rows of cells and an average by algorithm; CRO's are the paper's, the others DomainBed's."""
    return tuple(
        Published(
            algorithm,
            "CRO paper" if algorithm == "CRO" else "DomainBed",
            dict(zip(environments, cells, strict=True)),
            average,
        )
        for algorithm, (cells, average) in means.items()
    )


# Chosen by the accuracy on held-out rows of the training environments.
TRAINING_DOMAIN = (
    _row("DomainBed", "ERM", (71.7, 0.1), (72.9, 0.2), (10.0, 0.1), 51.5),
    _row("DomainBed", "IRM", (72.5, 0.1), (73.3, 0.5), (10.2, 0.3), 52.0),
    _row("DomainBed", "GroupDRO", (73.1, 0.3), (73.2, 0.2), (10.0, 0.2), 52.1),
    _row("DomainBed", "Mixup", (72.7, 0.4), (73.4, 0.1), (10.1, 0.1), 52.1),
    _row("DomainBed", "MLDG", (71.5, 0.2), (73.1, 0.2), (9.8, 0.1), 51.5),
    _row("DomainBed", "CORAL", (71.6, 0.3), (73.1, 0.1), (9.9, 0.1), 51.5),
    _row("DomainBed", "MMD", (71.4, 0.3), (73.1, 0.2), (9.9, 0.3), 51.5),
    _row("DomainBed", "DANN", (71.4, 0.9), (73.1, 0.1), (10.0, 0.0), 51.5),
    _row("DomainBed", "CDANN", (72.0, 0.2), (73.0, 0.2), (10.2, 0.1), 51.7),
    _row("DomainBed", "MTL", (70.9, 0.2), (72.8, 0.3), (10.5, 0.1), 51.4),
    _row("DomainBed", "SagNet", (71.8, 0.2), (73.0, 0.2), (10.3, 0.0), 51.7),
    _row("DomainBed", "ARM", (82.0, 0.5), (76.5, 0.3), (10.2, 0.0), 56.2),
    _row("DomainBed", "VREx", (72.4, 0.3), (72.9, 0.4), (10.2, 0.0), 51.8),
    _row("DomainBed", "RSC", (71.9, 0.3), (73.1, 0.2), (10.0, 0.2), 51.7),
    _row("CRO paper", "CRO", (72.1, 0.7), (72.4, 0.3), (76.0, 0.7), 73.5),
)

# Chosen by the accuracy on held-out rows of the test environment itself.
ORACLE = (
    _row("DomainBed", "ERM", (71.8, 0.4), (72.9, 0.1), (28.7, 0.5), 57.8),
    _row("DomainBed", "IRM", (72.0, 0.1), (72.5, 0.3), (58.5, 3.3), 67.7),
    _row("DomainBed", "GroupDRO", (73.5, 0.3), (73.0, 0.3), (36.8, 2.8), 61.1),
    _row("DomainBed", "Mixup", (72.5, 0.2), (73.9, 0.4), (28.6, 0.2), 58.4),
    _row("DomainBed", "MLDG", (71.9, 0.3), (73.5, 0.2), (29.1, 0.9), 58.2),
    _row("DomainBed", "CORAL", (71.1, 0.2), (73.4, 0.2), (31.1, 1.6), 58.6),
    _row("DomainBed", "MMD", (69.0, 2.3), (70.4, 1.6), (50.6, 0.2), 63.3),
    _row("DomainBed", "DANN", (72.4, 0.5), (73.9, 0.5), (24.9, 2.7), 57.0),
    _row("DomainBed", "CDANN", (71.8, 0.5), (72.9, 0.1), (33.8, 6.4), 59.5),
    _row("DomainBed", "MTL", (71.2, 0.2), (73.5, 0.2), (28.0, 0.6), 57.6),
    _row("DomainBed", "SagNet", (72.1, 0.3), (73.2, 0.3), (29.4, 0.5), 58.2),
    _row("DomainBed", "ARM", (84.9, 0.9), (76.8, 0.6), (27.9, 2.1), 63.2),
    _row("DomainBed", "VREx", (72.8, 0.3), (73.0, 0.3), (55.2, 4.0), 67.0),
    _row("DomainBed", "RSC", (72.0, 0.1), (73.2, 0.1), (30.2, 1.6), 58.5),
)

# Of images, chosen by the accuracy on held-out rows of the training environments.
PACS = _rows(
    PACS_ENVIRONMENTS,
    {
        "ERM": (((84.7, 0.4), (80.8, 0.6), (97.2, 0.3), (79.3, 1.0)), 85.5),
        "IRM": (((84.8, 1.3), (76.4, 1.1), (96.7, 0.6), (76.1, 1.0)), 83.5),
        "GroupDRO": (((83.5, 0.9), (79.1, 0.6), (96.7, 0.3), (78.3, 2.0)), 84.4),
        "Mixup": (((86.1, 0.5), (78.9, 0.8), (97.6, 0.1), (75.8, 1.8)), 84.6),
        "MLDG": (((85.5, 1.4), (80.1, 1.7), (97.4, 0.3), (76.6, 1.1)), 84.9),
        "CORAL": (((88.3, 0.2), (80.0, 0.5), (97.5, 0.3), (78.8, 1.3)), 86.2),
        "MMD": (((86.1, 1.4), (79.4, 0.9), (96.6, 0.2), (76.5, 0.5)), 84.6),
        "DANN": (((86.4, 0.8), (77.4, 0.8), (97.3, 0.4), (73.5, 2.3)), 83.6),
        "CDANN": (((84.6, 1.8), (75.5, 0.9), (96.8, 0.3), (73.5, 0.6)), 82.6),
        "MTL": (((87.5, 0.8), (77.1, 0.5), (96.4, 0.8), (77.3, 1.8)), 84.6),
        "SagNet": (((87.4, 1.0), (80.7, 0.6), (97.1, 0.1), (80.0, 0.4)), 86.3),
        "ARM": (((86.8, 0.6), (76.8, 0.5), (97.4, 0.3), (79.3, 1.2)), 85.1),
        "VREx": (((86.0, 1.6), (79.1, 0.6), (96.9, 0.5), (77.7, 1.7)), 84.9),
        "RSC": (((85.4, 0.8), (79.7, 1.8), (97.6, 0.3), (78.2, 1.2)), 85.2),
        "CRO": (((82.8, 0.5), (81.0, 0.7), (97.5, 1.1), (77.0, 4.2)), 84.6),
    },
)
OFFICE_HOME = _rows(
    OFFICE_HOME_ENVIRONMENTS,
    {
        "ERM": (((61.3, 0.7), (52.4, 0.3), (75.8, 0.1), (76.6, 0.3)), 66.5),
        "IRM": (((58.9, 2.3), (52.2, 1.6), (72.1, 2.9), (74.0, 2.5)), 64.3),
        "GroupDRO": (((60.4, 0.7), (52.7, 1.0), (75.0, 0.7), (76.0, 0.7)), 66.0),
        "Mixup": (((62.4, 0.8), (54.8, 0.6), (76.9, 0.3), (78.3, 0.2)), 68.1),
        "MLDG": (((61.5, 0.9), (53.2, 0.6), (75.0, 1.2), (77.5, 0.4)), 66.8),
        "CORAL": (((65.3, 0.4), (54.4, 0.5), (76.5, 0.1), (78.4, 0.5)), 68.7),
        "MMD": (((60.4, 0.2), (53.3, 0.3), (74.3, 0.1), (77.4, 0.6)), 66.3),
        "DANN": (((59.9, 1.3), (53.0, 0.3), (73.6, 0.7), (76.9, 0.5)), 65.9),
        "CDANN": (((61.5, 1.4), (50.4, 2.4), (74.4, 0.9), (76.6, 0.8)), 65.8),
        "MTL": (((61.5, 0.7), (52.4, 0.6), (74.9, 0.4), (76.8, 0.4)), 66.4),
        "SagNet": (((63.4, 0.2), (54.8, 0.4), (75.8, 0.4), (78.3, 0.3)), 68.1),
        "ARM": (((58.9, 0.8), (51.0, 0.5), (74.1, 0.1), (75.2, 0.3)), 64.8),
        "VREx": (((60.7, 0.9), (53.0, 0.9), (75.3, 0.1), (76.6, 0.5)), 66.4),
        "RSC": (((60.7, 1.4), (51.4, 0.3), (74.8, 1.1), (75.1, 1.3)), 65.5),
        "CRO": (((64.8, 0.7), (54.9, 1.2), (77.9, 1.7), (79.4, 0.7)), 69.3),
    },
)
