"""Colored MNIST against its definition, and the split of its rows."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from regraft.bench.datasets.colored_mnist import (
    ENVIRONMENTS,
    FLIPS,
    make_environments,
)
from regraft.bench.protocol.seeds import split, split_seed
from regraft.bench.protocol.settings import HOLDOUT

N = 70_000
Arrays = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def synthetic(n: int, seed: int = 0) -> Arrays:
    """Random pixels and digits; every image differs from every other."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, size=(n, 28, 28), dtype=np.uint8)
    return images, rng.integers(0, 10, size=n, dtype=np.uint8)


def by_the_global_generator(images: Tensor, digits: Tensor, seed: int) -> list[tuple[Tensor, ...]]:
    """(inputs, label) of every environment, in floats and one image at a time."""

    def flipped(values: Tensor, probability: float) -> Tensor:
        return (values - (torch.rand(len(values)) < probability).float()).abs()

    torch.manual_seed(seed)
    order = torch.randperm(len(images))
    environments = []
    for i, flip in enumerate((0.1, 0.2, 0.9)):
        rows = order[i::3]
        label = flipped((digits[rows] < 5).float(), 0.25)
        colour = flipped(label, flip)
        x = torch.zeros(len(rows), 2, 28, 28)
        for k, row in enumerate(rows):
            x[k, int(colour[k])] = images[row].float() / 255
        environments.append((x, label.long()))
    return environments


@pytest.mark.parametrize("n", [3, 10, 301])
@pytest.mark.parametrize("seed", [0, 219572418])
def test_equals_the_construction_with_the_global_generator(n: int, seed: int) -> None:
    images, digits = synthetic(n)
    ours = make_environments(images, digits, seed)
    theirs = by_the_global_generator(torch.from_numpy(images), torch.from_numpy(digits), seed)
    for environment, (x, y) in zip(ours, theirs, strict=True):
        assert torch.equal(environment.y, y)
        assert torch.equal(environment.inputs(torch.arange(len(environment))), x)


@pytest.mark.filterwarnings("error")
def test_the_global_generator_and_the_arrays_are_left_alone() -> None:
    images, digits = synthetic(100)
    before = images.copy(), digits.copy(), torch.get_rng_state()
    images.flags.writeable = digits.flags.writeable = False
    environments = make_environments(images, digits, 1)
    for environment in environments:
        environment.images.zero_()
    assert np.array_equal(images, before[0]) and np.array_equal(digits, before[1])
    assert torch.equal(torch.get_rng_state(), before[2])


def test_sizes_types_and_inputs_of_some_rows() -> None:
    full = make_environments(np.zeros((N, 28, 28), np.uint8), np.zeros(N, np.uint8), seed=0)
    assert [len(environment) for environment in full] == [23_334, 23_333, 23_333]
    assert len(full) == len(ENVIRONMENTS) == len(FLIPS)
    for environment in full:
        kept, out = split(len(environment), seed=0)
        assert len(out) == 4_666 and len(kept) == len(environment) - 4_666
    images, digits = synthetic(60)
    environment = make_environments(images, digits, 0)[1].to("cpu")
    assert environment.images.dtype == torch.uint8
    assert environment.y.dtype == environment.colour.dtype == torch.int64
    rows = torch.tensor([7, 3, 3, 19])
    x = environment.inputs(rows)
    assert x.shape == (4, 2, 28, 28) and x.dtype == torch.float32
    assert float(x.min()) == 0.0 and float(x.max()) == 1.0
    for k, row in enumerate(rows.tolist()):
        colour = int(environment.colour[row])
        assert not x[k, 1 - colour].any()
        assert torch.equal(x[k, colour], environment.images[row].float() / 255)
    assert environment.inputs(rows[:0]).shape == (0, 2, 28, 28)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_inputs_can_be_captured_in_a_cuda_graph() -> None:
    environment = make_environments(*synthetic(90), 0)[0]
    on_device, rows = environment.to("cuda"), torch.arange(8, device="cuda")
    on_device.inputs(rows)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x = on_device.inputs(rows)
    rows += 5
    graph.replay()
    torch.testing.assert_close(x.cpu(), environment.inputs(torch.arange(5, 13)))


@pytest.mark.parametrize("shape", [(9, 28, 28), (10, 14, 14), (10, 784)])
def test_wrong_shapes_are_named(shape: Any) -> None:
    with pytest.raises(ValueError, match=r"images have shape .*, not \(10, 28, 28\): pass"):
        make_environments(np.zeros(shape, np.uint8), np.zeros(10, np.uint8), 0)


@given(st.integers(0, 500), st.integers(0, 2**31 - 1), st.floats(0, 1))
def test_split_is_disjoint_and_complete(n: int, seed: int, fraction: float) -> None:
    kept, out = split(n, seed, fraction)
    assert kept.dtype == out.dtype == torch.int64
    assert len(out) == int(n * fraction)
    assert torch.equal(torch.cat([kept, out]).sort().values, torch.arange(n))


@pytest.mark.parametrize("env", range(3))
def test_split_equals_shuffling_a_list(env: int) -> None:
    """The protocol shuffles a list of keys and takes the holdout first."""
    n, seed = 23_333, split_seed(0, env)
    keys = list(range(n))
    np.random.RandomState(seed).shuffle(keys)
    kept, out = split(n, seed)
    n_out = int(n * HOLDOUT)
    assert out.tolist() == keys[:n_out] and kept.tolist() == keys[n_out:]
    assert not torch.equal(kept, split(n, seed + 1)[0])
