"""Factorization closure: does the ensemble of abduction and deduction predict the labels?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from regraft.diagnostics.verdicts import Verdict
from regraft.factorization import GroupedRows, Penalties, fit_factorization
from regraft.maps import choose_penalty, fit_map, folds
from regraft.newton import log_probabilities, losses

_CALIBRATION = 0.01  # of mean probabilities, that a factorization may be off beyond noise
_NOISE = 3.0  # standard errors
_LEAST_KEPT = 0.5  # of what direct regression learns, that a factorization must keep


@dataclass(frozen=True)
class Prediction:
    """How well probabilities describe the labels of one domain."""

    mean: tuple[float, ...]  # (C,) mean probability of each class
    brier: float  # mean squared error of the probabilities; for two classes, of one of them
    accuracy: float
    log_loss: float


@dataclass(frozen=True)
class DomainClosure:
    """The factorized prediction of one domain against direct regression of y on x."""

    domain: str
    frequencies: tuple[float, ...]  # (C,) observed share of each class
    factorized: Prediction
    direct: Prediction
    calibration_error: float  # largest difference of a mean probability and its frequency
    excess: float  # log-loss of the factorized less that of the direct prediction
    excess_error: float  # its standard error
    kept: float  # share of the direct prediction's gain over frequencies; NaN if it has none
    correlation: float  # of the two predictions, over rows and classes
    agreement: float  # share of rows on which they name the same class


@dataclass(frozen=True)
class FactorizationClosure:
    """Whether softmax(A_s^T w) · softmax(D^T w) predicts y (eq. `AD-entanglement`), by domain.

    Every row is predicted by maps that have not seen it.
    """

    verdict: Verdict
    sentence: str
    domains: tuple[DomainClosure, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dictionaries."""
        return asdict(self)


def check_closure(
    rows: GroupedRows,
    penalties: Penalties,
    *,
    names: Sequence[str],
    fold: Tensor | None = None,
) -> FactorizationClosure:
    """Predict every row by maps fitted to the other folds.

    ``fold`` (n,) may hold back what comes in several rows, such as a text asked about repeatedly;
    by default rows are dealt in turn.
    """
    direct_penalty = choose_penalty(rows.labels_by_domain())
    fold = folds(len(rows.y), rows.y.device) if fold is None else fold
    factorized = rows.Z.new_empty((len(rows.y), rows.n_classes))
    direct = torch.empty_like(factorized)
    for f in range(int(fold.max()) + 1):
        seen, held_out = rows.take(fold != f), rows.take(fold == f)
        maps = fit_factorization(seen, penalties)
        factorized[fold == f] = maps.predict(held_out.Z[:, :-1], held_out.domain)
        heads = [fit_map(data, direct_penalty) for data in seen.labels_by_domain()]
        by_head = torch.stack([log_probabilities(held_out.Z, head).exp() for head in heads])
        direct[fold == f] = by_head[held_out.domain, torch.arange(len(held_out.y))]
    return compare_predictions(rows.y, rows.domain, factorized, direct, names=names)


def compare_predictions(
    y: Tensor,
    domain: Tensor,
    factorized: Tensor,
    direct: Tensor,
    *,
    names: Sequence[str],
) -> FactorizationClosure:
    """The verdict on factorized probabilities (n, C) of labels ``y`` (n,) beside direct ones."""
    parts = []
    for s, name in enumerate(names):
        own = domain == s
        parts.append(_compare(name, y[own], factorized[own], direct[own]))
    domains = tuple(part for part, _ in parts)
    verdict: Verdict = "consistent" if all(holds for _, holds in parts) else "violated"
    return FactorizationClosure(verdict, _sentence(verdict, domains), domains)


def _compare(
    name: str, y: Tensor, factorized: Tensor, direct: Tensor
) -> tuple[DomainClosure, bool]:
    """A domain's numbers, and whether the factorization closes there."""
    frequencies = torch.bincount(y, minlength=factorized.shape[1]).double() / len(y)
    entropy = float(-(frequencies * frequencies.clamp_min(1e-300).log()).sum())
    loss, direct_loss = (losses(p.clamp_min(1e-12).log(), y) for p in (factorized, direct))
    excess = loss - direct_loss
    excess_error = float(excess.std() / len(y) ** 0.5)
    gain = entropy - float(direct_loss.mean())
    kept = (entropy - float(loss.mean())) / gain if gain > 0 else float("nan")
    difference = factorized.mean(dim=0) - frequencies
    one_hot = torch.nn.functional.one_hot(y, factorized.shape[1]).to(factorized.dtype)
    error = (factorized - one_hot).std(dim=0) / len(y) ** 0.5
    calibrated = bool((difference.abs() <= (_NOISE * error).clamp_min(_CALIBRATION)).all())
    closes = not kept < _LEAST_KEPT or float(excess.mean()) <= _NOISE * excess_error
    closure = DomainClosure(
        domain=name,
        frequencies=tuple(frequencies.tolist()),
        factorized=_measure(factorized, y, loss),
        direct=_measure(direct, y, direct_loss),
        calibration_error=float(difference.abs().max()),
        excess=float(excess.mean()),
        excess_error=excess_error,
        kept=kept,
        correlation=_correlation(factorized, direct),
        agreement=float((factorized.argmax(dim=1) == direct.argmax(dim=1)).double().mean()),
    )
    return closure, calibrated and closes


def _measure(p: Tensor, y: Tensor, loss: Tensor) -> Prediction:
    one_hot = torch.nn.functional.one_hot(y, p.shape[1]).to(p.dtype)
    squares = (p - one_hot).square()
    brier = squares[:, 1] if p.shape[1] == 2 else squares.sum(dim=1)
    return Prediction(
        mean=tuple(p.mean(dim=0).tolist()),
        brier=float(brier.mean()),
        accuracy=float((p.argmax(dim=1) == y).double().mean()),
        log_loss=float(loss.mean()),
    )


def _correlation(one: Tensor, other: Tensor) -> float:
    """Of centred probabilities; 0 if one of them is constant."""
    a, b = ((p - p.mean(dim=0)).flatten() for p in (one, other))
    norms = float(a.norm() * b.norm())
    return float(a @ b) / norms if norms > 0 else 0.0


def _sentence(verdict: Verdict, domains: Sequence[DomainClosure]) -> str:
    calibration = max(part.calibration_error for part in domains)
    excess = max(part.excess for part in domains)
    worst = min(domains, key=lambda part: part.kept if part.kept == part.kept else 1.0)
    kept = (
        f", keeping at least {100 * worst.kept:.0f}% of what that learns" if worst.kept < 1 else ""
    )
    start = "closes" if verdict == "consistent" else "does not close"
    most = (
        f"at most {excess:.3f} nats above" if excess > 0 else f"at least {-excess:.3f} nats below"
    )
    return (
        f"The factorization {start}: its mean probabilities are within {calibration:.3f} of the "
        f"frequencies, and its log-loss is {most} direct regression's{kept}."
    )
