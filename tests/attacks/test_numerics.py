"""Random problems of many kinds: finite, bracketed by the certificate, without floods of warnings.

A problem may also be refused, in one sentence.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from regraft import CROClassifier
from regraft.core.certificate import Certificate
from regraft.core.evidence import Evidence
from tests.attacks.outcomes import MAX_WARNINGS, TookTooLong, show_tally, time_limit

FAMILIES = ("latent", "hull", "factorized")
Rows = tuple[NDArray[np.float64], NDArray[Any], NDArray[Any]]
_ROUNDING = 1e-6


def draw(
    rng: np.random.Generator, n: int = 160, d: int = 4, classes: int = 2, sources: int = 2
) -> Rows:
    """A cause, and a confounder whose tie to the label differs by source."""
    y = rng.permutation(np.arange(n) % classes)
    s = rng.permutation(np.arange(n) % sources)
    u = np.where(
        rng.random(n) < 0.55 + 0.4 * s / max(sources - 1, 1), y, rng.integers(classes, size=n)
    )
    codes = rng.normal(size=(2, classes, d))
    return codes[0, y] + 1.5 * codes[1, u] + rng.normal(size=(n, d)), y, s


def changed(change: Callable[[np.random.Generator, NDArray[np.float64]], Any]) -> Any:
    """Make a kind of problem whose features alone are changed."""

    def make(rng: np.random.Generator) -> Rows:
        X, y, s = draw(rng)
        return change(rng, X), y, s

    return make


def relabelled(change: Callable[[np.random.Generator, Rows], Rows]) -> Any:
    return lambda rng: change(rng, draw(rng))


def imbalanced(rng: np.random.Generator) -> Rows:
    X, _, s = draw(rng, n=20_004)
    y = np.zeros(len(X), int)
    y[:2] = 1
    s[:2] = 0, 1
    X[:2] += 3
    return X, y, s


def separable(rng: np.random.Generator, gap: float) -> Rows:
    X, y, s = draw(rng)
    return X + gap * y[:, None], y, s


def outliers(rng: np.random.Generator, X: NDArray[np.float64]) -> NDArray[np.float64]:
    X[rng.integers(len(X), size=3)] *= 1e6
    return X


KINDS: dict[str, Callable[[np.random.Generator], Rows]] = {
    "scale 1e-12": changed(lambda rng, X: 1e-12 * X),
    "scale 1e-6": changed(lambda rng, X: 1e-6 * X),
    "scale 1e6": changed(lambda rng, X: 1e6 * X),
    "scale 1e12": changed(lambda rng, X: 1e12 * X),
    "mixed scales": changed(lambda rng, X: X * np.array([1e-9, 1e-3, 1e3, 1e9])),
    "large offset": changed(lambda rng, X: X + 1e8),
    "collinear": changed(lambda rng, X: np.hstack([X, X @ rng.normal(size=(4, 3))])),
    "nearly collinear": changed(lambda rng, X: np.hstack([X, X + 1e-9 * rng.normal(size=X.shape)])),
    "duplicated columns": changed(lambda rng, X: np.hstack([X, X, X])),
    "constant columns": changed(lambda rng, X: np.hstack([X, np.full((len(X), 20), 0.1)])),
    "one feature": changed(lambda rng, X: X[:, :1]),
    "binary features": changed(lambda rng, X: (X > 0).astype(float)),
    "outliers": changed(outliers),
    "heavy tails": changed(lambda rng, X: X * rng.standard_cauchy(size=(len(X), 1))),
    "noise alone": changed(lambda rng, X: rng.normal(size=X.shape)),
    "duplicated rows": relabelled(lambda rng, rows: tuple(np.repeat(p[:40], 4, 0) for p in rows)),  # type: ignore[arg-type,return-value]
    "imbalance 1 : 10,000": imbalanced,
    "separable": lambda rng: separable(rng, 10),
    "far separable": lambda rng: separable(rng, 1e6),
    "random labels": relabelled(lambda rng, rows: (rows[0], rng.permutation(rows[1]), rows[2])),
    "one source": relabelled(lambda rng, rows: (rows[0], rows[1], 0 * rows[2])),
    "sources by label": relabelled(
        lambda rng, rows: (rows[0], rows[1], rows[1] ^ (rng.random(160) < 0.03))
    ),
    "30 sources": lambda rng: draw(rng, n=600, sources=30),
    "50 classes": lambda rng: draw(rng, n=500, classes=50),
    "d much above n": lambda rng: draw(rng, n=60, d=400),
    "135 x 1280, 21 alive": lambda rng: _mostly_dead(rng),
}


def _mostly_dead(rng: np.random.Generator) -> Rows:
    alive, y, s = draw(rng, n=135, d=21)
    X = np.zeros((135, 1280))
    X[:, rng.permutation(1280)[:21]] = alive
    return X, y, s


def fit(seed: int) -> tuple[CROClassifier, Rows]:
    kind, family = [*KINDS][seed % len(KINDS)], FAMILIES[seed // len(KINDS) % len(FAMILIES)]
    rows = KINDS[kind](np.random.default_rng(seed))
    return CROClassifier(family=family).fit(rows[0], rows[1], sample_domain=rows[2]), rows


def find_fault(model: CROClassifier, X: NDArray[np.float64]) -> str | None:
    """Say what is wrong with a fitted model, if anything is."""
    probabilities = model.predict_proba(X)
    if not np.isfinite(model.coef_).all() or not np.isfinite(model.intercept_).all():
        return "the head is not finite"
    if not np.isfinite(probabilities).all() or np.abs(probabilities.sum(axis=1) - 1).max() > 1e-9:
        return "probabilities are not finite or do not sum to one"
    interval = model.predict_interval(X[:50])
    if not (
        np.isfinite(interval.lower).all()
        and (interval.lower >= -_ROUNDING).all()
        and (interval.upper <= 1 + _ROUNDING).all()
        and (interval.lower <= interval.upper + _ROUNDING).all()
    ):
        return "an interval is no interval"
    return find_certificate_fault(model.certificate_)


def find_certificate_fault(certificate: Certificate) -> str | None:
    for each in (*certificate.targets, *certificate.sources, *certificate.pooled_sources):
        if (fault := find_evidence_fault(each)) is not None:
            return fault
    if not np.isfinite([certificate.risk_bound, certificate.accuracy_bound, certificate.gap]).all():
        return "the certificate is not finite"
    lowest = min(each.accuracy for each in certificate.sources)
    if certificate.worst_source.accuracy != lowest:
        return "the worst source is another one"
    if certificate.family == "latent":  # sources that are no mixtures are named
        if (certificate.accuracy_bound > lowest) != ("less than that" in certificate.claim()):
            return "a source is below the bound and not named"
    elif certificate.risk_bound < max(each.risk for each in certificate.sources) - _ROUNDING:
        return "the certified risk is below that of a source"
    elif certificate.accuracy_bound > lowest + _ROUNDING:
        return "the certified accuracy is above that of a source"
    json.dumps(certificate.to_dict(), allow_nan=False)
    return None


def find_evidence_fault(evidence: Evidence) -> str | None:
    numbers = [evidence.risk, evidence.risk_bound, evidence.accuracy, evidence.accuracy_bound]
    if not np.isfinite(numbers).all():
        return f"evidence is not finite: {numbers}"
    if evidence.risk > evidence.risk_bound + _ROUNDING or evidence.risk < 0:
        return f"a risk is not bracketed: {numbers}"
    if not -_ROUNDING <= evidence.accuracy_bound <= evidence.accuracy + _ROUNDING <= 1 + 2e-6:
        return f"an accuracy is not bracketed: {numbers}"
    return None


def test_random_problems(attack_cases: Callable[..., range]) -> None:
    tally, faults = Counter[str](), list[str]()
    for seed in attack_cases(len(KINDS) // 2, 0.1):
        name = f"seed {seed}, {[*KINDS][seed % len(KINDS)]}"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("error", RuntimeWarning)
            try:
                with time_limit():
                    model, rows = fit(seed)
                    fault = find_fault(model, rows[0])
                outcome = "fitted"
            except ValueError as error:
                sentence = str(error)
                fault = None if sentence.endswith(".") and "\n" not in sentence else sentence
                outcome = "refused"
            except TookTooLong:
                fault, outcome = "it took too long", "too long"
            except Exception as error:
                fault, outcome = f"{type(error).__name__}: {error}", "error"
        if len(caught) > MAX_WARNINGS:
            fault = f"{len(caught)} warnings"
        tally[outcome] += 1
        if fault:
            faults.append(f"{name}: {fault}")
    print(show_tally("Numerics", tally))
    assert not faults, f"{len(faults)} faults\n" + "\n".join(faults[:40])


@pytest.mark.parametrize("field", ["risk", "risk_bound", "accuracy", "accuracy_bound"])
def test_the_attack_notices_faults(field: str) -> None:
    model, rows = fit(0)
    evidence = model.certificate_.sources[0]
    assert find_fault(model, rows[0]) is None
    bad = {"risk": 1e9, "risk_bound": -1.0, "accuracy": 1.5, "accuracy_bound": np.nan}[field]
    broken = type(evidence)(**{**vars(evidence), field: bad})
    assert find_evidence_fault(broken)
