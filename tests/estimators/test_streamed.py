"""Fits on rows that are not in memory: the same as in memory, whatever holds the rows."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from regraft import CROClassifier, make_confounded_domains
from regraft.core import row_sums
from regraft.core.latent_game import NOT_MIXTURES
from regraft.core.row_sums import RowChunk, RowFunction, RowTable, Sums
from regraft.estimators.streamed import (
    check_streamed,
    draw_rows,
    fit_on_rows,
    sampling_rates,
)
from tests.helpers.row_tables import LocalRows, list_numbers, split_rows


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks and blocks."""
    monkeypatch.setattr(row_sums, "CHUNK_ROWS", 100)
    monkeypatch.setattr(row_sums, "BLOCK_ROWS", 300)


def _draw(n: int, n_classes: int = 2) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    drawn = make_confounded_domains(
        n, n_classes=n_classes, strengths=(0.95, 0.7), n_features=6, random_state=0
    )
    return drawn.X, drawn.y, drawn.sample_domain


def _fit(model: CROClassifier, data: Any, drawn: Any) -> CROClassifier:
    """Fit on all rows, with the drawn ones as the sample."""
    return fit_on_rows(model, *split_rows(*data, drawn))


@pytest.mark.parametrize(
    ("settings", "n_classes"),
    [({}, 2), ({"prior_shift": 1.0}, 3), ({"ridge": 1e-2}, 2)],
    ids=["any mixture", "bounded shift, three classes", "ridge given"],
)
def test_with_all_rows_as_the_sample_it_is_the_fit_in_memory(settings: Any, n_classes: int) -> None:
    data = _draw(800, n_classes)
    ours = _fit(CROClassifier(**settings), data, np.ones(len(data[1]), bool))
    theirs = CROClassifier(**settings).fit(*data)
    assert ours.certificate_.reason == theirs.certificate_.reason == ""
    for name in ("coef_", "intercept_", "pooled_head_", "group_map_", "group_prior_",
                 "group_heads_", "feature_mean_"):  # fmt: skip
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-9, rtol=1e-9)
    for name, value in vars(theirs.reference_).items():
        np.testing.assert_allclose(getattr(ours.reference_, name), value, atol=1e-9, err_msg=name)
    certificates = [each.certificate_.to_dict() for each in (ours, theirs)]
    assert list_numbers(certificates[0]) == pytest.approx(list_numbers(certificates[1]), abs=1e-9)
    assert [e.name for e in ours.certificate_.groups] == [
        e.name for e in theirs.certificate_.groups
    ]


def test_a_sample_chooses_and_all_rows_decide() -> None:
    data = _draw(3000)
    drawn = draw_rows(0, np.full(len(data[1]), 0.3))
    ours, theirs = _fit(CROClassifier(), data, drawn), CROClassifier().fit(*data)
    assert ours.certificate_.reason == ""
    assert sum(ours.certificate_.source_rows) == len(data[1])
    agree = (ours.predict(data[0]) == theirs.predict(data[0])).mean()
    assert agree > 0.97
    assert ours.certificate_.risk_bound == pytest.approx(theirs.certificate_.risk_bound, abs=0.03)
    np.testing.assert_allclose(ours.feature_mean_, theirs.feature_mean_, rtol=1e-9)


def test_sources_that_are_no_mixtures_leave_the_ordinary_head() -> None:
    drawn = make_confounded_domains(800, strengths=(0.9, 0.6), label_noise=0, random_state=0)
    y, domain = drawn.y, drawn.sample_domain
    wrong = (np.arange(len(y)) % 4 == 0) & (domain == "source 1")
    data = drawn.X, np.where(wrong, 1 - y, y), domain
    ours = _fit(CROClassifier(), data, np.ones(len(y), bool))
    theirs = CROClassifier().fit(*data)
    assert ours.certificate_.reason == theirs.certificate_.reason
    assert ours.certificate_.reason.startswith(f"{NOT_MIXTURES} (")
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-9)
    # Without noise many rows lie on a cut, and either side gives a valid bound.
    for own, other in zip(ours.certificate_.sources, theirs.certificate_.sources, strict=True):
        assert (own.risk, own.accuracy) == pytest.approx((other.risk, other.accuracy), abs=1e-9)


def test_without_a_factor_the_head_is_that_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    y, domain = rng.integers(2, size=1200), np.repeat(["a", "b"], 600)
    X = rng.standard_normal((1200, 4)) + y[:, None]
    ours = _fit(CROClassifier(), (X, y, domain), draw_rows(0, np.full(1200, 0.5)))
    theirs = CROClassifier().fit(X, y, domain)
    assert ours.certificate_.reason == theirs.certificate_.reason != ""
    assert abs(ours.coef_ - theirs.coef_).max() < 0.05


