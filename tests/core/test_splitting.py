"""Rows to fit on and rows to measure on."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.core.domains import Domains, check_domains
from regraft.core.splitting import hold_out, take_rows, thin_sources

CELLS = st.lists(st.integers(3, 20), min_size=6, max_size=6)  # rows of two domains, three classes


def make_domains(cells: list[int], seed: int = 0) -> Domains:
    """Shuffled rows whose first feature is their number."""
    cell = np.random.default_rng(seed).permutation(np.repeat(np.arange(6), cells))
    X = np.column_stack([np.arange(len(cell)), cell]).astype(float)
    return check_domains(X, np.array(["a", "b", "c"])[cell % 3], cell // 3)


def count(domains: Domains) -> list[int]:
    return torch.bincount(domains.domain * 3 + domains.y, minlength=6).tolist()


@given(CELLS, st.integers(0, 100))
def test_every_domain_and_class_is_held_out_in_proportion(cells: list[int], seed: int) -> None:
    domains = make_domains(cells, seed)
    train, test = hold_out(domains)
    for part in (train, test):
        assert torch.allclose(part.weight.sum(), torch.ones((), dtype=torch.float64))
        mass = part.weight[part.domain == 0]
        assert torch.allclose(mass, mass[0]) and abs(float(mass.sum()) - 0.5) < 1e-12
    assert len(test.y) == (len(domains.y) + 1) // 3
    for size, fitted, measured in zip(cells, count(train), count(test), strict=True):
        assert fitted + measured == size
        assert size // 3 <= measured <= -(-size // 3)


@given(CELLS)
def test_both_parts_are_the_users_rows_in_their_order(cells: list[int]) -> None:
    domains = make_domains(cells)
    parts = hold_out(domains)
    numbers = [part.X[:, 0].long() for part in parts]
    assert sorted(torch.cat(numbers).tolist()) == list(range(len(domains.y)))
    for part, number in zip(parts, numbers, strict=True):
        assert bool((number.diff() > 0).all())
        assert torch.equal(part.X, domains.X[number])
        assert torch.equal(part.y, domains.y[number])
        assert torch.equal(part.domain, domains.domain[number])
        assert part.classes.tolist() == ["a", "b", "c"] and part.names.tolist() == [0, 1]


def test_every_third_row_of_a_cell_is_held_out() -> None:
    domains = make_domains([9] * 6)
    _, test = hold_out(domains)
    cell = (domains.domain * 3 + domains.y).numpy()
    rows = np.concatenate([np.flatnonzero(cell == c)[1::3] for c in range(6)])
    assert test.X[:, 0].long().tolist() == sorted(rows.tolist())


@given(CELLS, st.integers(12, 200))
def test_large_sources_are_thinned_class_by_class_and_small_ones_kept(
    cells: list[int], most: int
) -> None:
    domains = make_domains(cells)
    thinned = count(take_rows(domains, thin_sources(domains, most)))
    sizes = [sum(cells[:3]), sum(cells[3:])]
    assert (thinned == cells) == (sum(cells) <= most)
    assert sum(thinned) <= most + 6  # a class of a source is rounded up
    for first, size in zip((0, 3), sizes, strict=True):
        kept = thinned[first : first + 3]
        if 2 * size <= most:
            assert kept == cells[first : first + 3]
        strides = {
            stride
            for stride in range(1, size + 1)
            if kept == [-(-n // stride) for n in cells[first : first + 3]]
        }
        assert strides
