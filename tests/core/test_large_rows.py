"""Rows too many for float64: stored in float32, computed with in float64."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from regraft import CROClassifier
from regraft.core import newton, whitening
from regraft.core.curvature import hessian, hessian_diagonal
from regraft.core.domains import check_domains
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.hull import fit_hull, tilt_rows
from regraft.core.newton import log_probabilities, losses, minimax_newton
from regraft.core.standardization import standardize
from regraft.estimators.audit import audit
from regraft.estimators.baselines import (
    ERMClassifier,
    GroupDROClassifier,
    IRMClassifier,
    VRExClassifier,
)
from regraft.estimators.frontier import frontier
from regraft.estimators.group_search import EIILClassifier, JTTClassifier, XRMClassifier
from tests.helpers.problems import make_problem

PROBLEM = make_problem(seed=1, n=300, classes=3)
ROWS = PROBLEM.X.astype(np.float32)


def _sources(X: Any = ROWS) -> SourceHeads:
    return fit_source_heads(check_domains(X, PROBLEM.y, PROBLEM.domain))


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> SourceHeads:
    """Sources of rows that count as very many, and take several chunks."""
    monkeypatch.setattr(whitening, "LARGE_BYTES", 0)
    monkeypatch.setattr(whitening, "_CONVERSION_ENTRIES", 1)
    return _sources()


def test_rows_are_short_only_if_many_and_given_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many is a limit in bytes of float64."""
    assert _sources().Z.dtype == torch.float64
    needed = len(ROWS) * (ROWS.shape[1] + 1) * 8
    monkeypatch.setattr(whitening, "LARGE_BYTES", needed)
    assert _sources().Z.dtype == torch.float64
    monkeypatch.setattr(whitening, "LARGE_BYTES", needed - 1)
    assert _sources().Z.dtype == torch.float32
    assert _sources(ROWS.astype(np.float16)).Z.dtype == torch.float32
    assert _sources(PROBLEM.X).Z.dtype == torch.float64


def test_source_heads_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = _sources()
    monkeypatch.setattr(whitening, "LARGE_BYTES", 0)
    short = _sources()
    assert torch.equal(short.order, exact.order)
    assert torch.allclose(short.Z.double(), exact.Z, atol=1e-6)
    for name in ("shrinkage", "pooled_ridge", "source_ridge"):
        assert getattr(short.regularization, name) == getattr(exact.regularization, name)
    for ours, theirs in ((short.pooled, exact.pooled), (short.heads, exact.heads)):
        assert ours.dtype == torch.float64
        assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        CROClassifier(),
        CROClassifier("hull"),
        CROClassifier("hull", objective="regret"),
        CROClassifier("hull", surrogate="relabelled"),
        CROClassifier("hull", surrogate="transplanted"),
        ERMClassifier(),
        GroupDROClassifier(),
        VRExClassifier(),
        IRMClassifier(penalty=1.0),
        JTTClassifier(),
        EIILClassifier(),
        XRMClassifier(),
    ],
    ids=str,
)
def test_fitted_heads_and_certificates_are_the_same(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = clone(model).fit(ROWS, PROBLEM.y, PROBLEM.domain)
    monkeypatch.setattr(whitening, "LARGE_BYTES", 0)
    short = clone(model).fit(ROWS, PROBLEM.y, PROBLEM.domain)
    assert short.coef_.dtype == np.float64
    assert np.allclose(short.coef_, exact.coef_, atol=1e-5)
    numbers: dict[str, tuple[str, ...]] = {
        str(CROClassifier()): ("risk_bound", "accuracy_bound", "gap"),
        str(CROClassifier("hull")): ("risk_bound", "accuracy_bound", "value", "kept_risk"),
    }
    if str(model) in numbers:
        ours, theirs = short.certificate_, exact.certificate_
        assert ours.converged and theirs.converged
        for name in numbers[str(model)]:
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-5)


def test_audits_and_frontiers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ERMClassifier().fit(ROWS, PROBLEM.y, PROBLEM.domain)
    arguments = ROWS, PROBLEM.y, PROBLEM.domain, [0.0, 2.0]
    exact = audit(model, *arguments), frontier(*arguments, family="hull")
    monkeypatch.setattr(whitening, "LARGE_BYTES", 0)
    short = audit(model, *arguments), frontier(*arguments, family="hull")
    for ours, theirs in zip(short[0].points, exact[0].points, strict=True):
        assert ours.risk == pytest.approx(theirs.risk, abs=1e-5)
    for point, other in zip(short[1].points, exact[1].points, strict=True):
        assert point.worst_case_risk == pytest.approx(other.worst_case_risk, abs=1e-4)


