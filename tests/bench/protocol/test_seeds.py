"""Seeds against the values that DomainBed's own runs recorded."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regraft.bench.protocol.seeds import hparam_state, job_seed, seed_hash, split_seed


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
    # 20 of the 57 random configurations, counted in the protocol's own code.
    draws = [
        hparam_state(h, t, "n_meta_test").choice([1, 2]) for h in range(1, 20) for t in (0, 1, 2)
    ]
    assert sum(draw == 2 for draw in draws) == 20
    for test_envs in ((0, 2), np.array([0, 2]), range(0, 3, 2)):
        assert job_seed("ColoredMNIST", "ERM", test_envs, 1, 2) == job_seed(
            "ColoredMNIST", "ERM", [0, 2], 1, 2
        )


@given(st.lists(st.one_of(st.integers(), st.text()), min_size=1))
def test_seeds_fit_numpy_and_torch(args: list[object]) -> None:
    seed = seed_hash(*args)
    assert 0 <= seed < 2**31
    assert seed == seed_hash(*args)
