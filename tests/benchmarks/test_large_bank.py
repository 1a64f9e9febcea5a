"""The benchmark of large banks, on a small one."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from regraft.data.banks import open_bank

SCRIPT = "large_bank"


def test_the_confounder_agrees_as_often_as_it_should(script: ModuleType) -> None:
    domain = np.arange(30_000) % 3
    X, y = script.draw(domain, 40, 2, seed=0)
    codes = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 4)))[0]
    confounder = (X @ codes)[:, 2:].argmax(axis=1)
    agreement = [float((confounder == y)[domain == s].mean()) for s in range(3)]
    assert agreement == pytest.approx(script.STRENGTHS, abs=0.02)
    X, y = script.draw(domain, 40, 2, seed=0, shift=1)
    confounder = (X @ codes)[:, 2:].argmax(axis=1)
    assert float((confounder == y)[domain == 0].mean()) == pytest.approx(0.1, abs=0.02)


def test_a_killed_run_is_gone_on_with(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "BLOCK", 100)
    script.make(tmp_path / "whole", 350, 8, 2)
    draws: list[int] = []
    draw = script.draw

    def failing(*args: object, seed: int) -> object:
        if len(draws) == 2:
            raise KeyboardInterrupt
        draws.append(seed)
        return draw(*args, seed=seed)

    monkeypatch.setattr(script, "draw", failing)
    with pytest.raises(KeyboardInterrupt):
        script.make(tmp_path / "cut", 350, 8, 2)
    monkeypatch.setattr(script, "draw", draw)
    script.make(tmp_path / "cut", 350, 8, 2)
    whole, cut = open_bank(tmp_path / "whole"), open_bank(tmp_path / "cut")
    assert draws == [0, 100]
    assert cut.checksum == whole.checksum
    assert cut.X.shape == (350, 8)


@pytest.mark.slow
def test_it_measures_and_reports(run_script: Callable[..., str], tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    options = "--folder", tmp_path / "b", "--features", 10, "--out", out, "--rows"
    printed = run_script(*options, 1500)
    result = json.loads(out.read_text())
    assert result["file_bytes"] > 1500 * 10 * 4
    assert set(result["fit"]["part_seconds"]) > {"validation", "cross-validation", "game"}
    assert sum(result["fit"]["part_seconds"].values()) <= result["fit"]["fit_seconds"]
    assert result["fit"]["peak_bytes"] >= result["fit"]["imports_bytes"]
    assert result["fit"]["unseen_accuracy"] > result["fit"]["unseen_accuracy_erm"]
    assert "| cross-validation |" in printed
    with pytest.raises(SystemExit, match="another bank"):
        run_script(*options, 4000)
