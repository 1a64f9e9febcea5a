"""The worst case of a fixed predictor over plausible targets, and the price of robustness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regraft.adversary import (
    Hull,
    Objective,
    Surrogates,
    attack,
    check_objective,
    check_radius,
    check_rank,
    fit_hull,
    make_surrogates,
)
from regraft.domains import Domains, check_domains
from regraft.game import play
from regraft.heads import SourceHeads, fit_source_heads
from regraft.newton import log_probabilities, losses

RADII = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# Probabilities below this are treated as this, so that one confident error has a finite risk.
_FLOOR = 1e-12
_HOLD_OUT = 3  # frontier measures on every third row


@runtime_checkable
class Predictor(Protocol):
    """Anything with class probabilities."""

    classes_: NDArray[Any]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (n, C), columns in the order of ``classes_``."""


@dataclass(frozen=True)
class AuditPoint:
    """The worst case within one radius."""

    radius: float
    risk: float  # largest cross-entropy over the targets within the radius (nats)
    accuracy: float  # smallest accuracy over them
    risk_target: dict[str, float]  # affine coefficients of the sources at the former
    accuracy_target: dict[str, float]  # and at the latter
    sample_size: float  # effective number of rows behind that accuracy


@dataclass(frozen=True)
class AuditCurve:
    """Worst-case risk and accuracy of one predictor over the radius."""

    points: tuple[AuditPoint, ...]
    source_accuracy: float  # mean over the source domains

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dictionaries."""
        return asdict(self)

    def plot(self, path: str, name: str = "predictor") -> None:
        """Write the curve as a picture (needs the extra ``plots``)."""
        from regraft.plots import plot_audit

        plot_audit({name: self}, path)


@dataclass(frozen=True)
class FrontierPoint:
    """A head trained at one radius, measured on rows that it was not trained on."""

    radius: float
    source_accuracy: float
    worst_case_accuracy: float  # over targets within the frontier's audit radius
    worst_case_risk: float


@dataclass(frozen=True)
class Frontier:
    """What robustness costs on the sources, and what it buys in the worst case."""

    points: tuple[FrontierPoint, ...]
    audit_radius: float

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dictionaries."""
        return asdict(self)

    def plot(self, path: str) -> None:
        """Write the frontier as a picture (needs the extra ``plots``)."""
        from regraft.plots import plot_frontier

        plot_frontier(self, path)


def audit(
    predictor: Predictor | ArrayLike,
    X: ArrayLike,
    y: ArrayLike,
    sample_domain: ArrayLike,
    radii: Sequence[float] = RADII,
    *,
    rank: int | None = None,
    device: str = "cpu",
) -> AuditCurve:
    """Worst-case risk and accuracy of a fixed predictor within each radius: the frozen regime.

    ``predictor`` is a fitted classifier with ``predict_proba``, or its probabilities (n, C) on
    the rows of ``X``, columns in sorted order of the labels. The plausible targets come from
    ``X``, ``y``, ``sample_domain`` alone, so any two predictors are audited against the same.
    """
    radii = _check_radii(radii)
    domains = check_domains(X, y, sample_domain, device=device)
    check_rank(rank, len(domains.classes))
    probabilities = _probabilities(predictor, X, domains)
    sources = fit_source_heads(domains)
    hull = fit_hull(sources.heads, sources.Z, sources.weight, rank)
    surrogates = make_surrogates(hull, sources.Z, sources.y, sources.weight)
    p = torch.from_numpy(probabilities).to(sources.Z)[sources.order]
    loss = losses(p.clamp_min(_FLOOR).log(), sources.y)
    error = (p.argmax(dim=1) != sources.y).to(p.dtype)
    names = [str(name) for name in domains.names]
    return AuditCurve(
        tuple(_worst_cases(surrogates, hull, loss, error, radii, names)),
        source_accuracy=1 - float(sources.weight @ error),
    )


def frontier(
    X: ArrayLike,
    y: ArrayLike,
    sample_domain: ArrayLike,
    radii: Sequence[float] = RADII,
    *,
    objective: Objective = "risk",
    rank: int | None = None,
    device: str = "cpu",
    on_point: Callable[[FrontierPoint], None] | None = None,
) -> Frontier:
    """Source accuracy against worst-case accuracy for heads trained at each radius.

    Two thirds of the rows train the heads, the others measure them. The worst case is taken
    within the largest of ``radii``, the same for all heads.
    """
    radii = _check_radii(radii)
    check_objective(objective)
    domains = check_domains(X, y, sample_domain, device=device)
    check_rank(rank, len(domains.classes))
    train, test = _split(domains)
    sources = fit_source_heads(train)
    hull = fit_hull(sources.heads, sources.Z, sources.weight, rank)
    fitted = make_surrogates(hull, sources.Z, sources.y, sources.weight)
    Z = sources.whitening(test.X)
    measured = make_surrogates(hull, Z, test.y, test.weight)
    points = []
    for radius in radii:
        head = _head_at(radius, sources, fitted, objective)
        log_p = log_probabilities(Z, head)
        error = (log_p.argmax(dim=1) != test.y).to(log_p.dtype)
        point = FrontierPoint(
            radius=radius,
            source_accuracy=1 - float(test.weight @ error),
            worst_case_accuracy=1 - attack(measured, error, max(radii)).value,
            worst_case_risk=attack(measured, losses(log_p, test.y), max(radii)).value,
        )
        points.append(point)
        if on_point is not None:
            on_point(point)
    return Frontier(tuple(points), audit_radius=max(radii))


