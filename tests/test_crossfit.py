from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from conftest import make_problem
from hypothesis import given
from hypothesis import strategies as st

from regraft import whitening
from regraft.domains import check_domains
from regraft.estimator import CROClassifier
from regraft.heads import SourceHeads, fit_source_heads
from regraft.newton import log_probabilities, losses


@cache
def _sources(seed: int = 1, n: int = 120) -> SourceHeads:
    p = make_problem(seed, n=n, classes=3, sources=3)
    return fit_source_heads(check_domains(p.X, p.y, p.domain))


def test_each_row_has_the_logits_of_the_heads_of_its_fold() -> None:
    sources = _sources()
    held_out = sources.held_out
    logits = held_out.logits(held_out.heads, sources.Z)
    assert logits.shape == (3, 3, len(sources.Z))
    for row in (0, 7, 100, len(sources.Z) - 1):
        expected = held_out.heads[held_out.fold[row]] @ sources.Z[row]
        assert torch.allclose(logits[..., row], expected, atol=1e-12)


def test_chunks_of_rows_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = _sources()
    whole = sources.held_out.pooled_losses(sources.Z, sources.y)
    monkeypatch.setattr(whitening, "_CHUNK_ROWS", 1)
    single = sources.held_out.logits(sources.held_out.pooled, sources.Z.float().double())
    parts = losses(torch.log_softmax(single, dim=0).T, sources.y)
    assert torch.allclose(whole, parts, atol=1e-5)


def test_the_heads_of_a_fold_have_not_seen_its_rows() -> None:
    """Other labels on the rows of a fold leave the heads fitted without it as they were."""
    p = make_problem(1, n=150, classes=3, sources=3)
    domains = check_domains(p.X, p.y, p.domain)
    sources = fit_source_heads(domains)
    seen = losses(log_probabilities(sources.Z, sources.pooled), sources.y)
    unseen = sources.held_out.pooled_losses(sources.Z, sources.y)
    # Noise features make the difference plain: a head fits the labels of what it has seen.
    assert float(sources.weight @ unseen) > float(sources.weight @ seen)
    assert torch.allclose(sources.optimism(), unseen - seen)


@given(st.integers(0, 5))
def test_optimism_falls_with_the_number_of_rows(seed: int) -> None:
    few, many = (_sources(seed, n) for n in (40, 400))
    assert float(few.weight @ few.optimism()) > float(many.weight @ many.optimism()) - 1e-3


def test_copies_of_rows_share_a_fold() -> None:
    p = make_problem(2, n=60)
    alone = fit_source_heads(check_domains(p.X, p.y, p.domain))
    X, y, domain = (np.repeat(values, 4, axis=0) for values in (p.X, p.y, p.domain))
    copied = fit_source_heads(check_domains(X, y, domain))
    assert torch.equal(copied.held_out.fold, alone.held_out.fold.repeat_interleave(4))
    assert copied.regularization.shrinkage == alone.regularization.shrinkage
    assert copied.regularization.source_ridge == alone.regularization.source_ridge
    assert torch.allclose(copied.heads, alone.heads, atol=1e-4)


def test_a_head_fitted_on_copies_is_the_same() -> None:
    p = make_problem(3, n=80)
    alone = CROClassifier().fit(p.X, p.y, p.domain)
    X, y, domain = (np.repeat(values, 3, axis=0) for values in (p.X, p.y, p.domain))
    copied = CROClassifier().fit(X, y, domain)
    assert np.mean(alone.predict(p.X) == copied.predict(p.X)) > 0.97
