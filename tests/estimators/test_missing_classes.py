"""A source that lacks a class says nothing about it, and stops nothing."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regraft import CROClassifier, ERMClassifier, GroupDROClassifier, abduct, audit_groups, compare
from regraft.core.abduction import find_groups, rows_of_sources
from regraft.core.certificates import certificate_from_dict
from regraft.core.domains import check_domains
from regraft.core.group_targets import GroupTargets
from regraft.core.heads import fit_source_heads
from regraft.estimators.literal import LiteralCROClassifier

Data = tuple[np.ndarray, np.ndarray, np.ndarray]
STRENGTHS = np.array([0.95, 0.6, 0.3])


def draw(seed: int, n: int, missing: list[tuple[int, int]], classes: int = 3) -> Data:
    """Three sources that mix two groups, without rows of the given sources and classes."""
    rng = np.random.default_rng(seed)
    s, y = rng.integers(0, 3, n), rng.integers(0, classes, n)
    u = rng.random(n) < STRENGTHS[s]
    X = rng.normal(size=(n, 4))
    X[:, 0] += 1.2 * y
    X[:, 1] += 3 * np.where(u, y, classes - 1 - y)
    kept = np.ones(n, bool)
    for source, label in missing:
        kept &= (s != source) | (y != label)
    return X[kept], y[kept], s[kept]


def quietly(model: Any, data: Data) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(*data)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10**6), st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=4))
def test_random_gaps_leave_every_number_finite(seed: int, gaps: set[tuple[int, int]]) -> None:
    data = draw(seed, 360, sorted(gaps))
    counts = [len({s for s, c in zip(data[2], data[1], strict=True) if c == k}) for k in range(3)]
    if len(set(data[1])) < 2 or max(counts) < 2 or len(set(data[2])) < 2:
        return
    for model in (CROClassifier(), CROClassifier("hull"), GroupDROClassifier()):
        fitted = quietly(model, data)
        assert np.isfinite(fitted.predict_proba(data[0])).all()
        if isinstance(model, CROClassifier):
            c = fitted.certificate_
            assert np.isfinite([c.risk_bound, c.accuracy_bound, c.pooled_risk_bound]).all()
            assert certificate_from_dict(c.to_dict()) == c


@pytest.mark.parametrize(
    "model",
    [CROClassifier("factorized"), LiteralCROClassifier(cro_rank=2, cro_max_outer_iters=2)],
    ids=lambda model: type(model).__name__,
)
def test_the_other_games(model: Any) -> None:
    data = draw(0, 180, [(0, 2), (1, 0)])
    fitted = quietly(model, data)
    assert np.isfinite(fitted.predict_proba(data[0])).all()
    assert len(fitted.certificate_.notes) == 2


def test_a_source_head_is_the_pooled_one_in_classes_that_the_source_lacks() -> None:
    """Source 0 lacks a class, source 1 has one class only."""
    with pytest.warns(UserWarning, match="source 0 has no rows of class 2: it says nothing about"):
        domains = check_domains(*draw(1, 600, [(0, 2), (1, 0), (1, 1)]))
    sources = fit_source_heads(domains)
    assert torch.equal(sources.heads[0, 2], sources.pooled[2])
    assert not torch.allclose(sources.heads[0, :2], sources.pooled[:2])
    # The ridge leaves the mean over the classes at that of the pooled head.
    torch.testing.assert_close(sources.heads.mean(dim=1), sources.pooled.expand(3, -1, -1).mean(1))
    assert torch.allclose(sources.heads[1], sources.pooled, atol=1e-12)
    assert torch.equal(sources.held_out.heads[:, 0, 2], sources.held_out.pooled[:, 2])
    assert sources.present.tolist() == [[True, True, False], [False, False, True], [True] * 3]


def test_a_class_in_one_source_is_the_same_in_every_group() -> None:
    data = draw(2, 1500, [(0, 2), (1, 2)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        sources = fit_source_heads(check_domains(*data))
    groups = find_groups(rows_of_sources(sources))
    assert groups.n_groups == 2 and groups.tells.tolist() == [True, True, False]
    own = groups.posterior[sources.y == 2]
    assert torch.equal(own, own[:1].expand_as(own))
    targets = GroupTargets(groups.posterior, sources.weight, sources.y, 3)
    share = float(sources.weight[sources.y == 2].sum())
    for weight in targets.blocks[0]:
        assert float(weight[sources.y == 2].sum()) == pytest.approx(share, abs=1e-12)
    told = GroupTargets(
        groups.posterior,
        sources.weight,
        sources.y,
        3,
        class_groups=True,
        told=groups.told(sources.y),
    )
    assert told.purity[2].tolist() == pytest.approx([1.0, 1.0])


def test_the_certificate_names_the_gap_and_holds_on_fresh_rows() -> None:
    covered = 0
    for seed in range(4):
        with pytest.warns(UserWarning, match="source 0 has no rows of class 2"):
            model = CROClassifier().fit(*draw(10 + seed, 900, [(0, 2)]))
        c = model.certificate_
        assert c.notes == ("source 0 has no rows of class 2: it says nothing about it.",)
        assert "Source 0 has no rows of class 2: it says nothing about it." in c.paragraphs()
        X, y, s = draw(1000 + seed, 20_000, [(0, 2)])
        log_p = model.predict_log_proba(X)[np.arange(len(y)), y]
        covered += max(-log_p[s == each].mean() for each in range(3)) <= c.risk_bound
    assert covered == 4


def test_abduction_audit_and_comparison_take_gaps() -> None:
    data = draw(3, 500, [(0, 2), (1, 2)])
    with pytest.warns(UserWarning, match="class 2 has rows in source 2 only"):
        found = abduct(*data)
    assert np.isfinite(found.class_shares).all()
    assert any("Class 2 tells nothing about the factor" in doubt for doubt in found.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert np.isfinite(audit_groups(ERMClassifier().fit(*data), *data).risk_bound)
        result = compare(*data, radii=(1.0,))
    # Fitted without source 2, no head knows class 2, so its rows there are mistakes.
    unknown = np.mean(data[1][data[2] == 2] == 2)
    assert all(0 < row.accuracy["2"] <= 1 - unknown for row in result.rows)


def test_one_source_for_each_class_is_refused() -> None:
    X, y, _ = draw(4, 90, [])
    with pytest.raises(ValueError, match="no class has rows in two domains"):
        ERMClassifier().fit(X, y, y)
