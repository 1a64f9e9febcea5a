"""The evidence behind a report: heads on rows that they were not fitted on, under stress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from regraft.core.domains import check_domains
from regraft.core.heads import fit_source_heads
from regraft.core.hull import Objective, plausible_targets, tilt_rows
from regraft.core.newton import log_probabilities, losses
from regraft.core.splitting import hold_out
from regraft.estimators.audit import (
    RADII,
    AuditCurve,
    Frontier,
    frontier,
    worst_cases,
)
from regraft.estimators.baselines import ERMClassifier, GroupDROClassifier
from regraft.estimators.cro import CROClassifier
from regraft.support.progress import OnProgress, ignore_progress


@dataclass(frozen=True)
class StressedHead:
    """One head on the held-out rows."""

    name: str
    accuracy: dict[str, float]  # by source
    curve: AuditCurve


@dataclass(frozen=True)
class StressTest:
    """Heads fitted on some of the rows and measured on the others; ERM first, CRO last."""

    heads: tuple[StressedHead, ...]
    frontier: Frontier
    distances: dict[str, float]  # of each source from their mean, in nats: the scale of radii
    fitted: int  # rows
    measured: int  # rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dictionaries."""
        return asdict(self)


def stress_test(
    X: ArrayLike,
    y: ArrayLike,
    sample_domain: ArrayLike,
    *,
    radius: float = 8.0,
    radii: Sequence[float] = RADII,
    rank: int | None = None,
    objective: Objective = "risk",
    ridge: float | None = None,
    seed: int | None = None,
    device: str = "cpu",
    on_progress: OnProgress = ignore_progress,
) -> StressTest:
    """ERM, GroupDRO and CRO at ``radius``: accuracy by source, worst case by radius, and its price.

    As in :func:`regraft.frontier`, two thirds of the rows fit the heads and name the plausible
    targets, and the others measure; ``seed`` shuffles them first. Raises ``ValueError`` with one
    sentence where there are too few rows.
    """
    domains = check_domains(X, y, sample_domain, device=device)
    train, test = hold_out(domains, seed=seed)
    radii = sorted({*radii, radius})
    on_progress("fitting on two thirds of the rows, to measure on the others")
    sources = fit_source_heads(train)
    hull, _ = plausible_targets(sources, rank)
    Z = sources.whitening(test.X)
    measured = tilt_rows(hull, Z, test.y, test.weight)
    names = [str(name) for name in domains.names]

    def put_under_stress(name: str, head: Tensor) -> StressedHead:
        log_p = log_probabilities(Z, head)
        error = (log_p.argmax(dim=1) != test.y).to(log_p.dtype)
        points = worst_cases(measured, hull, losses(log_p, test.y), error, radii, names)
        right = 1 - error.cpu().numpy()
        domain = test.domain.cpu().numpy()
        accuracy = {name: float(right[domain == s].mean()) for s, name in enumerate(names)}
        curve = AuditCurve(tuple(points), source_accuracy=float(np.mean([*accuracy.values()])))
        return StressedHead(name, accuracy, curve)

    cro = CROClassifier(radius, rank=rank, objective=objective, ridge=ridge, device=device)
    solvers = {"ERM": ERMClassifier(), "GroupDRO": GroupDROClassifier(), "CRO": cro}
    heads = []
    for name, solver in solvers.items():
        on_progress(f"putting {name} under stress")
        heads.append(put_under_stress(name, solver.solve(sources)))
    price = frontier(
        X, y, sample_domain, radii,
        objective=objective, rank=rank, ridge=ridge, seed=seed, device=device,
        on_progress=on_progress,
    )  # fmt: skip
    norms = hull.sources.norm(dim=1).tolist()
    distances = dict(zip(names, norms, strict=True))
    return StressTest(tuple(heads), price, distances, len(train.y), len(test.y))
