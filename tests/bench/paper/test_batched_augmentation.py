"""Random changes of whole batches, against what each of them is defined to do."""

import colorsys
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.bench.paper.batched_augmentation import (
    Changes,
    arrange_blends,
    blend,
    change,
    crop,
    draw_changes,
    grey,
    turn_hue,
    whole,
)

NOTHING = torch.tensor([[1.0, 0.0, 0.0]])
WHOLE = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
STRAIGHT = torch.tensor([False])


def pictures(n: int = 3, height: int = 6, width: int = 5, seed: int = 0) -> torch.Tensor:
    return torch.rand((n, 3, height, width), generator=torch.Generator().manual_seed(seed))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def by_hand(x: torch.Tensor, kind: int, factor: float) -> torch.Tensor:
    """Brightness (0), contrast (1) or saturation (2) of one image."""
    luma = 0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2]
    reference = (torch.zeros(()), luma.mean(), luma)[kind]
    return (factor * x + (1 - factor) * reference).clamp(0, 1)


@pytest.mark.parametrize("roll", [0, 1, 2])
def test_every_order_of_changes_is_that_of_its_definitions(roll: int) -> None:
    x, turn = pictures(1, 5, 5), torch.tensor([0.2])
    factors = torch.tensor([[1.3, 0.7, 1.25]]).roll(roll)
    for order in permutations(range(4)):
        expected = x[0]
        for name in order:
            if name == 3:
                expected = turn_hue(expected[None], turn)[0]
            else:
                expected = by_hand(expected, name, float(factors[0, name]))
        blends = arrange_blends(factors, torch.tensor([order]))
        changes = Changes(WHOLE, STRAIGHT, blends, turn, is_grey=torch.tensor([False]))
        torch.testing.assert_close(change(x, changes, 5)[0], expected, atol=1e-5, rtol=0)


def test_blends_have_an_order_for_each_image_and_grey_is_luma() -> None:
    x = pictures()
    assert torch.equal(blend(x, NOTHING.expand(3, 3)), x)
    blends = arrange_blends(torch.tensor([[0.5, 0.6, 0.7]]), torch.tensor([[3, 0, 1, 2]]))
    assert torch.equal(blends[0, :3], NOTHING.expand(3, 3))  # the hue comes first
    assert torch.allclose(blends[0, 3:], torch.tensor([[0.5, 0, 0], [0.6, 0.4, 0], [0.7, 0, 0.3]]))
    factors = torch.tensor([[0.5, 0.6, 0.7], [0.5, 0.6, 0.7]])
    blends = arrange_blends(factors, torch.tensor([[2, 3, 0, 1], [0, 1, 2, 3]]))
    own = blends[..., 0]
    assert torch.allclose(own[0], torch.tensor([0.7, 1, 1, 1, 0.5, 0.6]))
    assert torch.allclose(own[1], torch.tensor([0.5, 0.6, 0.7, 1, 1, 1]))
    x = torch.tensor([0.2, 0.4, 0.9]).reshape(1, 3, 1, 1)
    assert grey(x).item() == pytest.approx(0.299 * 0.2 + 0.587 * 0.4 + 0.114 * 0.9)
    assert torch.allclose(grey(torch.full((1, 3, 2, 2), 0.3)), torch.tensor(0.3))


def test_hue_turns_red_to_green_and_back_and_grey_stays_grey() -> None:
    red = torch.tensor([1.0, 0.0, 0.0]).reshape(1, 3, 1, 1)
    thirds = [turn_hue(red, torch.tensor([turn])).flatten() for turn in (1 / 3, -1 / 3, 1.0, 0.5)]
    expected = [(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 1)]
    for got, wanted in zip(thirds, expected, strict=True):
        torch.testing.assert_close(got, torch.tensor(wanted).float(), atol=1e-6, rtol=0)
    x = pictures()
    torch.testing.assert_close(turn_hue(x, torch.zeros(3)), x, atol=1e-6, rtol=0)
    shades = pictures()[:, :1].expand(3, 3, 6, 5)
    assert torch.equal(turn_hue(shades, torch.tensor([0.1, 0.2, -0.3])), shades)


@given(colour=st.tuples(*[st.floats(0, 1, width=32)] * 3), turn=st.floats(-0.5, 0.5, width=32))
def test_hue_is_that_of_the_hsv_cone(colour: tuple[float, ...], turn: float) -> None:
    x = torch.tensor(colour, dtype=torch.float64).reshape(1, 3, 1, 1)
    got = turn_hue(x, torch.tensor([turn], dtype=torch.float64)).flatten().tolist()
    hue, saturation, value = colorsys.rgb_to_hsv(*colour)
    expected = colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)
    assert got == pytest.approx(expected, abs=1e-6)


