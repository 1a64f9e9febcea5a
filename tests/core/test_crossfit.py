from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.core import whitening
from regraft.core.domains import check_domains
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.newton import log_probabilities, losses
from regraft.estimators.cro import CROClassifier
from tests.helpers.problems import make_problem


@cache
def _sources(seed: int = 1, n: int = 120) -> SourceHeads:
    return make_problem(seed, n=n, classes=3, sources=3).sources


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
    sources = _sources(n=150)
    seen = losses(log_probabilities(sources.Z, sources.pooled), sources.y)
    unseen = sources.held_out.pooled_losses(sources.Z, sources.y)
    # Noise features make the difference plain: a head fits the labels of what it has seen.
    assert float(sources.weight @ unseen) > float(sources.weight @ seen)
    assert torch.allclose(sources.optimism(), unseen - seen)


@given(st.integers(0, 5))
def test_optimism_falls_with_the_number_of_rows(seed: int) -> None:
    few, many = (_sources(seed, n) for n in (40, 400))
    assert float(few.weight @ few.optimism()) > float(many.weight @ many.optimism()) - 1e-3


def test_rows_of_few_values_are_dealt_to_all_folds() -> None:
    """Equal rows are observations like others: each fold must hold some of every pattern."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=1200)
    domain = np.repeat(["a", "b"], 600)
    colour = np.where(rng.random(1200) < np.where(domain == "a", 0.9, 0.8), y, 1 - y)
    shape = np.where(rng.random(1200) < 0.75, y, 1 - y)
    X = np.column_stack([shape, colour]) * 2.0 - 1
    sources = fit_source_heads(check_domains(X, y, domain))
    assert torch.bincount(sources.held_out.fold, minlength=3).min() > 390
    assert float(sources.weight @ sources.optimism()) < 0.02
    flipped = np.column_stack([shape, 1 - colour]) * 2.0 - 1
    with pytest.warns(UserWarning, match="times what the sources support"):
        model = CROClassifier("hull", radius=8.0).fit(X, y, domain)
    assert model.score(flipped, y) > 0.7
