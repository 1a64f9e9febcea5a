"""Steps are repeated as often as asked, with the same bits on every device."""

import pytest
import torch

from regraft.support.cuda_graphs import repeat

CPU = torch.device("cpu")
no_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_all_steps_are_repeated_in_turn() -> None:
    calls: list[str] = []
    repeat([lambda: calls.append("a"), lambda: calls.append("b")], 3, CPU)
    assert calls == ["a", "b"] * 3
    repeat([], 5, CPU)


@pytest.mark.parametrize(("times", "told"), [(0, []), (7, [7]), (50, [50]), (120, [50, 100, 120])])
def test_progress_ends_with_the_last_round(times: int, told: list[int]) -> None:
    heard: list[int] = []
    repeat([lambda: None], times, CPU, heard.append)
    assert heard == told


@pytest.mark.parametrize("times", [0, 1, 3])
def test_few_steps_are_not_recorded(times: int) -> None:
    """Nothing of CUDA is touched, so this holds on a machine without it."""
    calls: list[str] = []
    heard: list[int] = []
    repeat([lambda: calls.append("a")], times, torch.device("cuda"), heard.append)
    assert calls == ["a"] * times and heard == [times] * (times > 0)


@no_gpu
@pytest.mark.parametrize("times", [1, 3, 4, 60])
def test_replayed_steps_count_and_compute_as_eager_ones(times: int) -> None:
    device = torch.device("cuda")

    def powers(factor: float) -> torch.Tensor:
        return torch.full((4,), factor, device=device)

    eager, replayed = [[powers(1.01), powers(0.99)] for _ in range(2)]
    for state in eager:
        for _ in range(times):
            state.mul_(1.5).sub_(0.25)
    heard: list[int] = []
    steps = [lambda state=state: state.mul_(1.5).sub_(0.25) for state in replayed]
    repeat(steps, times, device, heard.append)
    assert heard[-1] == times
    for a, b in zip(eager, replayed, strict=True):
        assert torch.equal(a, b)
