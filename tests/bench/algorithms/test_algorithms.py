"""What holds for every algorithm of the protocol, those registered later included."""

import math

import pytest
import torch
from torch.nn import functional

from regraft.bench.algorithms import algorithms, find_algorithm
from tests.helpers.small_tasks import (
    IMAGES,
    TWO_PHASES,
    VECTORS,
    assert_same,
    draw_batch,
    make,
    snapshot,
)

# Those in two phases evaluate and end otherwise and have tests of their own.
NAMES = sorted(set(algorithms()) - set(TWO_PHASES))
# Settings with which those learn fast that are slow, or still, by default.
QUICK = {
    "DANN": {"lr_g": 1e-2},
    "CDANN": {"lr_g": 1e-2},
    "ERMPlusPlus": {"linear_steps": 0},
    "SANDMask": {"tau": 0.0},
    "IGA": {"penalty": 0.1},
    "ADRMX": {"disc_lambda": 0.0, "d_steps_per_g_step": 1, "mlp_depth": 3, "mlp_width": 16},
    "Transfer": {"d_steps_per_g": 1},
}
every = pytest.mark.parametrize("name", NAMES)


def loss(algorithm: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    algorithm.eval()
    with torch.no_grad():
        logits = torch.cat([algorithm.predict(rows) for rows in x])
    algorithm.train()
    return float(functional.cross_entropy(logits, y.flatten()))


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(ValueError, match=r"^algorithm is 'ERN': choose from .*ERM, .*XRM\.$"):
        find_algorithm("ERN")


@every
@pytest.mark.parametrize("n_domains", [1, 2, 3])
def test_steps_return_scalars_to_log(name: str, n_domains: int) -> None:
    """Also with one domain, which leaving two of three out needs, and with an odd batch."""
    algorithm = make(name, n_domains)
    x, y = draw_batch(n_domains, b=9)
    for step in range(3):
        for value in algorithm.update(step, x, y).values():
            assert value.shape == () and not value.requires_grad and math.isfinite(value)
    assert algorithm.predict(x[0]).shape == (9, 2)


@every
def test_images(name: str) -> None:
    algorithm = make(name, input_shape=IMAGES)
    x, y = draw_batch(b=4, input_shape=IMAGES)
    logged = [algorithm.update(step, x, y) for step in range(2)]
    assert all(values and all(map(math.isfinite, values.values())) for values in logged)
    logits = algorithm.eval().predict(x[0])
    assert logits.shape == (4, 2) and torch.isfinite(logits).all()
    algorithm = make(name, input_shape=VECTORS)
    schedule = algorithm.schedule(5001, 300)
    assert schedule == sorted(set(schedule)) and schedule[-1] == 5000
    assert algorithm.schedule(8, 3)[-1] == 7


@every
def test_gradients_lie_in_memory_as_the_weights_do(name: str) -> None:
    """The kernels of optimizers take nothing else, and on a GPU channels come last."""
    algorithm = make(name, input_shape=IMAGES)
    algorithm.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    algorithm.update(0, *draw_batch(b=4, input_shape=IMAGES))
    for key, weight in algorithm.named_parameters():
        if weight.grad is not None:
            assert weight.grad.stride() == weight.stride(), key


@every
def test_all_parameters_move_and_no_input_does(name: str) -> None:
    algorithm = make(name, 3, **QUICK.get(name, {}))
    x, y = draw_batch(3)
    kept = x.clone(), y.clone()
    before = {key: value.clone() for key, value in algorithm.named_parameters()}
    for step in range(4):
        algorithm.update(step, x, y)
    still = [key for key, value in algorithm.named_parameters() if torch.equal(value, before[key])]
    assert still == []
    assert torch.equal(x, kept[0]) and torch.equal(y, kept[1])


@every
@pytest.mark.parametrize("n_domains", [2, 3])
def test_the_loss_falls(name: str, n_domains: int) -> None:
    algorithm = make(name, n_domains, lr=1e-2, **QUICK.get(name, {}))
    x, y = draw_batch(n_domains, b=16)
    before = loss(algorithm, x, y)
    for step in range(60):
        algorithm.update(step, x, y)
    assert loss(algorithm, x, y) < before / 2


@every
def test_runs_go_on_from_a_state_bit_by_bit(name: str) -> None:
    first, second = make(name), make(name, seed=1)
    batches = [draw_batch(seed=step) for step in range(6)]
    for step in range(3):
        first.update(step, *batches[step])
    second.update(0, *batches[5])  # what it had is forgotten
    second.load_state(snapshot(first))
    assert_same(snapshot(first), snapshot(second))
    for step in range(3, 6):
        assert_same(first.update(step, *batches[step]), second.update(step, *batches[step]))
    assert_same(snapshot(first), snapshot(second))
    algorithm = make(name)
    x, y = draw_batch()
    algorithm.update(0, x, y)
    before = snapshot(algorithm)
    algorithm.eval()
    assert torch.equal(algorithm.predict(x[0]), algorithm.predict(x[0]))
    assert_same(before, snapshot(algorithm))


@every
def test_all_draws_are_from_the_generator(name: str) -> None:
    """Torch's own generator neither moves nor matters."""
    states = []
    for seed in (1, 2):
        algorithm = make(name)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            algorithm.update(0, *draw_batch())
            assert torch.equal(torch.get_rng_state(), before)
        states.append(snapshot(algorithm))
    assert_same(*states)


@every
def test_steps_of_one_variant_are_the_same(name: str) -> None:
    """A recorded step may be replayed for any other of its variant."""
    algorithm = make(name)
    again = next(step for step in range(1, 100) if algorithm.variant(step) == algorithm.variant(0))
    states = []
    for step in (0, again):
        algorithm = make(name)
        algorithm.update(step, *draw_batch())
        states.append(snapshot(algorithm))
    assert_same(*states)
