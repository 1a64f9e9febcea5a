"""Abduction and deduction maps: P(u | x) in each domain, and P(y | x, u) shared by all."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from regraft.core.domains import Domains, check_domains, count_cells, index_column
from regraft.core.whitening import Whitening, fit_whitening
from regraft.premises.multinomial_maps import SHRINKAGE, OutcomeData, choose_penalty, fit_map


@dataclass(frozen=True)
class Factorization:
    """Factorized labels P^s(y | x) = sum_u softmax(A_s^T w)_u softmax(D_u^T w)_y, w = [x, 1].

    The maps are fixed in the gauge of (P1): A_s has mean zero over the groups u, and D over the
    classes, which neither softmax sees.
    """

    abductions: Tensor  # (K, d + 1, r) A_s of each domain
    deduction: Tensor  # (d + 1, r, C) D; for two classes sigmoid reads D[..., 1] - D[..., 0]

    def abduce(self, X: Tensor, domain: Tensor) -> Tensor:
        """Return P^s(u | x) (n, r) of rows ``X`` (n, d) in domains (n,), given as indices."""
        if len(domain) and not 0 <= int(domain.min()) <= int(domain.max()) < len(self.abductions):
            raise ValueError(
                f"domain holds {int(domain.min())} to {int(domain.max())}: pass indices from 0 to "
                f"{len(self.abductions) - 1}."
            )
        scores = X.new_empty((len(X), self.abductions.shape[2]), dtype=self.abductions.dtype)
        for s, abduction in enumerate(self.abductions):
            rows = domain == s
            scores[rows] = read_out(X[rows], abduction)
        return torch.softmax(scores, dim=1)

    def deduce(self, X: Tensor) -> Tensor:
        """Return P(y | x, u) (n, r, C) of rows ``X`` (n, d), the same in every domain."""
        scores = read_out(X, self.deduction.flatten(1))
        return torch.softmax(scores.reshape(len(X), *self.deduction.shape[1:]), dim=2)

    def predict(self, X: Tensor, domain: Tensor) -> Tensor:
        """Return P^s(y | x) (n, C) of rows ``X`` (n, d) in domains (n,): eq. `AD-entanglement`."""
        return torch.einsum("nr,nrc->nc", self.abduce(X, domain), self.deduce(X))

    def in_features(self, whitening: Whitening) -> Factorization:
        """Convert maps for rows that ``whitening`` made to maps for rows of features."""
        return Factorization(
            whitening.to_features(self.abductions.mT).mT,
            whitening.to_features(self.deduction.movedim(0, -1)).movedim(-1, 0),
        )


def read_out(X: Tensor, maps: Tensor) -> Tensor:
    """Return the readouts (n, m) of rows [x, 1] by ``maps`` (d + 1, m)."""
    return X.to(maps.dtype) @ maps[:-1] + maps[-1]


def fix_gauge(maps: Tensor, dim: int = -1) -> Tensor:
    """Subtract the mean of ``maps`` over the outcomes along ``dim``, which a softmax ignores."""
    return maps - maps.mean(dim=dim, keepdim=True)


@dataclass(frozen=True)
class GroupedRows:
    """Rows of K domains with an observed U, whitened together and shuffled."""

    whitening: Whitening
    Z: Tensor  # (n, k) whitened rows with a constant 1
    y: Tensor  # (n,) index of the class
    domain: Tensor  # (n,)
    group: Tensor  # (n,) the value of U
    order: Tensor  # (n,) row i here is row order[i] of the domains' X
    n_classes: int
    n_domains: int
    n_groups: int

    def take(self, rows: Tensor) -> GroupedRows:
        """Select rows by a mask or an index (n,)."""
        columns = ("Z", "y", "domain", "group", "order")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})

    def in_common_classes(self) -> tuple[GroupedRows, Tensor]:
        """Return the rows of the classes that every domain has, and which (C,) these are."""
        counts = count_cells(self.domain, self.y, self.n_domains, self.n_classes)
        common = (counts > 0).all(dim=0)
        if bool(common.all()):
            return self, common
        number = common.cumsum(dim=0) - 1
        kept = self.take(common[self.y])
        return replace(kept, y=number[kept.y], n_classes=int(common.sum())), common

    def groups_by_domain(self) -> list[OutcomeData]:
        """Return the data of each A_s: predict U from the rows of domain s."""
        data = OutcomeData(self.Z, self.group, self.n_groups)
        return data.split(self.domain, self.n_domains)

    def labels_by_group(self) -> list[OutcomeData]:
        """Return the data of each D_u: predict y from the rows of group u, in all domains."""
        return self.labels().split(self.group, self.n_groups)

    def labels_by_domain(self) -> list[OutcomeData]:
        """Return the data of heads that ignore U: predict y from the rows of each domain."""
        return self.labels().split(self.domain, self.n_domains)

    def labels(self) -> OutcomeData:
        """Return the data of a head that ignores both: predict y from all rows."""
        return OutcomeData(self.Z, self.y, self.n_classes)


@dataclass(frozen=True)
class Penalties:
    """Penalties of a factorization's maps, chosen by cross-validation."""

    abduction: float
    deduction: float


