"""Audits: a fixed predictor in the worst plausible targets of the hull, by radius."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regraft.core.domains import Domains, check_domains, warn_if_one_domain
from regraft.core.heads import fit_source_heads
from regraft.core.hull import Hull, attack, check_radius, check_rank
from regraft.core.newton import losses
from regraft.core.target_rows import TargetRows
from regraft.estimators.families import Family, check_settings
from regraft.estimators.parameter_types import sort_numbers
from regraft.premises.factorized_targets import check_n_groups, find_targets
from regraft.support.plain_data import PlainData
from regraft.support.shown import ShownResult
from regraft.support.table import Number, Table, percent, share
from regraft.support.threads import threads_by_size

RADII = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# Probabilities below this are treated as this, so that one confident error has a finite risk.
PROBABILITY_FLOOR = 1e-12
ONE_DOMAIN_CONSEQUENCE = "the only plausible target is the sources themselves"


class Predictor(Protocol):
    """Classifier that gives class probabilities."""

    classes_: NDArray[Any]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities (n, C), columns in the order of ``classes_``."""


@dataclass(frozen=True)
class AuditPoint:
    """The worst plausible domains within one radius."""

    radius: float
    risk: float  # largest cross-entropy over the targets within the radius (nats)
    accuracy: float  # smallest accuracy over them
    risk_target: dict[str, float]  # affine coefficients of the sources at the largest risk
    accuracy_target: dict[str, float]  # affine coefficients at the smallest accuracy
    sample_size: float  # effective number of rows behind that accuracy


@dataclass(frozen=True, repr=False)
class AuditCurve(ShownResult, PlainData):
    """Largest risk and lowest accuracy of one predictor in plausible domains, by radius."""

    points: tuple[AuditPoint, ...]
    source_accuracy: float  # mean over the source domains

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AuditCurve:
        """Rebuild a curve from :meth:`to_dict`, also after a round trip through JSON."""
        return cls(**{**data, "points": tuple(AuditPoint(**point) for point in data["points"])})

    def paragraphs(self) -> tuple[str, ...]:
        """Say in plain words how good the predictor is, and how bad it can get."""
        worst = self.points[-1]
        return (
            f"Measured on the rows audited, the predictor has {percent(self.source_accuracy)} on "
            f"the sources and {percent(worst.accuracy)} in the worst plausible domain within "
            f"{worst.radius:g} nats.",
        )

    def table(self) -> Table:
        """Show the largest risk and the lowest accuracy within each radius."""
        columns = "radius (nats)", "effective rows", "largest risk", "lowest accuracy"
        rows = tuple(
            (
                *(Number(p.radius, format="g"), Number(p.sample_size, format=".0f")),
                *(Number(p.risk, format=".3f"), share(p.accuracy)),
            )
            for p in self.points
        )
        return Table("The worst plausible domain within each radius", columns, rows)

    def plot(self, path: str, name: str = "predictor") -> None:
        """Draw the curve to the picture ``path`` (needs the extra ``plots``)."""
        from regraft.estimators.plots import plot_audit

        plot_audit({name: self}, path)


@threads_by_size
def audit(
    predictor: Predictor | ArrayLike,
    X: Any,
    y: ArrayLike,
    sample_domain: ArrayLike,
    radii: Sequence[float] = RADII,
    *,
    family: Family = "hull",
    rank: int | None = None,
    n_groups: int = 2,
    device: str = "cpu",
) -> AuditCurve:
    """Measure a fixed predictor in the worst plausible domain of a hull within each radius.

    Such a domain is made of the rows by weights that turn the heads of the sources, or their
    abductions, into an affine combination of them; the inputs move with the weights. The sources
    themselves count, too, so at radius 0 this is the worst of the sources and their mean.

    The plausible targets follow from ``X``, ``y`` and ``sample_domain`` alone, so all predictors
    are audited against the same targets. The numbers hold only for rows that the predictor was
    not fitted on: on its training rows it looks better than it is. Where they are those of a head
    of Regraft, a warning says so.

    Parameters
    ----------
    predictor : classifier or array-like (n, C)
        Fitted classifier with ``predict_proba``, or its probabilities on the rows of ``X``, with
        columns in sorted order of the labels.
    X, y, sample_domain : array-like (n, d), (n,), (n,)
        Features, labels and the domain of each row. ``X`` is what the predictor takes, such as a
        data frame for a pipeline. Plausible domains are made of the features that the head of a
        pipeline of Regraft sees; for other predictors, of numbers that
        :class:`~regraft.estimators.table_features.TableFeatures` makes of a data frame with texts
        or gaps.
    radii : sequence of float
        Distances from the sources' mean within which targets are plausible, in nats.
    family : {"hull", "factorized"}
        What counts as plausible, as in :class:`~regraft.estimators.cro.CROClassifier`. Mixtures of
        hidden groups are audited by :func:`regraft.audit_groups`, the free adversary's domains by
        :func:`regraft.audit_free`.
    rank, n_groups
        Settings of the families, as in :class:`~regraft.estimators.cro.CROClassifier`.
    device : str
        Where torch computes, such as "cpu" or "cuda".

    Returns
    -------
    AuditCurve

    Raises
    ------
    ValueError
        If the data, the predictor or a radius is not usable; the message says how to fix it.
    """
    # Reports read audits, and need not wait for scikit-learn.
    from regraft.estimators.pipelines import split_rows
    from regraft.estimators.raw_tables import fit_features
    from regraft.estimators.unseen import warn_if_seen

    if family == "latent":
        raise ValueError('the family "latent" has no radii: call audit_groups instead.')
    check_settings(family, {"rank": rank, "n_groups": n_groups})
    check_n_groups(n_groups)
    radii = check_radii(radii)
    predictor, X = split_rows(predictor, X)
    rows = fit_features(X, sample_domain)[1]
    domains = check_domains(rows, y, sample_domain, device=device)
    check_rank(rank, len(domains.classes))
    loss, error = judge_rows(predictor, X, domains)
    warn_if_seen(predictor, X, sample_domain)
    warn_if_one_domain(domains, ONE_DOMAIN_CONSEQUENCE)
    sources = fit_source_heads(domains)
    targets, _ = find_targets(sources, family, rank, n_groups)
    loss, error = loss[sources.order], error[sources.order]
    return AuditCurve(
        tuple(worst_cases(targets.rows, targets.hull, loss, error, radii, domains.texts)),
        source_accuracy=1 - float(sources.weight @ error),
    )


