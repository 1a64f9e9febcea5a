"""Decompositions succeed where torch's own give up, and are torch's own elsewhere."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regraft.core.decompositions import cholesky, eigh, eigvalsh, pinv, svd, svdvals

ROUTINES = ("eigh", "eigvalsh", "svd", "svdvals", "pinv")


@pytest.fixture
def giving_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch's routines fail to converge, as they do on a few matrices and machines."""

    def give_up(*_: object, **__: object) -> None:
        raise torch.linalg.LinAlgError("failed to converge")

    for name in ROUTINES:
        monkeypatch.setattr(torch.linalg, name, give_up)


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def symmetric(*shape: int) -> Tensor:
    half = draw(*shape)
    return half + half.mT


def test_torchs_own_bits() -> None:
    matrix, wide = symmetric(3, 5, 5), draw(3, 4, 6)
    for ours, theirs in zip(eigh(matrix), torch.linalg.eigh(matrix), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(eigvalsh(matrix), torch.linalg.eigvalsh(matrix))
    for full in (False, True):
        answer = svd(wide, full_matrices=full)
        for ours, theirs in zip(answer, torch.linalg.svd(wide, full_matrices=full), strict=True):
            assert torch.equal(ours, theirs)
    assert torch.equal(svdvals(wide), torch.linalg.svdvals(wide))
    assert torch.equal(pinv(wide[0], rtol=1e-9), torch.linalg.pinv(wide[0], rtol=1e-9))


@pytest.mark.usefixtures("giving_up")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scipy_takes_over(dtype: torch.dtype) -> None:
    digits = {"atol": 1e-4, "rtol": 0} if dtype == torch.float32 else {"atol": 1e-11, "rtol": 0}
    matrix, wide = symmetric(3, 5, 5).to(dtype), draw(3, 4, 6).to(dtype)
    values, vectors = eigh(matrix)
    torch.testing.assert_close(vectors @ torch.diag_embed(values) @ vectors.mT, matrix, **digits)
    assert torch.equal(eigvalsh(matrix), values) and (values.diff() >= 0).all()
    left, sizes, right = svd(wide, full_matrices=False)
    torch.testing.assert_close(left @ torch.diag_embed(sizes) @ right, wide, **digits)
    assert svd(wide, full_matrices=True)[2].shape == (3, 6, 6)
    assert torch.equal(svdvals(wide), sizes)
    inverse = pinv(wide[0])
    torch.testing.assert_close(wide[0] @ inverse @ wide[0], wide[0], **digits)
    assert torch.equal(pinv(wide[0], atol=1e9), torch.zeros(6, 4, dtype=dtype))


@pytest.mark.usefixtures("giving_up")
def test_jitter_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.linalg

    matrix = symmetric(4, 4)
    true = scipy.linalg.eigh

    def only_others(a: object, driver: str) -> object:
        if (torch.from_numpy(a) == matrix).all():
            raise scipy.linalg.LinAlgError("failed")
        return true(a, driver=driver)

    monkeypatch.setattr(scipy.linalg, "eigh", only_others)
    values, vectors = eigh(matrix)
    torch.testing.assert_close(vectors @ values.diag() @ vectors.mT, matrix, atol=1e-12, rtol=0)


@pytest.mark.parametrize("routine", [eigh, lambda matrix: svd(matrix, full_matrices=False)])
def test_infinite_numbers_are_refused(routine: Callable[[Tensor], object]) -> None:
    with pytest.raises(ValueError, match="too large to compute with"):
        routine(torch.full((3, 3), torch.inf, dtype=torch.float64))


def test_indefinite_by_rounding() -> None:
    half = draw(2, 6, 3)
    singular = half @ half.mT
    singular -= 1e-13 * torch.eye(6, dtype=torch.float64)
    factor = cholesky(singular)
    torch.testing.assert_close(factor @ factor.mT, singular, atol=1e-9, rtol=0)
    plain = singular + torch.eye(6, dtype=torch.float64)
    assert torch.equal(cholesky(plain), torch.linalg.cholesky(plain))
    with pytest.raises(ValueError, match="too large to compute with"):
        cholesky(torch.full((2, 2), torch.nan, dtype=torch.float64))
