"""Curvature of weighted softmax risks: Hessians, their products with heads, and systems in them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regraft.core.decompositions import cholesky
from regraft.core.whitening import chunks_of

_CG_ITERATIONS = 200
_GRAM_ENTRIES = 2**18  # of rows that should stay in cache


def prefers_dense_hessian(n: int, k: int, classes: int) -> bool:
    """Return whether factorizing the Hessian is cheaper than about forty products with it."""
    dense = classes * (classes - 1) * k * k * n + (classes * k) ** 3 / 3
    return dense <= 40 * 4 * n * k * classes  # four passes a product


def solve_dense(matrix: Tensor, column_ridge: Tensor, rhs: Tensor) -> Tensor:
    """Apply the inverse of the Hessian ``matrix`` with its ridge to ``rhs`` (t, C, k), exactly."""
    if rhs.shape[1] == 2:
        return _solve_two_classes(matrix[: rhs.shape[2], : rhs.shape[2]], column_ridge, rhs)
    matrix.diagonal().add_(2 * column_ridge.repeat(rhs.shape[1]))
    factor = cholesky(matrix)
    return torch.cholesky_solve(rhs.reshape(len(rhs), -1).T, factor).T.reshape(rhs.shape)


def _solve_two_classes(gram: Tensor, column_ridge: Tensor, rhs: Tensor) -> Tensor:
    """Do the same for two classes, whose Hessian is made of ``gram`` (k, k) and its negative.

    It curves only what the two classes do not share, so one system of k unknowns is enough.
    """
    shared, differing = (rhs[:, 0] + rhs[:, 1]) / 2, (rhs[:, 0] - rhs[:, 1]) / 2
    factor = cholesky(gram + torch.diag(column_ridge))
    apart = torch.cholesky_solve(differing.T, factor).T / 2
    common = shared / (2 * column_ridge)
    return torch.stack([common + apart, common - apart], dim=1)


def hessian(Z: Tensor, p: Tensor, weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return the Hessian (C·k, C·k) of the weighted risk at class probabilities ``p`` (n, C).

    For ``dtype`` see :func:`pair_grams`.
    """
    return assemble_hessian(pair_grams(Z, p, weight, dtype), p.shape[1])


def pair_grams(Z: Tensor, p: Tensor, weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return the matrices (C (C - 1) / 2, k, k) that a Hessian is made of, by pairs of classes.

    Products within chunks of the rows have this ``dtype``, and by default that of ``p``, which the
    sums over chunks have in any case.
    """
    classes, k = p.shape[1], Z.shape[1]
    dtype = p.dtype if dtype is None else dtype
    grams = p.new_zeros((classes * (classes - 1) // 2, k, k))
    pairs = [(a, b) for a in range(classes) for b in range(a)]
    for rows in chunks_of(Z, entries=_GRAM_ENTRIES):
        chunk = Z[rows].to(dtype)
        for gram, (a, b) in zip(grams, pairs, strict=True):
            pair = (weight[rows] * p[rows, a] * p[rows, b]).to(dtype)
            gram += (chunk * pair.unsqueeze(1)).T @ chunk
    return grams


def assemble_hessian(grams: Tensor, classes: int) -> Tensor:
    """Return the Hessian (C·k, C·k) that :func:`pair_grams` are the parts of."""
    k = grams.shape[1]
    blocks = grams.new_zeros((classes, k, classes, k))
    pairs = ((a, b) for a in range(classes) for b in range(a))
    for gram, (a, b) in zip(grams, pairs, strict=True):
        blocks[a, :, b] -= gram
        blocks[b, :, a] -= gram
        blocks[a, :, a] += gram
        blocks[b, :, b] += gram
    return blocks.reshape(classes * k, classes * k)


def hessian_diagonal(Z: Tensor, p: Tensor, weight: Tensor) -> Tensor:
    """Return the diagonal (C, k) of :func:`hessian`; on whitened rows the rest is small."""
    diagonal = p.new_zeros((p.shape[1], Z.shape[1]))
    curvature = (weight.unsqueeze(1) * p * (1 - p)).to(Z.dtype)
    for rows in chunks_of(Z):
        diagonal += curvature[rows].T @ Z[rows].square()
    return diagonal


def curvature_product(Z: Tensor, p: Tensor, curved: Tensor, v: Tensor) -> Tensor:
    """Return the product of the Hessian with ``v`` (t, C, k), at probabilities ``p`` (C, n).

    ``curved`` (C, n) is weight · p. Rows come last, for sums over a few classes are slow otherwise.
    """
    t, classes, k = v.shape
    u = (v.reshape(t * classes, k).to(Z.dtype) @ Z.T).reshape(t, classes, -1)
    u -= (u * p).sum(dim=1, keepdim=True)
    u *= curved
    return (u.reshape(t * classes, -1) @ Z).reshape(v.shape)


def solve_conjugate(
    diagonal: Tensor,
    multiply: Callable[[Tensor], Tensor],
    column_ridge: Tensor,
    rhs: Tensor,
    tolerance: float,
) -> Tensor:
    """Apply the same inverse by preconditioned conjugate gradients, on all of ``rhs`` at once.

    ``diagonal`` (C, k) is that of the Hessian, and ``multiply`` its product with (t, C, k).
    """
    diagonal = diagonal + 2 * column_ridge

    def product(v: Tensor) -> Tensor:
        return multiply(v) + 2 * column_ridge * v

    x = rhs / diagonal
    r = rhs - product(x)
    z = r / diagonal
    direction = z.clone()
    rho = (r * z).sum(dim=(1, 2))
    goal = tolerance**2 * (rhs.square() / diagonal).sum(dim=(1, 2))
    for _ in range(_CG_ITERATIONS):
        if bool((rho <= goal).all()):
            break
        image = product(direction)
        alpha = rho / (direction * image).sum(dim=(1, 2)).clamp_min(torch.finfo(rhs.dtype).tiny)
        x = x + alpha[:, None, None] * direction
        r = r - alpha[:, None, None] * image
        z = r / diagonal
        rho, previous = (r * z).sum(dim=(1, 2)), rho
        ratio = rho / previous.clamp_min(torch.finfo(rhs.dtype).tiny)
        direction = z + ratio[:, None, None] * direction
    return x
