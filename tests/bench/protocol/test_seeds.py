"""Seeds against the values that DomainBed's own runs recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.bench.protocol.seeds import hparam_state, job_seed, seed_hash, split_seed


def power(base: float, low: float, high: float) -> Any:
    return lambda state: base ** state.uniform(low, high)


def whole(base: float, low: float, high: float) -> Any:
    return lambda state: int(base ** state.uniform(low, high))


def choice(*values: float) -> Any:
    return lambda state: state.choice(values)


# Drawn with hparams_seed 1 and trial 0 for images of 28 x 28 pixels.
SMALL_IMAGES = [
    ("resnet_dropout", choice(0.0, 0.1, 0.5), 0.5),
    ("lr", power(10, -4.5, -2.5), 0.00011906162909279594),
    ("batch_size", whole(2, 3, 9), 372),
    ("irm_lambda", power(10, -1, 5), 65030.52212762795),
    ("irm_penalty_anneal_iters", whole(10, 0, 4), 2),
    ("groupdro_eta", power(10, -3, -1), 0.01297606872689568),
    ("mixup_alpha", power(10, -1, 1), 0.6313491980790861),
    ("mldg_beta", power(10, -1, 1), 5.4211455811356215),
    ("n_meta_test", choice(1, 2), 1),
    ("mmd_gamma", power(10, -1, 1), 1.4227570299330277),
    ("lambda", power(10, -2, 2), 3.500347568342894),
    ("weight_decay_d", power(10, -6, -2), 0.00010096814830489473),
    ("d_steps_per_g_step", whole(2, 0, 3), 7),
    ("grad_penalty", power(10, -2, 1), 3.044417571888086),
    ("beta1", choice(0.0, 0.5), 0.5),
    ("mlp_width", whole(2, 6, 10), 255),
    ("mlp_depth", choice(3, 4, 5), 4),
    ("mlp_dropout", choice(0.0, 0.1, 0.5), 0.5),
    ("lr_g", power(10, -4.5, -2.5), 0.0015950807441571075),
    ("lr_d", power(10, -4.5, -2.5), 6.700771289296927e-05),
    ("mtl_ema", choice(0.5, 0.9, 0.99, 1.0), 0.99),
    ("sag_w_adv", power(10, -2, 1), 0.010638215739319792),
    ("vrex_lambda", power(10, -1, 5), 3307.1978049278796),
    ("vrex_penalty_anneal_iters", whole(10, 0, 4), 47),
    ("rsc_f_drop_factor", lambda state: state.uniform(0, 0.5), 0.4041248591083744),
    ("rsc_b_drop_factor", lambda state: state.uniform(0, 0.5), 0.2581555339499306),
]
LARGE_IMAGES = [
    ("lr", power(10, -5, -3.5), 2.7028930742148706e-05),
    ("batch_size", whole(2, 3, 5.5), 39),
    ("weight_decay", power(10, -6, -2), 0.00044832883881609976),
]


@pytest.mark.parametrize(("name", "draw", "expected"), SMALL_IMAGES + LARGE_IMAGES)
def test_recorded_hyperparameters(name: str, draw: Any, expected: float) -> None:
    """To the last digit, powers and choices alike."""
    assert draw(hparam_state(1, 0, name)) == expected


def test_recorded_seeds() -> None:
    assert [split_seed(0, env) for env in range(4)] == [
        894182419,
        1514274641,
        1325548499,
        1796103049,
    ]
    assert job_seed("ColoredMNIST", "ERM", [0], 0, 0) == 219572418
    assert job_seed("ColoredMNIST", "ERM", [0], 1, 0) == 105328708
    assert job_seed("VLCS", "ERM", [1, 2], 1, 0) == 360234358
    assert seed_hash(1, 0) == 785910682


def test_the_mldg_configurations_with_two_meta_test_domains() -> None:
    """20 of the 57 random configurations, counted in the protocol's own code."""
    draws = [
        hparam_state(h, t, "n_meta_test").choice([1, 2]) for h in range(1, 20) for t in (0, 1, 2)
    ]
    assert sum(draw == 2 for draw in draws) == 20


def test_the_kind_of_sequence_does_not_matter() -> None:
    for test_envs in ((0, 2), np.array([0, 2]), range(0, 3, 2)):
        assert job_seed("ColoredMNIST", "ERM", test_envs, 1, 2) == job_seed(
            "ColoredMNIST", "ERM", [0, 2], 1, 2
        )


@given(st.lists(st.one_of(st.integers(), st.text()), min_size=1))
def test_seeds_fit_numpy_and_torch(args: list[object]) -> None:
    seed = seed_hash(*args)
    assert 0 <= seed < 2**31
    assert seed == seed_hash(*args)
