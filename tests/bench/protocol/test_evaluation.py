"""Counting what is classified correctly, part by part."""

import pytest
import torch
from torch import Tensor

from regraft.bench.datasets.features import Vectors
from regraft.bench.protocol.evaluation import Split, accuracies, count_correct, parts
from tests.helpers.small_tasks import make


def environment(n: int, seed: int) -> Vectors:
    generator = torch.Generator().manual_seed(seed)
    return Vectors(
        torch.randn(n, 6, generator=generator), torch.randint(2, (n,), generator=generator)
    )


@pytest.mark.parametrize("name", ["ERM", "ARM", "MTL"])
def test_counts_are_those_of_predictions_in_batches_of_64(name: str) -> None:
    algorithm = make(name, batch_size=64)
    environments = [environment(500, 0), environment(700, 1)]
    order = torch.randperm(500, generator=torch.Generator().manual_seed(2))
    splits = [
        Split(0, "in", order[:400]),
        Split(0, "out", order[400:]),
        Split(1, "in", torch.arange(700)),
    ]
    (counts,) = count_correct(algorithm, environments, splits, {})
    algorithm.eval()
    for split, count in zip(splits, counts.tolist(), strict=True):
        expected = 0
        for rows in torch.split(split.rows, 64):
            env = environments[split.env]
            expected += int((algorithm.predict(env.inputs(rows)).argmax(1) == env.y[rows]).sum())
        assert count == expected
    (shares,) = accuracies(counts[None], splits)
    assert shares.keys() == {"env0_in_acc", "env0_out_acc", "env1_in_acc"}
    assert shares["env1_in_acc"] == counts[2].item() / 700


def test_evaluation_takes_all_rows_and_leaves_the_algorithm_as_it_was() -> None:
    algorithm = make("ARM")
    before = {name: value.clone() for name, value in algorithm.state().items()}
    count_correct(algorithm, [environment(10, 0)], [Split(0, "in", torch.arange(10))], {})
    assert algorithm.training
    assert all(torch.equal(value, before[name]) for name, value in algorithm.state().items())
    env = environment(450, 0)
    rows = torch.arange(449, -1, -1)
    xs, ys = zip(*parts(env, rows), strict=True)
    assert len(xs) > 1
    assert all(len(x) % 64 == 0 for x in xs[:-1])
    assert torch.equal(torch.cat(xs), env.x[rows])
    assert torch.equal(torch.cat(ys), env.y[rows])


def test_only_environments_with_a_seed_are_augmented() -> None:
    seeds: list[int | None] = []

    class Listening(Vectors):
        def inputs(self, rows: Tensor, augmentation: int | None = None) -> Tensor:
            seeds.append(augmentation)
            return super().inputs(rows)

    environments = [Listening(env.x, env.y) for env in (environment(5, 0), environment(5, 1))]
    splits = [Split(env, "in", torch.arange(5)) for env in (0, 1)]
    for _ in range(2):
        count_correct(make("ERM"), environments, splits, {1: 7})
    first, second, *again = seeds
    assert first is None
    assert second is not None
    assert again == [first, second]