def test_crops_are_the_part_named_and_larger_images_are_interpolated() -> None:
    x = pictures(2, 8, 8)
    torch.testing.assert_close(whole(x, 8), x)
    flipped = crop(x, WHOLE.expand(2, 4), torch.tensor([True, False]), 8)
    torch.testing.assert_close(flipped, torch.stack([x[0].flip(2), x[1]]))
    x = pictures(1, 8, 8)
    box = torch.tensor([[0.25, 0.5, 0.5, 0.5]])  # columns 2 to 5, rows 4 to 7
    torch.testing.assert_close(crop(x, box, STRAIGHT, 4), x[:, :, 4:8, 2:6])
    torch.testing.assert_close(crop(x, box, ~STRAIGHT, 4), x[:, :, 4:8, 2:6].flip(3))
    x = pictures(2, 5, 5)
    wanted = torch.nn.functional.interpolate(x, size=(12, 12), mode="bilinear")
    torch.testing.assert_close(whole(x, 12), wanted)


def test_greyscale_is_of_those_chosen() -> None:
    x = pictures(2, 6, 6)
    changes = Changes(
        box=WHOLE.expand(2, 4),
        is_flipped=torch.tensor([False, False]),
        blends=NOTHING.expand(2, 6, 3),
        hue=torch.zeros(2),
        is_grey=torch.tensor([True, False]),
    )
    got = change(x, changes, 6)
    torch.testing.assert_close(got[0], grey(x)[0].expand(3, 6, 6), atol=1e-5, rtol=0)
    torch.testing.assert_close(got[1], x[1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("aspect", [1.0, 0.5, 1.5, 3.0])
def test_draws_have_the_shares_they_should(aspect: float) -> None:
    n = 4000
    changes = draw_changes(torch.full((2, n), aspect), generator())
    left, top, width, height = changes.box.unbind(-1)
    assert float(left.min()) >= 0 and float((left + width).max()) <= 1 + 1e-6
    assert float(top.min()) >= 0 and float((top + height).max()) <= 1 + 1e-6
    area, ratio = width * height, width / height * aspect
    assert float(ratio.min()) >= 3 / 4 - 1e-4 and float(ratio.max()) <= 4 / 3 + 1e-4
    if aspect == 1:
        assert 0.7 - 1e-4 <= float(area.min()) < 0.72 and float(area.max()) > 0.98
        assert abs(float(left.mean() - (1 - (left + width)).mean())) < 0.01
    elif aspect == 3:  # 70% of the image would be too wide: the middle is kept
        assert torch.allclose(width, torch.tensor(4 / 9)) and torch.all(height == 1)
        assert torch.allclose(left, torch.tensor(5 / 18)) and torch.all(top == 0)
    assert float(changes.is_flipped.float().mean()) == pytest.approx(0.5, abs=0.03)
    assert float(changes.is_grey.float().mean()) == pytest.approx(0.1, abs=0.02)
    assert float(changes.hue.min()) >= -0.3 and float(changes.hue.max()) <= 0.3
    assert float(changes.hue.std()) == pytest.approx(0.3 / 3**0.5, abs=0.01)


def test_all_orders_are_equally_likely_and_follow_from_the_seed() -> None:
    blends = draw_changes(torch.ones(24_000), generator()).blends
    used = blends[..., 0] != 1
    assert torch.all(used.sum(dim=1) == 3)
    for k in range(4):  # as many blends come before the hue
        assert float((used[:, :3].sum(dim=1) == k).float().mean()) == pytest.approx(0.25, abs=0.02)
    contrast_first = (blends[..., 0, 1] != 0).float().mean()
    assert float(contrast_first) == pytest.approx(0.25, abs=0.02)
    first, again = (draw_changes(torch.ones(3, 4), generator(5)) for _ in range(2))
    other = draw_changes(torch.ones(3, 4), generator(6))
    assert torch.equal(first.box, again.box) and torch.equal(first.blends, again.blends)
    assert not torch.equal(first.box, other.box)
    one = first.select(torch.tensor([2]))
    assert torch.equal(one.box, first.box[2]) and torch.equal(one.hue, first.hue[2])
    assert change(pictures(4, 7, 7), one, 9).shape == (4, 3, 9, 9)


@given(seed=st.integers(0, 10_000))
def test_changed_images_stay_in_range(seed: int) -> None:
    x = change(pictures(4, 9, 9, seed), draw_changes(torch.ones(4), generator(seed)), 8)
    assert x.shape == (4, 3, 8, 8)
    assert float(x.min()) >= -1e-6 and float(x.max()) <= 1 + 1e-6
