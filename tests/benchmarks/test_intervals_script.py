"""The benchmark of the intervals: its truth is the truth, and a short run."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = "intervals"


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_conditional_is_that_of_the_rows_drawn(script: ModuleType, share: float) -> None:
    random = np.random.default_rng(2)
    mixture, _, _ = script.draw_mixture(random)
    X, y = mixture.draw(20_000, share, random)
    p = script.mixture_conditional(mixture, X, share)
    for c in range(p.shape[1]):
        bins = np.digitize(p[:, c], [0.1, 0.5, 0.9])
        for b in range(4):
            own = bins == b
            expected, rate = p[own, c].mean(), (y[own] == c).mean()
            error = np.sqrt(max(expected * (1 - expected), 1e-3) / own.sum())
            assert abs(expected - rate) < 4 * error


def test_a_short_run(
    script: ModuleType,
    run_script: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(script, "RECORDS", tmp_path / "intervals.jsonl")
    monkeypatch.setattr(script, "SHIFTS", (3.0,))
    monkeypatch.setattr(script, "HULLS", ((2, 2.0),))
    monkeypatch.setattr(script, "demo_rows", lambda shift: [["d", shift, "0.5", "10.0"]])
    printed = run_script("--repetitions", 1)
    assert "| hull, 2 classes, 3 sources, radius 2 |" in printed
    assert "| latent, two groups, prior shift 3 |" in printed and "| d | 3.0 |" in printed
    assert len((tmp_path / "intervals.jsonl").read_text().splitlines()) == 2
