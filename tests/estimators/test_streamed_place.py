"""Places of rows that are not in memory: the same as in memory."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from regraft import CROClassifier, make_confounded_domains, place
from regraft.core import closure_test, row_sums
from regraft.estimators import streamed_place
from regraft.estimators.streamed_place import compared_step, place_rows
from tests.helpers.row_tables import list_numbers, split_rows


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks and blocks, and fewer rows that are compared one by one."""
    monkeypatch.setattr(row_sums, "CHUNK_ROWS", 10)
    monkeypatch.setattr(row_sums, "BLOCK_ROWS", 300)
    for module in (closure_test, streamed_place):
        monkeypatch.setattr(module, "MAX_ROWS", 300)


def _draw(seed: int, strengths: tuple[float, ...], n_classes: int = 2) -> Any:
    drawn = make_confounded_domains(
        700, n_classes=n_classes, strengths=strengths, n_features=6, random_state=seed
    )
    return drawn.X, drawn.y, drawn.sample_domain


def _place(model: CROClassifier, data: Any) -> Any:
    _, rows, _ = split_rows(*data)
    return place_rows(model, rows, data[0][:: compared_step(rows.n_rows)])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_is_the_place_in_memory(n_classes: int) -> None:
    model = CROClassifier().fit(*_draw(0, (0.95, 0.7), n_classes))
    data = _draw(1, (0.8,), n_classes)
    ours, theirs = _place(model, data), place(model, data[0])
    assert len(theirs.shares) == 2 and theirs.is_placed
    assert ours.alien_rows == theirs.alien_rows
    numbers = [list_numbers(replace(each, alien_rows=()).to_dict()) for each in (ours, theirs)]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-9)


def test_without_a_factor_there_is_one_share() -> None:
    rng = np.random.default_rng(0)
    y, domain = rng.integers(2, size=400), np.repeat(["a", "b"], 200)
    X = rng.standard_normal((400, 4)) + y[:, None]
    model, new = CROClassifier().fit(X, y, domain), rng.standard_normal((60, 4))
    ours, theirs = _place(model, (new, y[:60], domain[:60])), place(model, new)
    assert list_numbers(ours.to_dict()) == pytest.approx(list_numbers(theirs.to_dict()), abs=1e-9)


def test_rows_of_a_source_and_too_few_rows_are_refused() -> None:
    data = _draw(0, (0.95, 0.7))
    model = CROClassifier().fit(*data)
    with pytest.raises(ValueError, match="the target holds the rows of the source"):
        _place(model, data)
    with pytest.raises(ValueError, match="the target has 5 rows: pass 10 or more"):
        _place(model, [each[:5] for each in data])
