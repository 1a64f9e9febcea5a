"""Threads by the size of the data and the load of the machine."""

import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft import ERMClassifier, make_confounded_domains
from regraft.support import threads
from regraft.support.threads import (
    choose_threads,
    count_busy_cores,
    threads_by_size,
    threads_for,
)

LARGE = 2**40


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let torch have two threads on a quiet machine of four cores, whose user chose nothing."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(threads, "count_busy_cores", lambda: 0.0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_little_data_get_one_thread_and_much_data_all_that_there_are() -> None:
    assert choose_threads(900 * 30, 2) == 1
    assert choose_threads(24_000 * 128, 2) == 2
    assert choose_threads(24_000 * 128, 1) == 1  # never more than torch was told


def test_a_busy_machine_gets_fewer_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for busy, chosen in ((0.4, 3), (1.0, 3), (2.5, 1), (9.0, 1)):
        monkeypatch.setattr(threads, "count_busy_cores", lambda busy=busy: busy)
        assert choose_threads(LARGE, 4) == chosen


def test_what_the_user_sets_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert choose_threads(1, 2) == 2


@given(st.integers(0, LARGE), st.integers(1, 128))
def test_the_choice_is_between_one_and_what_is_allowed(numbers: int, allowed: int) -> None:
    assert 1 <= choose_threads(numbers, allowed) <= allowed


def test_the_setting_comes_back_even_after_an_error() -> None:
    with pytest.raises(KeyError), threads_for(1):
        assert torch.get_num_threads() == 1
        raise KeyError
    assert torch.get_num_threads() == 2


def test_a_function_gets_threads_by_its_rows() -> None:
    @threads_by_size
    def count(model: str, X: object, *, seed: int = 0) -> int:
        return torch.get_num_threads()

    assert count("", np.zeros((9, 3))) == 1
    assert count("", X=np.broadcast_to(0.0, (2**20, 4)), seed=1) == 2
    assert count("", [[1, 2], [3]]) == 1  # the function itself refuses such rows
    assert count.__name__ == "count"


def test_busy_cores_are_at_most_the_load() -> None:
    assert 0 <= count_busy_cores() <= os.getloadavg()[0] + 1


def test_results_do_not_depend_on_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    # ERM alone, because two threads on a machine with other work take very long.
    data = make_confounded_domains(600, strengths=(0.9, 0.7), n_features=40, random_state=0)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # so that both of them are used
    heads = []
    for count in (1, 2):
        torch.set_num_threads(count)
        model = ERMClassifier().fit(data.X, data.y, data.sample_domain)
        heads.append(np.append(model.coef_, model.intercept_))
    np.testing.assert_allclose(*heads, rtol=0, atol=1e-9)