def group_rows(domains: Domains, group: Tensor, n_groups: int, *, seed: int = 0) -> GroupedRows:
    """Whiten and shuffle the rows of ``domains``, whose values of U are ``group`` (n,)."""
    order = torch.randperm(len(domains.y), generator=torch.Generator().manual_seed(seed))
    order = order.to(domains.y.device)
    whitening = fit_whitening(domains.X, domains.weight, domains.mapping)
    whitening = whitening.with_shrinkage(SHRINKAGE)
    return GroupedRows(
        whitening=whitening,
        Z=whitening(domains.X, mapping=domains.mapping)[order].to(whitening.mean.dtype),
        y=domains.y[order],
        domain=domains.domain[order],
        group=group[order],
        order=order,
        n_classes=len(domains.classes),
        n_domains=len(domains.names),
        n_groups=n_groups,
    )


def choose_penalties(rows: GroupedRows, held_out: Tensor | None = None) -> Penalties:
    """Choose the likeliest penalties for rows held out, a mask (n,), by default every third row."""
    by_domain = by_group = None
    if held_out is not None:
        by_domain = [held_out[rows.domain == s] for s in range(rows.n_domains)]
        by_group = [held_out[rows.group == u] for u in range(rows.n_groups)]
    return Penalties(
        choose_penalty(rows.groups_by_domain(), by_domain),
        choose_penalty(rows.labels_by_group(), by_group),
    )


def fit_factorization(rows: GroupedRows, penalties: Penalties) -> Factorization:
    """Fit a multinomial A_s per domain and D_u per group, on the whitened rows."""
    abductions = [fit_map(data, penalties.abduction).T for data in rows.groups_by_domain()]
    deductions = [fit_map(data, penalties.deduction).T for data in rows.labels_by_group()]
    return Factorization(torch.stack(abductions), torch.stack(deductions, dim=1))


def fit_observed(
    X: ArrayLike,
    y: ArrayLike,
    sample_domain: ArrayLike,
    group: ArrayLike,
    *,
    device: str = "cpu",
) -> Factorization:
    """Fit the abduction and deduction maps where U is observed.

    Penalties are cross-validated. Domains, groups and classes of the maps are in sorted order.

    Parameters
    ----------
    X, y, sample_domain : array-like (n, d), (n,), (n,)
        Features, labels and the domain of each row.
    group : array-like (n,)
        U of each row, of any sortable kind.
    device : str
        Where torch computes, such as "cpu" or "cuda".

    Returns
    -------
    Factorization
        Maps on the features.
    """
    domains = check_domains(X, y, sample_domain, device=device)
    values, index = index_column(group, "group", len(domains.y))
    rows = group_rows(domains, torch.from_numpy(index).to(device), len(values))
    return fit_factorization(rows, choose_penalties(rows)).in_features(rows.whitening)
