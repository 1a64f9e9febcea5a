"""Plausible targets of the family ``factorized``: another abduction, the same deduction.

Sources are ``g_s(y | x) = Σ_u softmax(A_s^T x)_u softmax(D_u^T x)_y`` with groups u that are not
observed. Targets have an abduction in the affine hull of the sources' own. Maps are fitted without
each fold of the rows, and a target is the same affine combination in every fold. So the folds need
not number the groups alike.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import get_args

import torch
from torch import Tensor

from regraft.core.domains import domain_slices
from regraft.core.heads import SourceHeads
from regraft.core.hull import Hull, PlausibleTargets, factorize_rows, fit_hull, hull_targets
from regraft.core.latent_witness import find_factorized_witness
from regraft.core.target_rows import FactorizedRows, entry_of_label, factorized_labels
from regraft.premises.latent_groups import MAX_GROUPS, LatentFit, LatentOptions, fit_likelihood
from regraft.premises.latent_likelihood import LatentLikelihood, Shift

# From the strongest down; weaker ones are tried only while they help.
RIDGES = (3e-2, 3e-3, 3e-4, 3e-5)
_FOLD_RESTARTS = 2
_FOLD_ITERATIONS = 100  # enough to choose among ridges and to weigh rows
_RESTARTS = 4
_WORSE_NATS = 0.01  # by which held-out rows may be less likely than under the source heads


@dataclass(frozen=True)
class FactorizedTargets:
    """Maps of the sources, their hull of abductions, and the rows prepared for its targets."""

    abductions: Tensor  # (K, G, k) A_s of whitened rows
    deduction: Tensor  # (G, C, k) D of whitened rows
    hull: Hull  # of the abductions
    rows: FactorizedRows  # by maps that have not seen them
    shift: Shift  # whether abductions share their slopes ("prior") or not ("full")
    ridge: float
    log_likelihood: float  # held-out, per row (nats)
    doubts: tuple[str, ...]  # reasons why the maps may not be the sources' own

    @property
    def plausible(self) -> PlausibleTargets:
        """The targets, as games, audits and certificates take them."""
        find = partial(find_factorized_witness, sources=self.abductions, deduction=self.deduction)
        return PlausibleTargets("factorized", self.hull, self.rows, find)

    def prepare(self, Z: Tensor, y: Tensor, weight: Tensor, domain: Tensor) -> FactorizedRows:
        """Prepare other rows ``Z`` (n, k) of the same sources for the same targets."""
        Z = Z.to(self.deduction.dtype)
        maps = self.abductions @ Z.T, self.deduction @ Z.T
        return factorize_rows(self.hull, *maps, y, weight, domain)


def find_targets(
    sources: SourceHeads, family: str, rank: int | None, n_groups: int
) -> tuple[PlausibleTargets, FactorizedTargets | None]:
    """Return the targets of a family that has a hull, and the maps behind them if it has any."""
    if family == "hull":
        return hull_targets(sources, rank), None
    maps = fit_factorized_targets(sources, n_groups)
    return maps.plausible, maps


def check_n_groups(n_groups: int) -> None:
    """Raise ``ValueError`` unless ``n_groups`` is a possible number of groups."""
    if not 2 <= n_groups <= MAX_GROUPS:
        raise ValueError(f"n_groups is {n_groups}: pass a number from 2 to {MAX_GROUPS}.")


def fit_factorized_targets(sources: SourceHeads, n_groups: int) -> FactorizedTargets:
    """Fit maps of the likeliest shift and ridge, by rows held out; doubts come in a warning."""
    found = max(
        (_choose_ridge(sources, n_groups, shift) for shift in get_args(Shift)),
        key=lambda held_out: held_out.log_likelihood,
    )
    options = LatentOptions(found.shift, found.ridge, _RESTARTS)
    every = torch.ones_like(sources.y, dtype=torch.bool)
    fit = fit_likelihood(_likelihood(sources, every, n_groups, options), options)
    abductions, deduction = _as_heads(fit)
    doubts = _doubts(sources, fit, found)
    if doubts and len(sources.slices) > 1:
        warnings.warn(
            f"the factorized maps are in doubt ({'; '.join(doubts)}): pass another n_groups, or "
            'compare with family="hull".',
            stacklevel=3,
        )
    # By the maps of all rows: those of the folds would add directions in which they merely err.
    hull = fit_hull(abductions, sources.Z, sources.weight)
    labelled = sources.y, sources.weight, sources.domain
    return FactorizedTargets(
        abductions=abductions,
        deduction=deduction,
        hull=hull,
        rows=factorize_rows(hull, found.abductions, found.deduction, *labelled),
        shift=found.shift,
        ridge=found.ridge,
        log_likelihood=found.log_likelihood,
        doubts=doubts,
    )


@dataclass(frozen=True)
class _HeldOutMaps:
    """Maps fitted without each fold of the rows."""

    shift: Shift
    ridge: float
    abductions: Tensor  # (K, G, n) logits of each row, by maps that have not seen it
    deduction: Tensor  # (G, C, n)
    log_likelihood: float


def _choose_ridge(sources: SourceHeads, n_groups: int, shift: Shift) -> _HeldOutMaps:
    strongest, *weaker = (
        LatentOptions(shift, ridge, _FOLD_RESTARTS, max_iterations=_FOLD_ITERATIONS)
        for ridge in RIDGES
    )
    best = _hold_out(sources, n_groups, strongest)
    for options in weaker:
        found = _hold_out(sources, n_groups, options)
        if found.log_likelihood <= best.log_likelihood:
            break
        best = found
    return best


def _hold_out(sources: SourceHeads, n_groups: int, options: LatentOptions) -> _HeldOutMaps:
    """Fit maps without each fold of the rows, and apply them to that fold."""
    held_out, maps = sources.held_out, []
    for f in range(len(held_out.pooled)):
        model = _likelihood(sources, held_out.fold != f, n_groups, options)
        maps.append(_as_heads(fit_likelihood(model, options)))
    by_fold = (torch.stack(each) for each in zip(*maps, strict=True))
    abductions, deduction = (held_out.logits(each, sources.Z) for each in by_fold)
    log_p = factorized_labels(abductions, deduction, sources.domain)
    fits = entry_of_label(log_p, sources.y)
    if not bool(sources.present.all()):  # of classes that it lacks, a source says nothing
        lacking = ~sources.present[sources.domain].T
        fits = fits - torch.logsumexp(log_p.masked_fill(lacking, -torch.inf), dim=0)
    likelihood = float(sources.weight @ fits)
    return _HeldOutMaps(options.shift, options.ridge, abductions, deduction, likelihood)


def _likelihood(
    sources: SourceHeads, kept: Tensor, n_groups: int, options: LatentOptions
) -> LatentLikelihood:
    weight = sources.weight[kept]
    return LatentLikelihood(
        Z=sources.Z[kept],
        y=sources.y[kept],
        weight=weight / weight.sum(),
        slices=domain_slices(sources.domain[kept], len(sources.slices)),
        present=sources.present,
        groups=n_groups,
        classes=len(sources.pooled),
        shift=options.shift,
        ridge=options.ridge,
    )


def _as_heads(fit: LatentFit) -> tuple[Tensor, Tensor]:
    """Return A (K, G, k) and D (G, C, k), shaped as heads are."""
    maps = fit.factorization
    return maps.abductions.mT.contiguous(), maps.deduction.movedim(0, -1).contiguous()


def _doubts(sources: SourceHeads, fit: LatentFit, found: _HeldOutMaps) -> tuple[str, ...]:
    """Return what the fit doubts, and whether heads fit better: (P4)."""
    doubts = list(fit.doubts)
    heads = sources.regularization.log_likelihood
    if found.log_likelihood < heads - _WORSE_NATS:
        doubts.append(
            f"held-out labels have {found.log_likelihood:.3f} nats a row under them, and "
            f"{heads:.3f} under the sources' heads"
        )
    return tuple(doubts)
