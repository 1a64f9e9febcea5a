"""The benchmark of the price on data as they are, and the tables that it reads."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from regraft.data.labelled import LabelledTable

SCRIPT = "price"


def test_each_domain_is_left_out_once(
    script: ModuleType,
    run_script: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Halves of one population have no hidden factor: the head is ERM's."""
    random = np.random.default_rng(0)
    X, y = random.standard_normal((240, 4)), np.arange(240) % 2
    X[:, 0] += 3 * y
    data = LabelledTable(X=X, y=y, domain=np.repeat(["a", "b", "c"], 80))
    monkeypatch.setattr(script, "read", lambda name: data)
    monkeypatch.setattr(script, "RECORDS", tmp_path / "price.jsonl")
    first = run_script("heart")
    assert "| heart | " in first and "| +0.0 | +0.0 | 3 of 3 |" in first
    assert all(f"| heart | {name} | 80 | " in first for name in "abc")
    monkeypatch.setattr(script, "leave_out", None)  # cannot be called
    assert run_script("heart") == first
    with pytest.raises(SystemExit, match="there is no 'hart': choose among"):
        run_script("hart")


@pytest.mark.usefixtures("script")
def test_tables_become_standardized_features() -> None:
    to_features = import_module("raw_tables").to_features
    frame = pd.DataFrame({"age": [1.0, 2.0, None, 9.0], "job": ["a", "b", None, "a"]})
    X = to_features(frame)
    assert X.shape == (4, 1 + 1 + 2)  # the number, its flag, and a column a category
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X.std(axis=0), 1)
    assert X[1, 0] == X[2, 0]  # the median
    assert X[:, 1].argmax() == 2
