"""Score rows by which source they look like, class by class, with models that have not seen them.

Within a class, a ridge regression of the source on the features gives each row a score: how much it
looks like one end of the contrast between the sources. All regressions live in moments (Gram and
cross-product matrices by class and fold), so ridges, folds and permuted labels cost no further pass
over the rows. The features are raw principal coordinates: the ridge must favour strong directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import torch
from torch import Tensor

from regraft.core.decompositions import cholesky, eigh, eigvalsh

FOLDS = 5
# Shares of the total variance; the held-out gain has one broad peak over them.
_RIDGES = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)
PERMUTATIONS = 99
_NOISE_QUANTILE = 0.95
_MANY_SOURCES = 64  # of which no column each is made
_MAX_TEST_ROWS = 50_000
_MAX_ENTRIES = 2**24  # of the permuted sources that are held at a time
_SMALLEST_CONTRAST = 1e-6  # of a source; one of less takes no part in the contrast
_PAIRS = tuple(combinations(range(FOLDS), 2))


@dataclass(frozen=True)
class ClassRows:
    """Rows of every class in principal coordinates, with folds that depend on the content alone."""

    T: Tensor  # (n, p) principal coordinates, centred in each class
    y: Tensor  # (n,)
    s: Tensor  # (n,) the source of each row
    weight: Tensor  # (n,) for how many rows each row counts
    fold: Tensor  # (n,)
    cells: tuple[tuple[Tensor, ...], ...]  # rows of each class and fold
    n_sources: int

    @property
    def n_classes(self) -> int:
        """Number C of classes."""
        return len(self.cells)

    def products(self, values: Tensor) -> Tensor:
        """Return the cross-products (C, F, p, m) of the coordinates with ``values`` (n, m)."""
        weighted = values * self.weight.unsqueeze(1)  # fewer columns than the coordinates have
        blocks = [[self.T[rows].T @ weighted[rows] for rows in folds] for folds in self.cells]
        return torch.stack([torch.stack(folds) for folds in blocks])

    @property
    def counts(self) -> Tensor:
        """Weighted number of rows (K, C) of each source and class."""
        K, C = self.n_sources, self.n_classes
        cell = self.s * C + self.y
        return torch.bincount(cell, weights=self.weight, minlength=K * C).reshape(K, C)


@dataclass(frozen=True)
class Scores:
    """Scores of each row by models that were fitted without its fold, and without fold f as well.

    ``nested[f]`` (n,) has models without f and without the row's own fold: a later step that is
    fitted on the rows outside of f has seen nothing of f. ``outer`` (n,) has the models without the
    row's fold alone, and ``weights`` (F, C, p) are these models.
    """

    nested: Tensor  # (F, n)
    outer: Tensor  # (n,)
    weights: Tensor  # (F, C, p)


def arrange_rows(
    T: Tensor, y: Tensor, s: Tensor, n_classes: int, n_sources: int, weight: Tensor | None = None
) -> tuple[ClassRows, Tensor]:
    """Centre the coordinates ``T`` (n, p) in each class, and deal the rows to folds.

    Each row counts for ``weight`` (n,) rows, by default for one.

    Rows are dealt in the order of their distance from their class's mean, whatever their source, so
    that permuted sources could have met the same folds. Also return the class means (C, p).
    """
    means = T.new_zeros((n_classes, T.shape[1]))
    weight = T.new_ones(len(T)) if weight is None else weight
    counts = torch.bincount(y, weights=weight, minlength=n_classes).to(T.dtype)
    means = means.index_add(0, y, T * weight.unsqueeze(1)) / counts.unsqueeze(1)
    T = T - means[y]
    order = torch.argsort(T.square().sum(dim=1), stable=True)
    order = order[torch.argsort(y[order], stable=True)]
    first = torch.searchsorted(y[order], y[order])
    fold = torch.empty_like(y)
    fold[order] = (torch.arange(len(y), device=y.device) - first) % FOLDS
    cells = tuple(
        tuple(order[(y[order] == c) & (fold[order] == f)] for f in range(FOLDS))
        for c in range(n_classes)
    )
    return ClassRows(T, y, s, weight, fold, cells, n_sources), means


class DomainRegression:
    """Ridge regressions within each class, without each fold and without each pair of folds."""

    def __init__(self, rows: ClassRows) -> None:
        self.rows = rows
        blocks = [
            [(rows.T[cell], rows.weight[cell, None]) for cell in folds] for folds in rows.cells
        ]
        self.gram = torch.stack(
            [torch.stack([(x * w).T @ x for x, w in folds]) for folds in blocks]
        )
        self.size = torch.stack([torch.stack([w.sum() for _, w in folds]) for folds in blocks])
        total = self.gram.sum(dim=(0, 1)).diagonal().sum() / self.size.sum()
        self.ridges = (total * self.gram.new_tensor(_RIDGES)).tolist()
        gram, size = self._without_fold(self.gram), or_one(self._without_fold(self.size))
        self.values, self.vectors = eigh(gram / size[..., None, None])

    @staticmethod
    def _without_fold(moments: Tensor) -> Tensor:
        """Return the sums (C, F, ...) of moments (C, F, ...) over all folds but one."""
        return moments.sum(dim=1, keepdim=True) - moments

    def solve(self, cross: Tensor, ridges: list[float]) -> Iterator[Tensor]:
        """Yield the coefficients (C, F, p, m) without each fold, ridge by ridge.

        ``cross`` (C, F, p, m) are the products of the coordinates with what is regressed on them.
        """
        size = or_one(self._without_fold(self.size))[..., None, None]
        rotated = self.vectors.mT @ (self._without_fold(cross) / size)
        for ridge in ridges:
            yield self.vectors @ (rotated / (self.values.clamp_min(0) + ridge).unsqueeze(-1))

    def solve_pairs(self, cross: Tensor, ridge: float) -> Tensor:
        """Return the coefficients (C, F, F, p, m) without folds f and g; f = g leaves out one."""
        C, _, p, m = cross.shape
        keep = self.gram.new_ones((len(_PAIRS), FOLDS))
        for i, pair in enumerate(_PAIRS):
            keep[i, list(pair)] = 0
        size = or_one(self.size @ keep.T)[..., None, None]  # (C, pairs, 1, 1)
        gram = torch.einsum("qf,cfij->cqij", keep, self.gram) / size
        gram.diagonal(dim1=-2, dim2=-1).add_(ridge)
        right = torch.einsum("qf,cfim->cqim", keep, cross) / size
        paired = torch.cholesky_solve(right, cholesky(gram))
        beta = cross.new_zeros((C, FOLDS, FOLDS, p, m))
        for i, (f, g) in enumerate(_PAIRS):
            beta[:, f, g] = beta[:, g, f] = paired[:, i]
        each = torch.arange(FOLDS)
        beta[:, each, each] = next(self.solve(cross, [ridge]))
        return beta

    def best_ridge(self, cross: Tensor, n_columns: int) -> float:
        """Return the ridge of the largest gain on the folds left out."""
        gains = [
            float(self._gain(beta, cross, n_columns)) for beta in self.solve(cross, self.ridges)
        ]
        best: float = self.ridges[max(range(len(gains)), key=gains.__getitem__)]
        return best

    def largest_gains(self, cross: Tensor, n_columns: int) -> Tensor:
        """Return the largest gain (B,) over the ridges, for B sets of ``n_columns`` columns."""
        gains = [self._gain(beta, cross, n_columns) for beta in self.solve(cross, self.ridges)]
        return torch.stack(gains).amax(dim=0)

    def _gain(self, beta: Tensor, cross: Tensor, n_columns: int) -> Tensor:
        """Return the fall of the squares (B,) on left-out folds along the best contrast."""
        C, F, p, _ = cross.shape
        fit = (self.gram @ beta).reshape(C, F, p, -1, n_columns)
        B, M = (part.reshape(C, F, p, -1, n_columns) for part in (beta, cross))
        matrix = torch.einsum("cfpbi,cfpbj->bij", B, 2 * M - fit)
        gain: Tensor = eigvalsh((matrix + matrix.mT) / 2)[:, -1]
        return gain

    def score(self, beta: Tensor) -> Scores:
        """Score all rows by the coefficients (C, F, F, p) without two folds and without one."""
        rows = self.rows
        nested = beta.new_zeros((FOLDS, len(rows.y)))
        outer = beta.new_zeros(len(rows.y))
        for c, folds in enumerate(rows.cells):
            for g, cell in enumerate(folds):
                values = (rows.T[cell] @ beta[c, :, g].T).T  # (F, rows)
                nested[:, cell] = values
                outer[cell] = values[g]
        each = torch.arange(FOLDS)
        return Scores(nested, outer, beta[:, each, each].transpose(0, 1))


def indicators(rows: ClassRows, s: Tensor) -> Tensor:
    """Return the sources ``s`` (n,) as columns (n, K), centred and scaled in each class.

    So scaled, half the explained squares of a row are its gain in nats, to second order.
    """
    one_hot = torch.nn.functional.one_hot(s, rows.n_sources).to(rows.T.dtype)
    weighted = one_hot * rows.weight.unsqueeze(1)
    shares = one_hot.new_zeros((rows.n_classes, rows.n_sources)).index_add(0, rows.y, weighted)
    shares = shares / shares.sum(dim=1, keepdim=True)
    return (one_hot - shares[rows.y]) / shares[rows.y].clamp_min(1e-12).sqrt()


def score_domains(regression: DomainRegression) -> tuple[Scores, Tensor]:
    """Score the rows by the leading contrast of the sources, which all classes share.

    Each outer fold has the contrast of the largest gain on the other folds. The contrast (K,) of
    the first fold is returned too: sources with positive entries have more of the upper end. The
    end with the longer tail is the upper one, so the names of the sources do not matter.
    """
    rows = regression.rows
    cross = rows.products(indicators(rows, rows.s))
    beta = regression.solve_pairs(cross, regression.best_ridge(cross, rows.n_sources))
    contrasts = list[Tensor]()
    for f in range(FOLDS):
        others = [g for g in range(FOLDS) if g != f]
        B, M = beta[:, f, others], cross[:, others]
        matrix = torch.einsum("cgpi,cgpj->ij", B, 2 * M - regression.gram[:, others] @ B)
        contrast = eigh((matrix + matrix.mT) / 2)[1][:, -1]
        same = not contrasts or float(contrasts[0] @ contrast) >= 0
        contrasts.append(contrast if same else -contrast)
    along = torch.einsum("cfgpk,fk->cfgp", beta, torch.stack(contrasts))
    scores = regression.score(along)
    if float(scores.outer.pow(3).sum()) >= 0:
        return scores, contrasts[0]
    return Scores(-scores.nested, -scores.outer, -scores.weights), -contrasts[0]


def telling_classes(rows: ClassRows, contrast: Tensor) -> Tensor:
    """Return which classes (C,) are in two sources or more that the contrast (K,) tells apart."""
    held = rows.counts > 0
    if bool(held.all()):
        return held[0]
    told = held & (contrast.abs() > _SMALLEST_CONTRAST).unsqueeze(1)
    return (held.sum(dim=0) >= 2) & told.any(dim=0)


def silence(scores: Scores, tells: Tensor, rows: ClassRows) -> Scores:
    """Set the scores of classes that tell nothing to 0, where rounding has left noise."""
    if bool(tells.all()):
        return scores
    kept = tells.to(scores.outer)
    return Scores(
        scores.nested * kept[rows.y], scores.outer * kept[rows.y], scores.weights * kept[:, None]
    )


def sharpen_scores(regression: DomainRegression, nested: Tensor) -> Scores:
    """Regress what is believed of the rows on the features, and score the rows anew.

    ``nested[f]`` (n,) is the expected group of each row according to a model without fold f.
    """
    rows = regression.rows
    folds = torch.arange(FOLDS, device=rows.fold.device).unsqueeze(1)
    outside = rows.fold.unsqueeze(0) != folds
    problem = folds * rows.n_classes + rows.y
    total = nested.new_zeros(FOLDS * rows.n_classes)
    weight = rows.weight.expand(FOLDS, -1)[outside]
    total = total.index_add(0, problem[outside], nested[outside] * weight)
    count = or_one(torch.bincount(problem[outside], weights=weight, minlength=len(total)))
    belief = torch.where(outside, nested - (total / count)[problem], 0.0)
    cross = rows.products(belief.T.contiguous())  # (C, F, p, F)
    own = nested[rows.fold, torch.arange(len(rows.y), device=rows.y.device)].unsqueeze(1)
    middle = (own * rows.weight.unsqueeze(1)).mean() / rows.weight.mean()
    ridge = regression.best_ridge(rows.products(own - middle), 1)
    beta = regression.solve_pairs(cross, ridge).diagonal(dim1=1, dim2=4)  # (C, F, p, F)
    return regression.score(beta.permute(0, 3, 1, 2))


@dataclass(frozen=True)
class PermutationTest:
    """Test of "given the class, the features say nothing about the source"."""

    p_value: float
    noise_gain: float  # nats a row that permuted sources reach once in twenty times


def permutation_test(regression: DomainRegression, seed: int = 0) -> PermutationTest:
    """Test whether, given the class, the features say anything about the source.

    The statistic is the largest held-out gain of a contrast over the ridges. Sources are shifted
    cyclically along a fixed random order of each class's rows: a group of permutations, so that the
    test is exact for exchangeable sources, and cheap. Of very many rows, some are enough. Weights
    are no evidence: every row counts once.
    """
    rows, K = regression.rows, regression.rows.n_sources
    if bool((rows.weight != 1).any()):
        rows = replace(rows, weight=torch.ones_like(rows.weight))
        return permutation_test(DomainRegression(rows), seed)
    if len(rows.y) > _MAX_TEST_ROWS:
        return permutation_test(DomainRegression(_thin(rows)), seed)
    random = torch.Generator().manual_seed(seed)
    orders = [torch.cat(folds) for folds in rows.cells]
    orders = [
        order[torch.randperm(len(order), generator=random).to(order.device)] for order in orders
    ]
    if K > _MANY_SOURCES:
        return _many_sources_test(regression, orders, random)
    columns = indicators(rows, rows.s)
    observed = float(regression.largest_gains(rows.products(columns), K))
    at_a_time = max(1, _MAX_ENTRIES // columns.numel())
    permuted = list[Tensor]()
    for start in range(0, PERMUTATIONS, at_a_time):
        count = min(at_a_time, PERMUTATIONS - start)
        shifts = [torch.randint(1, max(len(o), 2), (count,), generator=random) for o in orders]
        cross = _shifted_products(rows, columns, orders, shifts)
        permuted.append(regression.largest_gains(cross, K))
    return _compare(torch.cat(permuted), observed, len(rows.y))


def _compare(gains: Tensor, observed: float, n: int) -> PermutationTest:
    noise = float(gains.quantile(_NOISE_QUANTILE)) / (2 * n)
    return PermutationTest(
        (1 + int((gains >= observed).sum())) / (1 + PERMUTATIONS), max(noise, 0.0)
    )


def _shifted_products(
    rows: ClassRows, columns: Tensor, orders: list[Tensor], shifts: list[Tensor]
) -> Tensor:
    """Return the cross-products (C, F, p, B K) with columns (n, K) that were shifted B times.

    ``orders`` and ``shifts`` (B,) are those of each class. Rows come last, so that a shift reads
    and writes memory in sequence.
    """
    blocks = []
    for order, shift in zip(orders, shifts, strict=True):
        own = columns[order].T.contiguous()  # (K, m)
        shifted = torch.cat([own.roll(by, dims=1) for by in shift.tolist()])  # (B K, m)
        fold = rows.fold[order]
        inside = [(fold == f).nonzero().squeeze(1) for f in range(FOLDS)]
        blocks.append(
            torch.stack([(shifted.index_select(1, at) @ rows.T[order[at]]).T for at in inside])
        )
    return torch.stack(blocks)


def _many_sources_test(
    regression: DomainRegression, orders: list[Tensor], random: torch.Generator
) -> PermutationTest:
    """Test as ``permutation_test`` does, without matrices of rows by sources."""
    rows = regression.rows

    def gain(s: Tensor) -> Tensor:
        cross = indicator_products(rows, s)
        flat = cross.reshape(-1, rows.n_sources)
        if len(flat) < rows.n_sources:  # no contrast beyond their span gains anything
            cross = cross @ torch.linalg.qr(flat.mT).Q
        return regression.largest_gains(cross, cross.shape[-1]).clamp_min(0)

    gains = []
    for _ in range(PERMUTATIONS):
        s = rows.s.clone()
        for order in orders:
            shift = int(torch.randint(1, max(len(order), 2), (1,), generator=random))
            s[order] = rows.s[order.roll(shift)]
        gains.append(gain(s))
    return _compare(torch.cat(gains), float(gain(rows.s)), len(rows.y))


def indicator_products(rows: ClassRows, s: Tensor) -> Tensor:
    """Return ``rows.products(indicators(rows, s))`` in one pass over the rows."""
    C, K, p = rows.n_classes, rows.n_sources, rows.T.shape[1]
    cell = (rows.y * FOLDS + rows.fold) * K + s
    sums = rows.T.new_zeros((C * FOLDS * K, p))
    sums = sums.index_add(0, cell, rows.T * rows.weight.unsqueeze(1)).reshape(C, FOLDS, K, p)
    shares = rows.T.new_zeros(C * K).index_add(0, rows.y * K + s, rows.weight).reshape(C, K)
    shares = (shares / shares.sum(dim=1, keepdim=True)).reshape(C, 1, K, 1)
    centred = sums - shares * sums.sum(dim=2, keepdim=True)
    return (centred / shares.clamp_min(1e-12).sqrt()).transpose(2, 3)


def _thin(rows: ClassRows) -> ClassRows:
    """Return every so many-th row of each class and fold, which are in the order of distance."""
    stride = -(-len(rows.y) // _MAX_TEST_ROWS)
    kept = [[cell[::stride] for cell in folds] for folds in rows.cells]
    index = torch.cat([cell for folds in kept for cell in folds])
    sizes = [len(cell) for folds in kept for cell in folds]
    places = torch.split(torch.arange(len(index), device=index.device), sizes)
    cells = tuple(places[c * FOLDS : (c + 1) * FOLDS] for c in range(rows.n_classes))
    taken = {name: getattr(rows, name)[index] for name in ("T", "y", "s", "weight", "fold")}
    return replace(rows, cells=cells, **taken)


def or_one(counts: Tensor) -> Tensor:
    """Return counts with 1 in place of 0, to divide by."""
    return torch.where(counts > 0, counts, 1.0)
