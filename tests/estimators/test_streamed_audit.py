"""Audits of rows that are not in memory: the same as in memory."""

from typing import Any

import numpy as np
import pytest

from regraft import CROClassifier, audit_groups, make_confounded_domains
from regraft.core import row_sums
from regraft.estimators.adapted import AdaptedClassifier
from regraft.estimators.streamed_audit import audit_rows
from tests.helpers.row_tables import list_numbers, split_rows


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks and blocks."""
    monkeypatch.setattr(row_sums, "CHUNK_ROWS", 10)
    monkeypatch.setattr(row_sums, "BLOCK_ROWS", 300)


def _draw(seed: int) -> Any:
    drawn = make_confounded_domains(600, strengths=(0.95, 0.7), n_features=6, random_state=seed)
    return drawn.X, drawn.y, drawn.sample_domain


@pytest.mark.parametrize("prior_shift", [None, 1.0])
def test_with_all_rows_as_the_sample_it_is_the_audit_in_memory(prior_shift: float | None) -> None:
    model, data = CROClassifier().fit(*_draw(0)), _draw(1)
    ours = audit_rows(model, *split_rows(*data), prior_shift=prior_shift)
    theirs = audit_groups(model, *data, prior_shift=prior_shift)
    assert ours.n_groups == 2
    assert ours.paragraphs() == theirs.paragraphs()
    numbers = [list_numbers(each.to_dict()) for each in (ours, theirs)]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-9)


def test_classes_that_the_rows_lack_count_as_errors_as_in_memory() -> None:
    drawn = make_confounded_domains(
        400, n_classes=3, strengths=(0.9, 0.6), n_features=6, random_state=0
    )
    model = CROClassifier().fit(drawn.X, drawn.y, drawn.sample_domain)
    kept = drawn.y != 1
    data = drawn.X[kept], drawn.y[kept], drawn.sample_domain[kept]
    ours, theirs = audit_rows(model, *split_rows(*data)), audit_groups(model, *data)
    numbers = [list_numbers(each.to_dict()) for each in (ours, theirs)]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-9)


def test_a_sample_finds_the_groups_and_all_rows_are_measured() -> None:
    model, data = CROClassifier().fit(*_draw(0)), _draw(1)
    drawn = np.arange(len(data[1])) % 3 > 0
    ours, theirs = audit_rows(model, *split_rows(*data, drawn)), audit_groups(model, *data)
    assert sum(each.rows for each in ours.sources) == pytest.approx(len(data[1]))
    assert ours.accuracy == pytest.approx(theirs.accuracy, abs=0.03)


def test_rows_that_the_model_was_fitted_on_are_recognized() -> None:
    data = _draw(0)
    with pytest.warns(UserWarning, match="fitted on these very rows"):
        audit_rows(CROClassifier().fit(*data), *split_rows(*data))


def test_other_heads_are_refused() -> None:
    with pytest.raises(ValueError, match="AdaptedClassifier is no linear head"):
        audit_rows(AdaptedClassifier(), *split_rows(*_draw(0)))
