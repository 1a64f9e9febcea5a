from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regraft.core.newton import log_probabilities, losses
from regraft.core.surrogates import (
    WeightedSample,
    check_surrogate,
    pair_with_every_label,
    relabel,
    relabel_moved,
    reweight,
    stack_samples,
)
from tests.helpers.problems import normal

CLASSES = 3

seeds = st.integers(0, 1000)


def _rows(seed: int, n: int = 12, k: int = 4) -> WeightedSample:
    y = torch.randint(CLASSES, (n,), generator=torch.Generator().manual_seed(seed))
    weight = torch.softmax(normal(seed + 1, n), dim=0)
    return WeightedSample(normal(seed + 2, n, k), y, weight)


def _joint(sample: WeightedSample, n: int) -> Tensor:
    """(n, C) weights of a sample whose rows come from :func:`pair_with_every_label`."""
    return sample.weight.reshape(CLASSES, n).T


@given(seeds, st.sampled_from([0.0, 1.0, 100.0]))
def test_weights_of_every_surrogate_are_a_distribution(seed: int, size: float) -> None:
    rows, center, head = _rows(seed), normal(seed, CLASSES, 4), size * normal(7, CLASSES, 4)
    pairs = pair_with_every_label(rows, CLASSES)
    moved = (rows.Z + normal(seed + 3, *rows.Z.shape)).repeat(CLASSES, 1)
    for sample in (
        reweight(rows, center, head),
        relabel(pairs, head),
        relabel_moved(pairs, moved, head),
    ):
        assert float(sample.weight.sum()) == pytest.approx(1)
        assert bool((sample.weight >= 0).all())
        assert len(sample.Z) == len(sample.y) == len(sample.weight)
    # The center keeps the rows' own weights.
    same = reweight(rows, center, center)
    assert torch.allclose(same.weight, rows.weight, rtol=1e-12)
    assert same.Z is rows.Z
    assert same.y is rows.y


@given(seeds)
def test_reweighting_turns_the_conditional_of_the_center_into_that_of_the_head(seed: int) -> None:
    """A finite population: every point with every label, weighted p(x) softmax(center)."""
    points = _rows(seed)
    center, head = normal(seed + 3, 2, CLASSES, 4)
    population = relabel(pair_with_every_label(points, CLASSES), center)
    joint = _joint(reweight(population, center, head), len(points.Z))
    conditional = joint / joint.sum(dim=1, keepdim=True)
    assert torch.allclose(conditional, torch.softmax(points.Z @ head.T, dim=1))
    assert bool((joint.sum(dim=1) > 0).all())


@given(seeds, st.floats(-5, 5))
def test_surrogates_do_not_see_a_constant_added_to_all_logits(seed: int, shift: float) -> None:
    rows, center, head = _rows(seed), normal(seed, CLASSES, 4), normal(seed + 1, CLASSES, 4)
    pairs = pair_with_every_label(rows, CLASSES)
    for before, after in (
        (reweight(rows, center, head), reweight(rows, center, head + shift)),
        (relabel(pairs, head), relabel(pairs, head + shift)),
    ):
        assert torch.allclose(before.weight, after.weight)


@given(seeds)
def test_relabelled_rows_have_the_heads_conditional_and_their_own_marginal(seed: int) -> None:
    rows, head = _rows(seed), normal(seed + 3, CLASSES, 4)
    n = len(rows.Z)
    sample = relabel(pair_with_every_label(rows, CLASSES), head)
    joint = _joint(sample, n)
    assert torch.allclose(joint.sum(dim=1), rows.weight)
    conditional = joint / joint.sum(dim=1, keepdim=True)
    assert torch.allclose(conditional, torch.softmax(rows.Z @ head.T, dim=1))
    assert torch.equal(sample.Z, rows.Z.repeat(CLASSES, 1))
    assert torch.equal(sample.y.reshape(CLASSES, n), torch.arange(CLASSES)[:, None].expand(-1, n))


@given(seeds)
def test_transplanted_rows_are_the_moved_rows_relabelled(seed: int) -> None:
    rows, head = _rows(seed), normal(seed + 3, CLASSES, 4)
    moved = rows.Z + normal(seed + 4, *rows.Z.shape)
    pairs = pair_with_every_label(rows, CLASSES)
    sample = relabel_moved(pairs, moved.repeat(CLASSES, 1), head)
    joint = _joint(sample, len(moved))
    assert torch.allclose(joint, rows.weight[:, None] * torch.softmax(moved @ head.T, dim=1))
    stayed = relabel_moved(pairs, pairs.Z, head)
    assert torch.equal(stayed.weight, relabel(pairs, head).weight)


