"""Published test accuracies (%) on Colored MNIST, to set beside our own.

DomainBed's are its authors' reference tables (3 trials, 20 configurations). In "+90%" the colour
agrees with the label in 90% of the images, in "-90%" it disagrees in as many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from regraft.bench.colored_mnist import ENVIRONMENTS


@dataclass(frozen=True)
class Published:
    """One row of a published table, in percent."""

    algorithm: str
    source: Literal["DomainBed", "CRO paper"]
    cells: Mapping[str, tuple[float, float]]  # held-out environment -> mean, standard error
    average: float


def _row(
    source: Literal["DomainBed", "CRO paper"],
    algorithm: str,
    plus90: tuple[float, float],
    plus80: tuple[float, float],
    minus90: tuple[float, float],
    average: float,
) -> Published:
    cells = dict(zip(ENVIRONMENTS, (plus90, plus80, minus90), strict=True))
    return Published(algorithm, source, cells, average)


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
