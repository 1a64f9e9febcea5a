"""The benchmark of false alarms, power and coverage: its generator, and a short run."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SCRIPT = "abduction"


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_groups_lie_as_far_apart_as_it_says(script: ModuleType, seed: int) -> None:
    mixture, rows, separation = script.draw_mixture(np.random.default_rng(seed))
    C = mixture.class_shares.shape[1]
    factor = mixture.codes[C:]
    assert 2 <= C <= 3 and 2 <= len(mixture.prior) <= 4
    assert 300 <= rows <= 3_000 and 3 <= separation <= 8
    for y in range(C):
        distance = np.linalg.norm(factor[y] - factor[(y + 1) % C])
        assert distance == pytest.approx(separation)
    assert (mixture.prior >= 0.6).all() and (mixture.prior <= 0.95).all()


def test_rows_have_the_stated_shares(script: ModuleType) -> None:
    random = np.random.default_rng(0)
    mixture, _, separation = script.draw_mixture(random)
    C = mixture.class_shares.shape[1]
    for share in (0.0, 0.3, 1.0):
        X, y = mixture.draw(20_000, share, random)
        labels = np.bincount(y, minlength=C) / len(y)
        expected = share * mixture.class_shares[1] + (1 - share) * mixture.class_shares[0]
        np.testing.assert_allclose(labels, expected, atol=0.02)
        code = X @ mixture.codes[C:].T  # of the factor
        agrees = code[np.arange(len(y)), y] > code[np.arange(len(y)), (y + 1) % C]
        assert agrees.mean() == pytest.approx(share, abs=0.08), separation


def test_rates_have_exact_intervals(script: ModuleType) -> None:
    assert script.rate([False] * 20) == "0.0 (0.0 to 16.8)"
    assert script.rate([True] * 20) == "100.0 (83.2 to 100.0)"
    assert script.rate([]) == "–"


def test_it_measures_and_keeps(
    script: ModuleType,
    run_script: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(script, "RECORDS", tmp_path / "abduction.jsonl")
    monkeypatch.setattr(script, "FRESH_ROWS", 5_000)
    parts = {"halves": script.split_gauss, "mixed": script.confound}
    monkeypatch.setattr(script, "PARTS", parts)
    options = "--repetitions", 1, "--power-repetitions", 1
    first = run_script(*options)
    assert "| halves | 1 | 0.0 (" in first and "| mixed | 1 | 100.0 (" in first
    assert "| all | 1 | 100.0 (" in first
    for name in ("abduct", "CROClassifier"):
        monkeypatch.setattr(script, name, None)  # cannot be called
    assert run_script(*options) == first
