"""Factorization closure: tests whether abduction and deduction together predict the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regraft.core.newton import log_probabilities, losses
from regraft.premises.factorization import GroupedRows, Penalties, fit_factorization
from regraft.premises.multinomial_maps import choose_penalty, deal_folds, fit_map
from regraft.premises.verdicts import Verdict
from regraft.support.plain_data import PlainData

_CALIBRATION_TOLERANCE = 0.01  # tolerated error of mean probabilities, even beyond noise
_NOISE_STANDARD_ERRORS = 3.0
_LEAST_GAIN_KEPT = 0.5  # share of direct regression's gain that a factorization must keep


@dataclass(frozen=True)
class Prediction:
    """Quality of predicted probabilities for the labels of one domain."""

    mean: tuple[float, ...]  # (C,) mean probability of each class
    brier: float  # mean squared error of the probabilities; for two classes, of one of them
    accuracy: float
    log_loss: float


@dataclass(frozen=True)
class DomainClosure:
    """Factorized prediction of one domain, compared to direct regression of y on x."""

    domain: str
    frequencies: tuple[float, ...]  # (C,) observed share of each class
    factorized: Prediction
    direct: Prediction
    calibration_error: float  # largest difference of a mean probability and its frequency
    excess: float  # log-loss of the factorized prediction minus that of the direct one
    excess_error: float  # its standard error
    kept: float  # share of direct regression's gain over frequencies; NaN if it gains nothing
    correlation: float  # of the two predictions, over rows and classes
    agreement: float  # share of rows on which they name the same class


@dataclass(frozen=True)
class FactorizationClosure(PlainData):
    """Result of predicting unseen y by softmax(A_s^T w) · softmax(D^T w), eq. `AD-entanglement`."""

    verdict: Verdict
    sentence: str
    domains: tuple[DomainClosure, ...]


def check_factorization_closure(
    rows: GroupedRows,
    penalties: Penalties,
    *,
    names: Sequence[str],
    unit: Tensor | None = None,
) -> FactorizationClosure:
    """Predict every row by maps fitted to the other folds, and compare to direct regression.

    ``unit`` (n,), indices from 0, marks rows that belong together, such as those about the same
    text: they are held out together, and standard errors count units. By default each row is a
    unit.
    """
    fold = unit_folds(rows, unit)
    first = [fold[rows.domain == s] == 0 for s in range(rows.n_domains)]
    direct_penalty = choose_penalty(rows.labels_by_domain(), first)
    factorized = rows.Z.new_empty((len(rows.y), rows.n_classes))
    direct = torch.empty_like(factorized)
    for f in range(int(fold.max()) + 1):
        seen, held_out = rows.take(fold != f), rows.take(fold == f)
        maps = fit_factorization(seen, penalties)
        factorized[fold == f] = maps.predict(held_out.Z[:, :-1], held_out.domain)
        heads = [fit_map(data, direct_penalty) for data in seen.labels_by_domain()]
        by_head = torch.stack([log_probabilities(held_out.Z, head).exp() for head in heads])
        direct[fold == f] = by_head[held_out.domain, torch.arange(len(held_out.y))]
    return compare_predictions(rows.y, rows.domain, factorized, direct, names=names, unit=unit)


def unit_folds(rows: GroupedRows, unit: Tensor | None) -> Tensor:
    """Return the fold (n,) of each row, the same for rows of the same unit."""
    if unit is None:
        return deal_folds(len(rows.y), rows.y.device)
    count = int(unit.max()) + 1
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0)).to(unit.device)
    return deal_folds(count, unit.device)[order][unit]


def compare_predictions(
    y: Tensor,
    domain: Tensor,
    factorized: Tensor,
    direct: Tensor,
    *,
    names: Sequence[str],
    unit: Tensor | None = None,
) -> FactorizationClosure:
    """Judge factorized against direct probabilities (n, C) of the labels ``y`` (n,)."""
    parts = []
    for s, name in enumerate(names):
        own = domain == s
        units = None if unit is None else unit[own]
        parts.append(_compare(name, y[own], factorized[own], direct[own], units))
    domains = tuple(part for part, _ in parts)
    # A domain of one class says nothing.
    found = {verdict for part, verdict in parts if max(part.frequencies) < 1}
    worst_first: tuple[Verdict, ...] = ("violated", "undecided", "consistent")
    verdict: Verdict = next((each for each in worst_first if each in found), "undecided")
    return FactorizationClosure(verdict, _sentence(verdict, domains), domains)


def _compare(
    name: str, y: Tensor, factorized: Tensor, direct: Tensor, unit: Tensor | None
) -> tuple[DomainClosure, Verdict]:
    """Return the numbers of a domain, and whether the factorization closes there.

    Probabilities are those given one of the classes that the domain has.
    """
    frequencies = torch.bincount(y, minlength=factorized.shape[1]).to(factorized.dtype) / len(y)
    if not bool((frequencies > 0).all()):
        factorized, direct = (p * (frequencies > 0) for p in (factorized, direct))
        factorized, direct = (p / p.sum(dim=1, keepdim=True) for p in (factorized, direct))
    base = losses(frequencies.clamp_min(1e-300).log().expand(len(y), -1), y)
    loss, direct_loss = (losses(p.clamp_min(1e-12).log(), y) for p in (factorized, direct))
    excess, gain = loss - direct_loss, base - direct_loss
    excess_error = _standard_error(excess, unit)
    kept = float((base - loss).mean() / gain.mean()) if float(gain.mean()) > 0 else float("nan")
    one_hot = torch.nn.functional.one_hot(y, factorized.shape[1]).to(factorized.dtype)
    difference = factorized.mean(dim=0) - frequencies
    errors = [_standard_error(column, unit) for column in (factorized - one_hot).T]
    limit = [max(_CALIBRATION_TOLERANCE, _NOISE_STANDARD_ERRORS * error) for error in errors]
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
    if any(abs(d) > most for d, most in zip(difference.tolist(), limit, strict=True)):
        return closure, "violated"
    if kept < _LEAST_GAIN_KEPT and closure.excess > _NOISE_STANDARD_ERRORS * excess_error:
        return closure, "violated"
    learns = float(gain.mean()) > _NOISE_STANDARD_ERRORS * _standard_error(gain, unit)
    return closure, "consistent" if learns else "undecided"


def _standard_error(values: Tensor, unit: Tensor | None) -> float:
    """Return the standard error of the mean of values (n,), each unit being one observation."""
    centred = values - values.mean()
    if unit is not None:
        centred = torch.zeros(int(unit.max()) + 1).to(values).index_add_(0, unit, centred)
    return float(centred.square().sum().sqrt()) / len(values)


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
    """Return the correlation of two predictions over rows and classes; 0 if one is constant."""
    a, b = ((p - p.mean(dim=0)).flatten() for p in (one, other))
    norms = float(a.norm() * b.norm())
    return float(a @ b) / norms if norms > 0 else 0.0


def _sentence(verdict: Verdict, domains: Sequence[DomainClosure]) -> str:
    calibration = max(part.calibration_error for part in domains)
    excess = max(part.excess for part in domains)
    kept = min((part.kept for part in domains if part.kept == part.kept), default=1.0)
    start = {
        "consistent": "The factorization closes",
        "violated": "The factorization does not close",
        "undecided": "Whether the factorization closes cannot be told where even direct regression "
        "learns nothing",
    }[verdict]
    most = (
        f"at most {excess:.3f} nats above" if excess > 0 else f"at least {-excess:.3f} nats below"
    )
    keeping = f", keeping at least {100 * kept:.0f}% of what that learns" if 0 <= kept < 1 else ""
    return (
        f"{start}: its mean probabilities are within {calibration:.3f} of the frequencies, and its "
        f"log-loss is {most} direct regression's{keeping}."
    )