def worst_cases(
    surrogates: TargetRows,
    hull: Hull,
    loss: Tensor,
    error: Tensor,
    radii: Sequence[float],
    names: list[str],
) -> list[AuditPoint]:
    """Find the worst target within each radius, given losses and errors (n,) of the rows."""
    points: list[AuditPoint] = []
    riskiest: list[Tensor] = []
    wrongest: list[Tensor] = []

    def named(z: Tensor) -> dict[str, float]:
        return dict(zip(names, hull.coefficients(z).tolist(), strict=True))

    for radius in radii:
        # A larger ball holds the smaller one's worst targets too.
        risk = attack(surrogates, loss, radius, known=riskiest)
        wrong = attack(surrogates, error, radius, known=wrongest)
        riskiest, wrongest = [risk.z], [wrong.z]
        point = AuditPoint(
            radius=radius,
            risk=risk.value,
            accuracy=1 - wrong.value,
            risk_target=named(risk.z),
            accuracy_target=named(wrong.z),
            sample_size=float(1 / wrong.weights.square().sum()),
        )
        points.append(point)
    return points


def check_radii(radii: Sequence[float]) -> list[float]:
    """Return the radii once each, sorted, or raise ``ValueError`` with one sentence."""
    values = sort_numbers(radii, "radii")
    if not values:
        raise ValueError("radii is empty: pass at least one radius.")
    for radius in values:
        check_radius(radius)
    return values


def judge_rows(predictor: Predictor | ArrayLike, X: Any, domains: Domains) -> tuple[Tensor, Tensor]:
    """Return the losses and the errors (n,) of a predictor on the rows ``X`` of ``domains``."""
    probabilities, columns = _probabilities(predictor, X, domains)
    p = torch.from_numpy(probabilities).to(domains.weight)
    label = torch.from_numpy(columns).to(domains.y)[domains.y]
    loss = losses(p.clamp_min(PROBABILITY_FLOOR).log(), label)
    return loss, (p.argmax(dim=1) != label).to(p.dtype)


def _probabilities(
    predictor: Predictor | ArrayLike, X: Any, domains: Domains
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return checked probabilities (n, P), and the column (C,) of each of ``domains.classes``.

    P exceeds C if the predictor knows more classes; probability for these counts as error.
    """
    if hasattr(predictor, "predict_proba"):
        judge = cast(Predictor, predictor)
        columns, width = find_columns(judge, domains)
        predictor = judge.predict_proba(X)
    else:
        width = len(domains.classes)
        columns = np.arange(width)
        # A data frame may name its columns by class, in any order.
        names = list(getattr(predictor, "columns", ()))
        found = [
            [i for i, name in enumerate(names) if name == label or str(name) == str(label)]
            for label in domains.classes
        ]
        if len(names) == width and all(len(places) == 1 for places in found):
            columns = np.concatenate(found).astype(np.intp)
    return _check_probabilities(predictor, (len(domains.y), width)), columns


def find_columns(predictor: Predictor, domains: Domains) -> tuple[NDArray[np.intp], int]:
    """Return the predictor's column of each class, and its number of columns."""
    if not hasattr(predictor, "classes_"):
        raise ValueError("the predictor is not fitted: call fit first.")
    known = np.asarray(predictor.classes_)
    columns = [np.flatnonzero(known == label) for label in domains.classes]
    missing = [str(c) for c, at in zip(domains.classes, columns, strict=True) if not len(at)]
    if missing:
        raise ValueError(
            f"the predictor does not know class {missing[0]}: audit it on rows of the classes "
            "it was trained on."
        )
    return np.concatenate(columns), len(known)


def _check_probabilities(values: ArrayLike, shape: tuple[int, int]) -> NDArray[np.float64]:
    try:
        probabilities = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"a {type(values).__name__} has no probabilities: pass a fitted classifier with "
            "predict_proba, or a matrix of probabilities."
        ) from None
    if probabilities.shape != shape:
        raise ValueError(
            f"probabilities have shape {probabilities.shape}: pass one row per row of X and one "
            f"column per class, {shape}."
        )
    if not np.isfinite(probabilities).all() or probabilities.min() < 0:
        raise ValueError("probabilities hold negative, NaN or infinite values: pass probabilities.")
    if not np.allclose(probabilities.sum(axis=1), 1, atol=1e-3):
        raise ValueError("probabilities do not sum to one in every row: normalize them.")
    return probabilities