def test_the_gap_is_exact_for_the_stored_rows(sources: SourceHeads) -> None:
    """Far below what float32 can tell apart, and proven for the same rows in float64."""
    rows, zero = (sources.Z, sources.y, sources.weight[None]), torch.zeros_like(sources.pooled)
    answer = minimax_newton(*rows, ridge=1e-2, start=zero, tolerance=1e-12)
    assert answer.gap <= 1e-12
    loss = losses(log_probabilities(sources.Z.double(), answer.head), sources.y)
    value = float(sources.weight @ loss + 1e-2 * answer.head.square().sum())
    assert value == pytest.approx(answer.value, abs=1e-14)


def test_hulls_and_surrogates_are_those_of_converted_rows(sources: SourceHeads) -> None:
    Z, y, weight = sources.Z, sources.y, sources.weight
    hull, same = (fit_hull(sources.heads, rows, weight) for rows in (Z, Z.double()))
    assert torch.allclose(hull.sources.abs(), same.sources.abs(), atol=1e-12)
    ours, theirs = (
        tilt_rows(hull, sources.heads, rows, y, weight, sources.domain) for rows in (Z, Z.double())
    )
    assert torch.allclose(ours.tilt, theirs.tilt, atol=1e-12)
    assert torch.allclose(ours.center, theirs.center, atol=1e-12)


def test_the_free_adversary_gets_converted_rows(sources: SourceHeads) -> None:
    rows = standardize(sources).rows.Z
    assert rows.dtype == torch.float64
    X = PROBLEM.X[sources.order.numpy()]
    back = rows[:, :-1].numpy() * X.std(axis=0) + X.mean(axis=0)
    assert np.allclose(back, X, atol=1e-4)


@given(st.integers(0, 1000), st.integers(1, 700), st.integers(2, 4))
def test_products_with_short_rows(seed: int, n: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    Z = torch.randn(n, 5, generator=generator)
    head = torch.randn(classes, 5, dtype=torch.float64, generator=generator)
    weights = torch.rand(2, n, dtype=torch.float64, generator=generator) / n
    exact = Z.double()
    assert torch.allclose(newton.logits(Z, head), exact @ head.T, atol=1e-14)
    p = log_probabilities(Z, head).exp()
    residual = p - torch.nn.functional.one_hot(torch.arange(n) % classes, classes)
    gradients = newton.weighted_gradients(Z, residual, weights)
    expected = torch.einsum("tn,nc,nk->tck", weights, residual, exact)
    assert torch.allclose(gradients, expected, atol=1e-13)
    curvature = hessian(Z, p, weights[0])
    assert torch.allclose(curvature, hessian(exact, p, weights[0]), atol=1e-13)
    diagonal = hessian_diagonal(Z, p, weights[0])
    assert torch.allclose(diagonal.flatten(), curvature.diagonal(), atol=1e-5)


def test_a_read_only_memory_map_gives_the_same_model(tmp_path: Path) -> None:
    ROWS.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float32, mode="r", shape=ROWS.shape)
    domains = check_domains(mapped, PROBLEM.y, PROBLEM.domain)
    assert domains.mapping is not None
    model = CROClassifier().fit(mapped, PROBLEM.y, PROBLEM.domain)
    expected = CROClassifier().fit(ROWS, PROBLEM.y, PROBLEM.domain)
    assert np.array_equal(model.coef_, expected.coef_)
    assert np.array_equal(model.predict_proba(mapped), expected.predict_proba(ROWS))
    assert np.array_equal(mapped, ROWS)


# In a process of its own, so that the peak is that of these products.
PEAK = """
from pathlib import Path
import torch
from regraft.core.hull import _tilt
from regraft.core.newton import logits
torch.set_num_threads(1)
Z, head = torch.randn(200_000, 100), torch.randn(2, 100, dtype=torch.float64)
torch.ones(3_900_000, dtype=torch.float64)  # from now on, large temporaries share the heap
def peak():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])
for product in (lambda: logits(Z, head), lambda: _tilt(head, Z)):
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    before = peak()
    product()
    print((peak() - before) / (2 * Z.nbytes))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks cannot be reset")
def test_conversion_never_holds_all_rows() -> None:
    command = [sys.executable, "-c", PEAK]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert all(float(share) < 0.3 for share in done.stdout.split())