def test_the_result_does_not_depend_on_the_number_of_tables() -> None:
    """Blocks are added in their order, so the bits are the same wherever they were summed."""
    from regraft.core.row_risks import HeadBatch, RowBeliefs, RowFrame, RowWeights, risk_sums
    from regraft.core.row_sums import NO_FOLDS, add_in_order

    torch = pytest.importorskip("torch")
    X, y, domain = _draw(500)
    source = np.unique(domain, return_inverse=True)[1]
    frame = RowFrame(torch.zeros(6).double(), torch.eye(7).double())
    plain = RowBeliefs.of(None, torch.ones(2, dtype=torch.bool), frame)
    ones = torch.ones(1, 1, 1).double()
    weights = RowWeights(plain, torch.ones(2).double(), ones[0])
    heads = torch.randn(1, 1, 7, dtype=torch.float64)
    arguments = frame, weights, (HeadBatch(heads, ones, torch.full((1, 1, 1), -1)),)
    whole = LocalRows(RowTable(X, y, source)).sum(risk_sums, *arguments)
    parts = [RowTable(X[a:b], y[a:b], source[a:b], a) for a, b in ((0, 600), (600, len(y)))]
    sums = (part for table in parts for part in table.sums(NO_FOLDS, risk_sums, arguments))
    for ours, theirs in zip(add_in_order(sums), whole, strict=True):
        assert torch.equal(ours, theirs)


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=2, max_size=2), min_size=1, max_size=5))
def test_sampling_rates_keep_small_cells_and_cut_large_sources(cells: list[list[int]]) -> None:
    counts = np.array(cells)
    rates = sampling_rates(counts, most=1000)
    assert ((rates >= 0) & (rates <= 1)).all()
    expected = rates * counts
    assert (expected >= np.minimum(counts, 30) - 1e-6).all()
    assert expected.sum() <= 1000 + 30 * counts.size + len(counts)


def test_rows_are_drawn_at_their_rates_wherever_a_shard_begins() -> None:
    drawn = draw_rows(0, np.full(10_000, 0.2))
    assert abs(drawn.mean() - 0.2) < 0.02
    assert (draw_rows(4000, np.full(6000, 0.2)) == drawn[4000:]).all()
    assert draw_rows(7, np.ones(100)).all() and not draw_rows(7, np.zeros(100)).any()


def test_rows_in_memory_are_as_they_were_after_a_fit() -> None:
    """They are not copied chunk by chunk, and whoever may not be written to is."""
    data = _draw(400)
    X = data[0].astype(np.float32)
    before, heads = X.copy(), []
    for writeable in (True, False):
        X.flags.writeable = writeable
        model = _fit(CROClassifier(), (X, *data[1:]), np.ones(len(X), bool))
        heads.append(model.coef_)
        np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(heads[0], heads[1])


def test_indices_are_short_until_they_are_where_sums_are_computed() -> None:
    _, rows, _ = split_rows(*_draw(100))
    chunk = rows.table._chunk(slice(0, 7), rows.folds)
    assert sum(each.nbytes for each in vars(chunk).values()) == chunk.X.nbytes + 4 * 7
    there = chunk.to("meta")
    assert {each.device.type for each in vars(there).values()} == {"meta"}
    assert there.y.dtype == there.source.dtype == there.head_fold.dtype == torch.int64


@dataclass(frozen=True)
class OnTwoDevices(LocalRows):
    """Rows whose sums are also asked for on torch's device without data, which mixes with none."""

    def sum(self, function: RowFunction, *arguments: Any) -> Sums:
        sums = super().sum(function, *arguments)
        chunk = RowChunk(
            torch.from_numpy(self.table.X),
            torch.from_numpy(self.table.y),
            torch.from_numpy(self.table.source),
            *self.folds.deal(0, self.n_rows),
        )
        on_meta = function(chunk.to("meta"), *row_sums.move(arguments, "meta"))
        for here, there in zip(sums, on_meta, strict=True):
            assert there.device.type == "meta"
            assert there.shape == here.shape and there.dtype == here.dtype
        return sums


@pytest.mark.parametrize("settings", [{}, {"prior_shift": 1.0}])
def test_sums_can_be_computed_on_another_device_than_the_heads_are_searched_on(
    settings: Any,
) -> None:
    data = _draw(800)
    sample, rows, counts = split_rows(*data, np.arange(len(data[1])) % 2 == 0)
    model = fit_on_rows(CROClassifier(**settings), sample, OnTwoDevices(rows.table), counts)
    assert model.certificate_.reason == ""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_sums_of_the_cpu() -> None:
    data = _draw(800)
    sample, rows, counts = split_rows(*data, np.arange(len(data[1])) % 2 == 0)
    on_gpu = replace(rows, table=replace(rows.table, device="cuda"))
    cpu, gpu = (
        fit_on_rows(CROClassifier(), sample, each, counts).certificate_ for each in (rows, on_gpu)
    )
    ours, theirs = list_numbers(gpu.to_dict()), list_numbers(cpu.to_dict())
    assert ours == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("settings", [{"family": "hull"}, {"class_groups": True}])
def test_what_needs_all_rows_in_memory_says_so(settings: Any) -> None:
    with pytest.raises(ValueError, match="needs all rows in memory"):
        check_streamed(CROClassifier(**settings))
