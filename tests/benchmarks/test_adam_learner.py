"""The paper's learner, which the readings compare to the solved one."""

from types import ModuleType

import torch

from regraft.core.learner import Learner
from regraft.core.surrogates import WeightedSample
from tests.helpers.problems import make_problem

SCRIPT = "adam_learner"


def _learner() -> tuple[Learner, list[WeightedSample]]:
    p = make_problem(n=100, d=3)
    Z = torch.cat([torch.from_numpy(p.X), torch.ones(200, 1, dtype=torch.float64)], dim=1)
    y = torch.from_numpy(p.y)
    weights = torch.rand(2, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = weights**6
    weights /= weights.sum(dim=1, keepdim=True)
    learner = Learner(ridge=1e-2, tolerance=1e-8)
    return learner, [WeightedSample(Z, y, row) for row in weights]


def test_adam_approaches_the_solved_answer(script: ModuleType) -> None:
    solved, samples = _learner()
    start = samples[0].Z.new_zeros((2, 4))
    heads = []
    for _ in range(2):
        adam = script.AdamLearner(ridge=1e-2, lr=1e-2, epochs=60, batch=50)
        answer, head = None, start
        for sample in samples:
            adam.add(sample)
            answer = adam.respond(head, None if answer is None else answer.mixture)
            head = answer.head
        heads.append(head)
    for sample in samples:
        solved.add(sample)
    best = solved.respond(start)
    assert answer is not None
    excess = answer.value - best.value
    assert -1e-8 <= excess <= 0.05
    assert excess - 1e-8 <= answer.gap < 1
    assert float(answer.mixture[1]) > 1e-3  # the second target binds as well
    assert torch.equal(*heads)


def test_adam_steps_even_on_fewer_rows_than_a_batch(script: ModuleType) -> None:
    _, samples = _learner()
    adam = script.AdamLearner(ridge=1e-2, lr=1e-1, epochs=3, batch=10_000)
    start = samples[0].Z.new_zeros((2, 4))
    adam.add(samples[0])
    assert adam.respond(start).value < samples[0].risk(start)