@given(seeds)
def test_a_heads_risk_on_its_own_labels_is_their_entropy_and_no_head_has_less(seed: int) -> None:
    rows, (head, other) = _rows(seed), normal(seed + 3, 2, CLASSES, 4)
    sample = relabel(pair_with_every_label(rows, CLASSES), head)
    log_p = log_probabilities(rows.Z, head)
    entropy = float(rows.weight @ -(log_p.exp() * log_p).sum(dim=1))
    assert sample.risk(head) == pytest.approx(entropy)
    assert sample.risk(other) >= entropy - 1e-12


@given(seeds)
def test_measures_follow_their_formulas(seed: int) -> None:
    rows, head = _rows(seed, n=1 + seed % 30), normal(seed + 3, CLASSES, 4)
    risk, accuracy = 0.0, 0.0
    for z, y, weight in zip(rows.Z, rows.y, rows.weight, strict=True):
        p = torch.softmax(head @ z, dim=0)
        risk -= float(weight * p[y].log())
        accuracy += float(weight) * (int(p.argmax()) == int(y))
    assert rows.risk(head) == pytest.approx(risk)
    assert rows.accuracy(head) == pytest.approx(accuracy)
    assert rows.effective_size == pytest.approx(1 / sum(float(w) ** 2 for w in rows.weight))
    assert 1 <= rows.effective_size <= len(rows.y)
    equal = replace(rows, weight=torch.full_like(rows.weight, 1 / len(rows.y)))
    assert equal.effective_size == pytest.approx(len(rows.y))


@given(seeds)
def test_only_samples_of_the_same_tensors_share_their_rows(seed: int) -> None:
    rows, center, (head, other) = _rows(seed), normal(4, CLASSES, 4), normal(5, 2, CLASSES, 4)
    pairs = pair_with_every_label(rows, CLASSES)
    for samples in (
        [rows, reweight(rows, center, head), reweight(rows, center, other)],
        [relabel(pairs, head), relabel(pairs, other)],
    ):
        Z, y, weights = stack_samples(samples)
        assert Z is samples[0].Z
        assert y is samples[0].y
        assert torch.equal(weights, torch.stack([s.weight for s in samples]))
    # Equal but separate rows are not taken for the same.
    Z, _, weights = stack_samples([rows, replace(rows, Z=rows.Z.clone())])
    assert len(Z) == 2 * len(rows.Z)
    assert torch.equal(weights.sum(dim=0), rows.weight.repeat(2))


@given(seeds)
def test_samples_of_different_rows_become_blocks(seed: int) -> None:
    samples = [_rows(seed, n) for n in (3, 5, 4)]
    Z, y, weights = stack_samples(samples)
    assert weights.shape == (3, 12)
    assert int((weights > 0).sum()) == 12
    start = 0
    for i, sample in enumerate(samples):
        block = slice(start, start + len(sample.Z))
        assert torch.equal(Z[block], sample.Z)
        assert torch.equal(y[block], sample.y)
        assert torch.equal(weights[i, block], sample.weight)
        start = block.stop


@given(seeds, st.booleans())
def test_risks_of_samples_together_are_those_of_each(seed: int, shared: bool) -> None:
    rows, (center, head, target) = _rows(seed), normal(seed + 3, 3, CLASSES, 4)
    samples = [rows, reweight(rows, center, target)]
    if not shared:
        samples.append(relabel(pair_with_every_label(rows, CLASSES), target))
    Z, y, weights = stack_samples(samples)
    risks = weights @ losses(log_probabilities(Z, head), y)
    assert risks.tolist() == pytest.approx([sample.risk(head) for sample in samples])


@pytest.mark.parametrize("surrogate", ["", "Reweighted", "hull"])
def test_an_unknown_surrogate_is_named_with_the_known_ones(surrogate: str) -> None:
    for known in ("reweighted", "transplanted", "relabelled"):
        check_surrogate(known)
    message = f'surrogate is {surrogate!r}: pass "reweighted", "transplanted" or "relabelled".'
    with pytest.raises(ValueError) as error:
        check_surrogate(surrogate)
    assert str(error.value) == message
