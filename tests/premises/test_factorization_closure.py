"""Factorization closure: its numbers by hand, its verdicts on known predictions."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from regraft.core.domains import check_domains
from regraft.premises.factorization import Penalties, fit_factorization, group_rows
from regraft.premises.factorization_closure import (
    FactorizationClosure,
    check_factorization_closure,
    compare_predictions,
    unit_folds,
)
from regraft.premises.multinomial_maps import FOLDS
from regraft.support.json_files import dumps
from tests.helpers.factorized_domains import draw_domains

PENALTIES = Penalties(1.0, 1.0)


def binary(second: list[float]) -> Tensor:
    p = torch.tensor(second, dtype=torch.float64)
    return torch.stack([1 - p, p], dim=1)


def compare(
    y: Tensor, factorized: Tensor, direct: Tensor, unit: Tensor | None = None
) -> FactorizationClosure:
    """All rows are of one domain."""
    domain = torch.zeros_like(y)
    return compare_predictions(y, domain, factorized, direct, names=["a"], unit=unit)


def test_two_classes_by_hand() -> None:
    y, p, direct = torch.tensor([1, 0, 1, 1]), [0.8, 0.4, 0.6, 0.3], [0.9, 0.2, 0.4, 0.7]
    found = compare(y, binary(p), binary(direct)).domains[0]
    assert found.domain == "a" and found.frequencies == pytest.approx((0.25, 0.75))
    assert found.factorized.mean == pytest.approx((0.475, 0.525))
    assert found.factorized.brier == pytest.approx((0.04 + 0.16 + 0.16 + 0.49) / 4)
    assert found.factorized.accuracy == 0.75
    loss = -math.log(0.8 * 0.6 * 0.6 * 0.3) / 4
    assert found.factorized.log_loss == pytest.approx(loss)
    assert found.direct.brier == pytest.approx((0.01 + 0.04 + 0.36 + 0.09) / 4)
    assert found.direct.accuracy == 0.75
    assert found.direct.log_loss == pytest.approx(-math.log(0.9 * 0.8 * 0.4 * 0.7) / 4)
    assert found.calibration_error == pytest.approx(0.225)
    excesses = np.log([0.9 / 0.8, 0.8 / 0.6, 0.4 / 0.6, 0.7 / 0.3])
    assert found.excess == pytest.approx(np.mean(excesses))
    assert found.excess_error == pytest.approx(np.std(excesses) / 2)
    entropy = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    gains = [entropy - found.factorized.log_loss, entropy - found.direct.log_loss]
    assert found.kept == pytest.approx(gains[0] / gains[1])
    assert found.correlation == pytest.approx(np.corrcoef(p, direct)[0, 1])
    assert found.agreement == 0.5
    by_unit = compare(y, binary(p), binary(direct), torch.tensor([2, 0, 0, 2])).domains[0]
    centred = excesses - excesses.mean()
    error = math.hypot(centred[0] + centred[3], centred[1] + centred[2]) / 4
    assert by_unit.excess == found.excess and by_unit.excess_error == pytest.approx(error)


def test_three_classes_and_two_domains_by_hand() -> None:
    y = torch.tensor([0, 2, 1])
    p = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.5, 0.3]], dtype=torch.float64)
    found = compare(y, p, p).domains[0]
    assert found.factorized.brier == pytest.approx((0.38 + 0.86 + 0.38) / 3)
    assert found.factorized.accuracy == pytest.approx(2 / 3)
    assert found.factorized.log_loss == pytest.approx(-math.log(0.5 * 0.3 * 0.5) / 3)
    assert found.frequencies == pytest.approx((1 / 3,) * 3)
    assert found.calibration_error == pytest.approx(1.4 / 3 - 1 / 3)
    assert found.excess == 0 and found.agreement == 1
    assert found.correlation == pytest.approx(1)
    lacking = compare(y[:2], p[:2], p[:2]).domains[0]  # a class that the domain has no rows of
    assert lacking.factorized.log_loss == pytest.approx(-math.log(0.5 / 0.7 * 0.3 / 0.4) / 2)
    y, domain = torch.tensor([1, 0, 1, 1, 0, 0]), torch.tensor([1, 0, 1, 0, 1, 0])
    p = binary([0.8, 0.4, 0.6, 0.3, 0.1, 0.2])
    both = compare_predictions(y, domain, p, p.flip(0), names=["a", "b"])
    for s, part in enumerate(both.domains):
        own = domain == s
        alone = compare(y[own], p[own], p.flip(0)[own]).domains[0]
        assert part.factorized == alone.factorized and part.direct == alone.direct
    assert [part.domain for part in both.domains] == ["a", "b"]


def draw_labels(p: Tensor, seed: int = 0) -> Tensor:
    """Labels by the probabilities of the second class."""
    uniform = np.random.default_rng(seed).random(len(p))
    return (torch.from_numpy(uniform) < p[:, 1]).long()


def truth(n: int) -> Tensor:
    return binary(np.random.default_rng(1).uniform(0.05, 0.85, n).tolist())


def test_perfect_probabilities_are_consistent_and_a_bias_of_many_rows_is_violated() -> None:
    p = truth(4000)
    y, biased = draw_labels(p), p + torch.tensor([-0.1, 0.1])
    found = compare(y, p, p)
    assert found.verdict == "consistent" and found.sentence.startswith("The factorization closes")
    assert found.domains[0].calibration_error < 0.03 and found.domains[0].kept == 1
    found = compare(y, biased, p)
    assert found.verdict == "violated" and "does not close" in found.sentence
    assert found.domains[0].calibration_error == pytest.approx(0.1, abs=0.03)
    few = slice(0, 25)
    assert compare(y[few], biased[few], p[few]).verdict == "undecided"
    p = truth(4000)
    y = draw_labels(p)
    constant = (torch.bincount(y).double() / 4000).expand(4000, 2)
    found = compare(y, constant, p)
    part = found.domains[0]
    assert found.verdict == "violated"
    assert part.calibration_error < 1e-12 and part.kept == pytest.approx(0) and part.excess > 0.05
    assert part.correlation == 0
    assert "keeping at least 0%" in found.sentence


def test_where_little_is_learned_nothing_can_be_told() -> None:
    fair, worse = binary([0.5] * 2000), binary([0.55, 0.45] * 1000)
    found = compare(torch.arange(2000) % 2, fair, worse)
    assert math.isnan(found.domains[0].kept) and found.verdict == "undecided"
    assert found.sentence.startswith("Whether the factorization closes cannot be told where even")
    assert "keeping" not in found.sentence
    assert dumps(found.to_dict())
    # Nine of sixteen right at 0.6: a gain of 0.005 nats, with an error of 0.2 over sqrt(n).
    y, right = torch.tensor([0, 1] * 16), torch.tensor([1] * 18 + [0] * 14) == 1
    p = binary(torch.where(right, 0.4 + 0.2 * y, 0.6 - 0.2 * y).tolist())
    gains = [math.log(0.6 / 0.5)] * 9 + [math.log(0.4 / 0.5)] * 7
    assert 0.0045 < np.mean(gains) < 0.005 and np.std(gains) == pytest.approx(0.2, abs=0.002)
    few, many = (compare(y.repeat(k), p.repeat(k, 1), p.repeat(k, 1)) for k in (100, 1000))
    assert few.verdict == "undecided" and few.domains[0].kept == 1  # 0.005 < 3 * 0.2 / sqrt(3200)
    assert many.verdict == "consistent"  # 0.005 > 3 * 0.2 / sqrt(32000)


def test_one_violated_domain_outweighs_one_that_tells_nothing() -> None:
    p, fair = truth(4000), binary([0.5] * 4000)
    y = torch.cat([draw_labels(p), torch.arange(4000) % 2])
    domain = torch.arange(2).repeat_interleave(4000)
    direct = torch.cat([p, fair])
    biased = torch.cat([p + torch.tensor([-0.1, 0.1]), fair])
    verdicts = [
        compare_predictions(y, domain, factorized, direct, names=["a", "b"]).verdict
        for factorized in (direct, biased)
    ]
    assert verdicts == ["undecided", "violated"]


def test_copies_of_rows_do_not_make_errors_smaller_and_mistakes_stay_finite() -> None:
    p = truth(300)
    y, copies = draw_labels(p), torch.arange(300).repeat(10)
    direct = binary([0.5] * 300)
    once = compare(y, p, direct).domains[0]
    copied = y[copies], p[copies], direct[copies]
    together, alone = (compare(*copied, unit).domains[0] for unit in (copies, None))
    assert together.excess_error == pytest.approx(once.excess_error)
    assert alone.excess_error == pytest.approx(once.excess_error / math.sqrt(10))
    y = torch.tensor([0, 1, 1])
    found = compare(y, binary([1.0, 1.0, 0.0]), binary([0.1, 0.9, 0.9]))
    assert math.isfinite(found.domains[0].factorized.log_loss)
    assert found.domains[0].factorized.log_loss > 10


@pytest.mark.parametrize("classes", [2, 3])
def test_a_true_factorization_closes(classes: int) -> None:
    data = draw_domains(0, n=1500, classes=classes, sources=3, shift="full")
    rows = data.rows()
    found = check_factorization_closure(rows, PENALTIES, names=data.names)
    assert found.verdict == "consistent"
    assert max(part.excess for part in found.domains) < 0.02
    for s, part in enumerate(found.domains):
        y = torch.from_numpy(data.y[data.domain == s])
        X = torch.from_numpy(data.X[data.domain == s])
        best = data.maps.predict(X, torch.full((len(X),), s))
        loss = -best.gather(1, y.unsqueeze(1)).log().mean()
        assert part.factorized.log_loss == pytest.approx(float(loss), abs=0.03)
        assert part.frequencies == pytest.approx((np.bincount(y) / len(y)).tolist())


def test_units_are_dealt_whole_and_evenly_and_predicted_by_other_folds() -> None:
    data = draw_domains(0, n=150)
    rows = data.rows()
    unit = torch.from_numpy(np.random.default_rng(0).integers(40, size=300))
    fold = unit_folds(rows, unit)
    found = check_factorization_closure(rows, PENALTIES, names=data.names, unit=unit)
    expected = torch.empty(300, 2, dtype=torch.float64)
    for f in range(FOLDS):
        unseen = rows.take(fold == f)
        maps = fit_factorization(rows.take(fold != f), PENALTIES)
        expected[fold == f] = maps.predict(unseen.Z[:, :-1], unseen.domain)
    again = compare_predictions(rows.y, rows.domain, expected, expected, names=data.names)
    for ours, theirs in zip(found.domains, again.domains, strict=True):
        assert ours.factorized.log_loss == pytest.approx(theirs.factorized.log_loss)
        assert ours.factorized.mean == pytest.approx(theirs.factorized.mean)
    unit = torch.arange(300) % 60
    fold = unit_folds(rows, unit)
    assert torch.equal(fold, fold[:60].repeat(5))
    assert torch.bincount(fold).tolist() == [100] * FOLDS
    assert unit_folds(rows, None).tolist() == [i % FOLDS for i in range(300)]


def test_copies_of_a_row_held_back_together_flatter_no_more() -> None:
    """Labels of no meaning: whoever has seen a row's copies seems to predict them."""
    rng = np.random.default_rng(0)
    X, source = rng.standard_normal((60, 15)), np.repeat(np.arange(60), 4)
    y, domain, group = (rng.integers(2, size=60)[source] for _ in range(3))
    domains = check_domains(X[source], y, domain)
    rows = group_rows(domains, torch.from_numpy(group), 2)
    unit = torch.from_numpy(source)[rows.order]
    losses = []
    for units in (None, unit):
        found = check_factorization_closure(rows, PENALTIES, names=["0", "1"], unit=units)
        losses.append(np.mean([part.factorized.log_loss for part in found.domains]))
    assert losses[0] < np.log(2) < losses[1]


def test_groups_of_no_meaning_cannot_explain_domains_that_disagree() -> None:
    data = draw_domains(0, n=1500, reversed_last=True)
    noise = np.random.default_rng(0).integers(2, size=len(data.y))
    domains = check_domains(data.X, data.y, data.domain)
    rows = group_rows(domains, torch.from_numpy(noise), 2)
    found = check_factorization_closure(rows, PENALTIES, names=data.names)
    assert found.verdict == "violated"
    assert min(part.kept for part in found.domains) < 0.5