def _head_at(
    radius: float, sources: SourceHeads, surrogates: Surrogates, objective: Objective
) -> Tensor:
    return play(
        sources.Z,
        surrogates,
        sources.pooled,
        radius=radius,
        ridge=sources.learner_ridge(None),
        objective=objective,
    ).head


def _worst_cases(
    surrogates: Surrogates,
    hull: Hull,
    loss: Tensor,
    error: Tensor,
    radii: Sequence[float],
    names: list[str],
) -> list[AuditPoint]:
    points: list[AuditPoint] = []

    def named(z: Tensor) -> dict[str, float]:
        return dict(zip(names, hull.coefficients(z).tolist(), strict=True))

    for radius in radii:
        risk, wrong = attack(surrogates, loss, radius), attack(surrogates, error, radius)
        point = AuditPoint(
            radius=radius,
            risk=risk.value,
            accuracy=1 - wrong.value,
            risk_target=named(risk.z),
            accuracy_target=named(wrong.z),
            sample_size=float(1 / wrong.weights.square().sum()),
        )
        if points:  # a larger ball holds the smaller one's worst target too
            last = points[-1]
            if last.risk > point.risk:
                point = replace(point, risk=last.risk, risk_target=last.risk_target)
            if last.accuracy < point.accuracy:
                point = replace(
                    point,
                    accuracy=last.accuracy,
                    accuracy_target=last.accuracy_target,
                    sample_size=last.sample_size,
                )
        points.append(point)
    return points


def _check_radii(radii: Sequence[float]) -> list[float]:
    values = sorted({float(radius) for radius in radii})
    if not values:
        raise ValueError("radii is empty: pass at least one radius.")
    for radius in values:
        check_radius(radius)
    return values


def _probabilities(
    predictor: Predictor | ArrayLike, X: ArrayLike, domains: Domains
) -> NDArray[np.float64]:
    """(n, C) finite probabilities whose columns follow ``domains.classes``."""
    n, n_classes = len(domains.y), len(domains.classes)
    if isinstance(predictor, Predictor):
        known = np.asarray(predictor.classes_)
        columns = [np.flatnonzero(known == label) for label in domains.classes]
        missing = [str(c) for c, at in zip(domains.classes, columns, strict=True) if not len(at)]
        if missing:
            raise ValueError(
                f"the predictor does not know class {missing[0]}: audit it on rows of the classes "
                "it was trained on."
            )
        probabilities = np.asarray(predictor.predict_proba(X), dtype=np.float64)
        return probabilities[:, np.concatenate(columns)]
    probabilities = np.asarray(predictor, dtype=np.float64)
    if probabilities.shape != (n, n_classes):
        raise ValueError(
            f"probabilities have shape {probabilities.shape}: pass one row per row of X and one "
            f"column per class, {(n, n_classes)}."
        )
    if not np.isfinite(probabilities).all() or probabilities.min() < 0:
        raise ValueError("probabilities hold negative, NaN or infinite values: pass probabilities.")
    if not np.allclose(probabilities.sum(axis=1), 1, atol=1e-3):
        raise ValueError("probabilities do not sum to one in every row: normalize them.")
    return probabilities


def _split(domains: Domains) -> tuple[Domains, Domains]:
    """Two thirds and one third of the rows, each domain and class in proportion."""
    y, domain = domains.y.cpu().numpy(), domains.domain.cpu().numpy()
    rank = np.empty(len(y), int)
    rank[np.lexsort((y, domain))] = np.arange(len(y))
    held_out = torch.from_numpy(rank % _HOLD_OUT == 1).to(domains.y.device)
    return _take(domains, ~held_out), _take(domains, held_out)


def _take(domains: Domains, mask: Tensor) -> Domains:
    domain = domains.domain[mask]
    counts = torch.bincount(domain, minlength=len(domains.names))
    if not bool((counts > 0).all()):
        raise ValueError("a domain has too few rows to hold a third of them out: add rows.")
    weight = 1.0 / (len(counts) * counts[domain]).to(domains.weight.dtype)
    return replace(domains, X=domains.X[mask], y=domains.y[mask], domain=domain, weight=weight)
