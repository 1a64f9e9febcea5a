"""The evidence behind a report: heads on rows that they were not fitted on, under stress."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from regraft.core.domains import check_domains
from regraft.core.heads import check_ridge
from regraft.core.hull import Objective, check_objective, check_rank
from regraft.core.hull_adversary import HullOptions
from regraft.estimators.audit import RADII, AuditCurve, check_radii, worst_cases
from regraft.estimators.baselines import ERMClassifier, GroupDROClassifier
from regraft.estimators.frontier import Frontier, HeldOut
from regraft.estimators.game_head import warn_unless_converged
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
    """Measure ERM, GroupDRO and CRO at ``radius``, by source and by radius, on rows held out.

    As in :func:`regraft.frontier`, two thirds of the rows fit the heads and name the plausible
    targets, and the others measure; ``seed`` shuffles them first. Raises ``ValueError`` with one
    sentence where there are too few rows.
    """
    radii = check_radii([*radii, radius])
    check_objective(objective)
    check_ridge(ridge)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # shown when all rows were fitted
        domains = check_domains(X, y, sample_domain, device=device)
    check_rank(rank, len(domains.classes))
    on_progress("fitting on two thirds of the rows, to measure on the others")
    held_out = HeldOut.of(domains, rank, seed)
    heads: dict[str, Tensor] = {}
    for name, solver in {"ERM": ERMClassifier(), "GroupDRO": GroupDROClassifier()}.items():
        on_progress(f"putting {name} under stress")
        heads[name] = solver.solve(held_out.sources)
    options: HullOptions = {"rank": rank, "objective": objective}
    price, games = held_out.frontier(radii, ridge, options, on_progress)
    warn_unless_converged(games[radius], "max_rounds or tolerance, or the ridge")
    heads["CRO"] = games[radius].head
    return StressTest(
        tuple(_put_under_stress(held_out, name, head, radii) for name, head in heads.items()),
        price,
        dict(zip(held_out.names, held_out.hull.sources.norm(dim=1).tolist(), strict=True)),
        fitted=len(held_out.sources.y),
        measured=len(held_out.test.y),
    )


def _put_under_stress(
    held_out: HeldOut, name: str, head: Tensor, radii: Sequence[float]
) -> StressedHead:
    loss, error = held_out.measure(head)
    points = worst_cases(held_out.tilted, held_out.hull, loss, error, radii, held_out.names)
    right, domain = 1 - error.cpu().numpy(), held_out.test.domain.cpu().numpy()
    accuracy = {name: float(right[domain == s].mean()) for s, name in enumerate(held_out.names)}
    curve = AuditCurve(tuple(points), source_accuracy=float(np.mean([*accuracy.values()])))
    return StressedHead(name, accuracy, curve)
