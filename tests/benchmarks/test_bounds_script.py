"""The benchmark of the certificates' coverage: a small problem of every family, kept as records."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = "bounds"


@pytest.fixture(autouse=True)
def few_rows(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "HULL_FRESH_ROWS", 4_000)
    for name in ("MOST_ROWS", "MOST_FACTORIZED_ROWS"):
        monkeypatch.setattr(script, name, 301)
    monkeypatch.setattr(import_module("abduction"), "FRESH_ROWS", 5_000)


@pytest.mark.parametrize("family", ["latent", "hull", "factorized"])
def test_bounds_stand_beside_the_truth(script: ModuleType, family: str) -> None:
    numbers = script.run({"family": family, "seed": 1})
    compared = [value for value in numbers.values() if isinstance(value, list)]
    assert compared
    for risk, risk_bound, accuracy, accuracy_bound in compared:
        assert 0 < risk < 5 and risk_bound > 0
        assert 0 <= accuracy_bound < 1 and 0 < accuracy < 1
    shown = script.show([numbers], next(k for k, v in numbers.items() if isinstance(v, list)))
    assert shown[0] == "1" and len(shown) == len(script.HEADER)


def test_records_are_kept(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(script, "RECORDS", tmp_path / "bounds.jsonl")
    monkeypatch.setattr("sys.argv", ["bounds.py"])
    job = {"family": "hull", "seed": 1}
    script.Records(script.RECORDS).append({"args": job, "true heads": [1.0, 2.0, 0.5, 0.4]})
    (found,) = script.measure([job], workers=1)
    assert found["true heads"] == [1.0, 2.0, 0.5, 0.4]
    assert script.show([found], "true heads")[1].startswith("100.0")
