"""Leave-one-domain-out: the shared path against separate fits, resuming, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from regraft import CROClassifier, ERMClassifier
from regraft.estimators.compared_heads import (
    CRO_DEFAULTS,
    CRO_HULL,
    ERM,
    ComparedHead,
    compared_heads,
    solve_on_sources,
)
from regraft.estimators.comparison import Comparison, ComparisonCell, compare
from regraft.estimators.comparison_metrics import METRICS
from regraft.estimators.table_features import TableFeatures
from tests.helpers.errors import refused
from tests.helpers.problems import Problem, make_problem

HEADS = [ERM, "GroupDRO", "V-REx", "IRM", "JTT", "EIIL", "XRM", CRO_HULL, CRO_DEFAULTS]


@pytest.fixture(scope="module")
def data() -> Problem:
    return make_problem(seed=3, n=40, d=3, classes=2, sources=3)


@pytest.fixture(scope="module")
def comparison(data: Problem) -> Comparison:
    return compare(*data.data, radii=(2.0, 0.5))


@pytest.mark.parametrize("contender", compared_heads((0.0, 1.0)), ids=lambda c: c.name)
def test_shared_source_heads_give_what_fit_gives(contender: ComparedHead) -> None:
    data = make_problem(seed=3, n=60, d=4, classes=3, sources=3)
    sources = data.sources
    head = solve_on_sources(contender.model, sources).numpy()
    fitted = contender.model.fit(*data.data)
    np.testing.assert_array_equal(head, fitted._head)


def test_contenders_are_the_defaults_and_the_radii_in_order() -> None:
    found = compared_heads((4.0, 0.5, 4.0))
    assert [c.name for c in found] == [*HEADS, "CRO (radius 0.5)", "CRO (radius 4)"]
    assert [c.radius for c in found] == [None] * len(HEADS) + [0.5, 4.0]
    assert found[len(HEADS) - 1].model.get_params() == CROClassifier().get_params()
    assert found[-1].model.get_params() == CROClassifier("hull", radius=4.0).get_params()
    assert len({c.name for c in compared_heads((1.0, 1.0 + 1e-9))}) == len(HEADS) + 2
    assert [c.name for c in compared_heads()] == list(HEADS)  # radii on request only


def test_every_cell_is_a_separate_fit_on_the_other_domains(
    data: Problem, comparison: Comparison
) -> None:
    cells = {(cell.target, cell.head): cell for cell in comparison.cells}
    models = {
        ERM: ERMClassifier(),
        CRO_DEFAULTS: CROClassifier(),
        CRO_HULL: CROClassifier("hull"),
        "CRO (radius 2)": CROClassifier("hull", radius=2.0),
    }
    for target in comparison.targets:
        unseen = data.domain == target
        for name, model in models.items():
            model.fit(*data.take(~unseen).data)
            correct = model.predict(data.X) == data.y
            sources = [s for s in comparison.targets if s != target]
            own = [correct[data.domain == s].mean() for s in sources]
            assert cells[target, name].accuracy == pytest.approx(correct[unseen].mean(), abs=1e-12)
            assert cells[target, name].source_accuracy == pytest.approx(np.mean(own), abs=1e-12)


def test_rows_sum_up_the_cells(comparison: Comparison) -> None:
    names = [*HEADS, "CRO (radius 0.5)", "CRO (radius 2)"]
    assert [row.head for row in comparison.rows] == names
    assert len(comparison.cells) == 3 * len(names)
    erm = comparison.row(ERM)
    for row in comparison.rows:
        cells = [cell for cell in comparison.cells if cell.head == row.head]
        assert row.accuracy == {cell.target: cell.accuracy for cell in cells}
        assert row.average == pytest.approx(sum(row.accuracy.values()) / 3)
        assert row.worst == min(row.accuracy.values()) == row.accuracy[row.worst_target]
        assert row.source == pytest.approx(sum(cell.source_accuracy for cell in cells) / 3)
        assert row.average_gain == pytest.approx(row.average - erm.average)
        assert row.worst_gain == pytest.approx(row.worst - erm.worst)
    assert (erm.average_gain, erm.worst_gain) == (0.0, 0.0)
    json.dumps(comparison.to_dict(), allow_nan=False)  # plain data
    assert f"in the worst ({erm.worst_target})" in comparison.paragraphs()[0]
    with refused("there is no head 'SVM': the comparison has ERM,"):
        comparison.row("SVM")


def test_every_metric_has_an_interval_and_a_paired_difference(
    data: Problem, comparison: Comparison
) -> None:
    cells = {(cell.target, cell.head): cell for cell in comparison.cells}
    for row in comparison.rows:
        assert tuple(row.metrics) == tuple(row.minus_erm) == METRICS
        for metric, mean in row.metrics.items():
            own = [cells[target, row.head].metrics[metric] for target in comparison.targets]
            assert mean is not None and mean.low <= mean.value <= mean.high
            assert mean.value == pytest.approx(np.mean([each.value for each in own if each]))
            difference = row.minus_erm[metric]
            erm = comparison.row(ERM).metrics[metric]
            assert (difference is None) == (row.head == ERM)
            if difference is not None and erm is not None:
                assert difference.value == pytest.approx(mean.value - erm.value)
        accuracy = row.metrics["accuracy"]
        assert accuracy is not None and accuracy.value == pytest.approx(row.average)
    for target in comparison.targets:
        unseen = data.domain == target
        head = ERMClassifier().fit(*data.take(~unseen).data)
        p = head.predict_proba(data.X[unseen])
        metrics, y = cells[target, ERM].metrics, data.y[unseen]
        assert metrics["auc"] and metrics["auc"].value == pytest.approx(roc_auc_score(y, p[:, 1]))
        assert metrics["log_loss"]
        assert metrics["log_loss"].value == pytest.approx(log_loss(y, p), abs=1e-9)


@settings(max_examples=5)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(
    data: Problem, comparison: Comparison, random: Any
) -> None:
    order = list(range(len(data.y)))
    random.shuffle(order)
    again = compare(*data.take(order).data, radii=(2.0,))
    for row in again.rows:
        assert row.accuracy == pytest.approx(comparison.row(row.head).accuracy, abs=1e-12)


def test_every_cell_is_told_with_the_time_left(data: Problem) -> None:
    told: list[str] = []
    found = compare(*data.data, radii=(), on_progress=told.append)
    assert len(told) == 27 and len(found.rows) == len(HEADS)
    assert told[0].startswith("ERM without source 0: ") and "heads: 1 of 27, about" in told[0]
    assert told[-1].startswith(f"{CRO_DEFAULTS} without source 2: ") and "27 of 27" in told[-1]


def strip_seconds(cells: tuple[ComparisonCell, ...]) -> list[tuple[str, str, float, float]]:
    return [(cell.target, cell.head, cell.accuracy, cell.source_accuracy) for cell in cells]


def test_an_interrupted_comparison_goes_on(
    tmp_path: Path, data: Problem, comparison: Comparison
) -> None:
    path = tmp_path / "new" / "cells.jsonl"
    told: list[str] = []

    def stop_in_the_second_target(text: str) -> None:
        told.append(text)
        if len(told) == 13:
            raise KeyboardInterrupt

    arguments: dict[str, Any] = {"radii": (0.5, 2.0), "records": path}
    with pytest.raises(KeyboardInterrupt):
        compare(*data.data, on_progress=stop_in_the_second_target, **arguments)
    before = path.read_bytes()
    assert before.count(b"\n") == 13
    path.write_bytes(before + b'{"args": {"da')  # a kill in the middle of a line

    rest: list[str] = []
    found = compare(*data.data, on_progress=rest.append, **arguments)
    assert rest.pop(0) == "resuming: 13 of 33 heads are known from before"
    assert len(rest) == 33 - 13 and "heads: 14 of 33" in rest[0]
    assert path.read_bytes().startswith(before) and path.read_bytes().count(b"\n") == 33
    assert strip_seconds(found.cells) == strip_seconds(comparison.cells)

    again = compare(*data.data, on_progress=rest.append, **arguments)
    assert rest.pop() == "resuming: 33 of 33 heads are known from before"
    assert again == found and len(rest) == 20
    # Another radius needs its own cells only, other rows need all.
    compare(*data.data, radii=(0.5, 1.0), records=path, on_progress=rest.append)
    assert "resuming: 30 of 33 heads are known from before" in rest
    assert len(rest) == 20 + 1 + 3
    X = data.X.copy()
    X[0, 0] += 1e-9
    compare(X, data.y, data.domain, radii=(0.5,), records=path, on_progress=rest.append)
    assert len(rest) == 24 + 30


def test_a_damaged_file_of_cells_is_told(tmp_path: Path, data: Problem) -> None:
    path = tmp_path / "cells.jsonl"
    path.write_text("hello\n")
    with refused(r"line 1 of .* is not a record"):
        compare(*data.data, records=path)


def test_two_domains_leave_erm_alone(problem: Problem) -> None:
    rows = np.r_[:80, 300:380]
    with pytest.warns(
        UserWarning, match="every head is ERM's, but for .* add rows of a third domain"
    ):
        found = compare(*problem.take(rows).data, radii=(4.0,))
    for row in found.rows:
        if row.head not in ("JTT", "EIIL", "XRM"):
            assert row.accuracy == pytest.approx(found.row(ERM).accuracy, abs=0.02)


def test_types_of_features_labels_and_domains(data: Problem, comparison: Comparison) -> None:
    labels = np.array(["red", "yellow"])[data.y]
    numbers = np.array([int(name[-1]) + 7 for name in data.domain])
    found = compare(data.X.astype(np.float32), labels.tolist(), numbers[:, None], radii=(2.0,))
    assert found.targets == ("7", "8", "9")
    for row in found.rows:
        expected = list(comparison.row(row.head).accuracy.values())
        assert list(row.accuracy.values()) == pytest.approx(expected, abs=0.04)  # a row or two


def test_what_cannot_be_compared(data: Problem) -> None:
    cases: tuple[tuple[str, Any, dict[str, Any]], ...] = (
        (r"one domain \(source 0\), so none can be left out", data.domain == "source 0", {}),
        ("radius", slice(None), {"radii": (-1.0,)}),
        ("device 'tpu9'", slice(None), {"device": "tpu9"}),
    )
    for sentence, rows, options in cases:
        with refused(sentence):
            compare(*data.take(rows).data, **options)


def test_a_class_that_is_too_rare_without_a_domain(problem: Problem) -> None:
    """Two rows of a class in all: enough for every check but those of the cells."""
    second = problem.domain == "source 1"
    drop = np.zeros(len(problem.y), bool)
    for part in (second, ~second):
        drop[np.flatnonzero(part & (problem.y == 1))[1:]] = True
    with (
        pytest.warns(UserWarning, match="third domain"),
        refused("without domain source 0, class 1 has one sample"),
    ):
        compare(*problem.take(~drop).data)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_gpu_gives_the_same(data: Problem, comparison: Comparison) -> None:
    found = compare(*data.data, radii=(2.0,), device="cuda")
    for row in found.rows:
        assert row.accuracy == pytest.approx(comparison.row(row.head).accuracy, abs=0.03)


def test_a_table_becomes_numbers_by_the_sources_of_each_split_alone() -> None:
    problem = make_problem(seed=4, n=50, d=2, classes=2, sources=3)
    table: dict[str, Any] = {"a": problem.X[:, 0].copy(), "b": 100 * problem.X[:, 1]}
    table["a"][::7] = np.nan
    table["town"] = np.where(problem.X[:, 1] > 1, "Bern", "Chur").astype(object)
    table["town"][problem.domain == "source 2"] = "only there"
    found = compare(
        table,
        problem.y,
        problem.domain,
        radii=(),
        features=TableFeatures(),
        estimators={"tree": DecisionTreeClassifier(max_depth=2, random_state=0)},
    )
    models = {ERM: ERMClassifier(), "tree": DecisionTreeClassifier(max_depth=2, random_state=0)}
    for target in found.targets:
        kept = problem.domain != target
        rows = {name: column[kept] for name, column in table.items()}
        before = TableFeatures().fit(rows)
        for name, model in models.items():
            domain = {"sample_domain": problem.domain[kept]} if name == ERM else {}
            model.fit(before.transform(rows), problem.y[kept], **domain)
            right = model.predict(before.transform(table)) == problem.y
            assert found.row(name).accuracy[target] == pytest.approx(right[~kept].mean())
