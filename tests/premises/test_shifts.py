"""Diversity and correlation shift, by hand and on data."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regraft import load_demo, make_confounded_domains
from regraft.core.domains import check_domains
from regraft.premises.shifts import Shifts, measure_shifts, shifts_between
from regraft.support.json_files import dumps
from tests.helpers.problems import make_problem

NAMES = ["a", "b"]
DOMAIN = torch.tensor([0, 0, 1, 1])


def table(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def labels(first: float, second: float) -> Tensor:
    """(4, 2, 2) probabilities of the second class in both domains, the same in all rows."""
    p = torch.tensor([first, second], dtype=torch.float64).expand(4, 2)
    return torch.stack([1 - p, p], dim=2)


ALIKE = table(*[(1.0, 1.0)] * 4)
DISJOINT = table((1, 0), (1, 0), (0, 1), (0, 1))


@pytest.mark.parametrize(
    ("density", "answers", "diversity", "correlation"),
    [
        (DISJOINT, labels(0, 1), 1, 0),
        (ALIKE, labels(0, 1), 0, 1),
        (ALIKE, labels(0.3, 0.3), 0, 0),
        (ALIKE, labels(0.3, 0.5), 0, 0.2),
        (5 * ALIKE, labels(0.3, 0.5), 0, 0.2),
        # Half the first domain is its own; the rest, and the second domain, is common to both.
        (table((1, 0), (1, 1), (1, 1), (1, 1)), labels(0, 1), 0.25, 0.75),
        # Where one density is four times the other, 2 sqrt(0.8 x 0.2) = 0.8 of a row counts.
        (table((4, 1), (4, 1), (1, 4), (1, 4)), labels(0, 1), 0, 0.8),
    ],
)
def test_by_hand(density: Tensor, answers: Tensor, diversity: float, correlation: float) -> None:
    found = shifts_between(density, answers, DOMAIN, NAMES)
    assert found.diversity == pytest.approx(diversity)
    assert found.correlation == pytest.approx(correlation)
    (pair,) = found.pairs
    assert (pair.first, pair.second) == ("a", "b")
    assert (pair.diversity, pair.correlation) == (found.diversity, found.correlation)


def test_pairs_know_their_own_rows_average_and_weigh_the_same() -> None:
    density = table((1, 0), (1, 1), (1, 1), (1, 1), (1, 1))
    answers = torch.cat([labels(0, 1), labels(0, 1)[:1]])
    found = shifts_between(density, answers, torch.tensor([0, 1, 1, 1, 1]), NAMES)
    assert found.diversity == pytest.approx(0.5) and found.correlation == pytest.approx(0.5)
    # The third domain lies apart; the first two share inputs and disagree by one half.
    density = table((1, 1, 0), (1, 1, 0), (0, 0, 1))
    second = table((0, 0.5, 1)).expand(3, 3)
    answers = torch.stack([1 - second, second], dim=2)
    found = shifts_between(density, answers, torch.arange(3), ["a", "b", "c"])
    named = {(p.first, p.second): (p.diversity, p.correlation) for p in found.pairs}
    assert named == {("a", "b"): (0.0, 0.5), ("a", "c"): (1.0, 0.0), ("b", "c"): (1.0, 0.0)}
    assert found.diversity == pytest.approx(2 / 3)
    assert found.correlation == pytest.approx(0.5 / 3)


def measure(*data: Any) -> Shifts:
    return measure_shifts(check_domains(*data))


def confounded(n: int, **options: Any) -> tuple[Any, Any, Any]:
    data = make_confounded_domains(n, **options)
    return data.X, data.y, data.sample_domain


@pytest.mark.parametrize("classes", [2, 3])
def test_confounders_of_different_strength_are_correlation_shift(classes: int) -> None:
    strengths = (0.9, 0.2), (1 / classes, 1 / classes)
    found, twin = (
        measure(*confounded(1000, n_classes=classes, strengths=s, random_state=0))
        for s in strengths
    )
    assert found.correlation > 0.3 > 0.15 > twin.correlation
    assert max(found.diversity, twin.diversity) < 0.05
    assert dumps(found.to_dict())


def test_few_rows_and_halves_shift_as_they_should() -> None:
    data = confounded(3000, strengths=(0.9, 0.2), random_state=0)
    few = measure(*(column[:3300] for column in data))
    assert few.correlation == pytest.approx(measure(*data).correlation, abs=0.1)
    X, y, _ = confounded(4000, strengths=(0.9,), random_state=1)
    found = measure(X, y, np.arange(4000) % 2)
    assert found.diversity == 0 and found.correlation < 0.05
    bank = load_demo()
    found = measure(bank.X[::2], bank.y[::2], bank.sample_domain[::2])
    assert found.correlation > 0.05 > 0.01 > found.diversity


def test_three_domains_have_three_pairs_in_order_and_disjoint_clouds_are_diverse() -> None:
    found = measure(*confounded(300, strengths=(0.9, 0.6, 0.2), random_state=2))
    assert [p.first[-1] + p.second[-1] for p in found.pairs] == ["01", "02", "12"]
    assert max(found.pairs, key=lambda p: p.correlation).second == "source 2"
    assert found.pairs[1].correlation > found.pairs[0].correlation
    assert found.correlation == pytest.approx(np.mean([p.correlation for p in found.pairs]))
    problem = make_problem(n=600)
    apart = problem.X + 30 * (problem.domain == "source 1")[:, None]
    found = measure(apart, problem.y, problem.domain)
    assert found.diversity > 0.9 and found.correlation < 0.1
    together = measure(*problem.data)
    assert together.diversity < 0.05
