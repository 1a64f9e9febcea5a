"""All checks of the premises on one set of data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from regraft.core.domains import Domains, check_domains, index_column
from regraft.core.splitting import hold_out
from regraft.premises.angles import AbductionAngles, check_angles, describe_angles
from regraft.premises.factorization import (
    GroupedRows,
    choose_penalties,
    fit_factorization,
    group_rows,
    read_out,
)
from regraft.premises.factorization_check import (
    FactorizationClosure,
    check_closure,
    compare_predictions,
)
from regraft.premises.feasibility import TransplantBasis, check_basis
from regraft.premises.heterogeneity import Heterogeneity, check_heterogeneity
from regraft.premises.invariance import DeductionInvariance, check_invariance
from regraft.premises.latent import MOST_GROUPS, LatentFit, fit_latent_domains
from regraft.premises.maps import choose_penalty, fit_map
from regraft.premises.randomization import DRAWS
from regraft.premises.shifts import Shifts, measure_shifts
from regraft.support.progress import OnProgress, ignore_progress

_MOST_OBSERVED = 100  # groups
_RESTARTS, _ITERATIONS = 3, 200  # of unobserved groups, here where only their predictions count

Check = (
    Heterogeneity | FactorizationClosure | AbductionAngles | DeductionInvariance | TransplantBasis
)


@dataclass(frozen=True)
class Diagnosis:
    """What data say about the premises of the method."""

    n_rows: int
    n_features: int
    domains: dict[str, int]  # rows of each
    groups: tuple[str, ...]  # values of U, numbered if it was not observed
    observed: bool  # whether U was
    heterogeneity: Heterogeneity
    closure: FactorizationClosure
    angles: AbductionAngles
    invariance: DeductionInvariance
    basis: TransplantBasis
    shifts: Shifts
    remarks: tuple[str, ...]  # doubts about the maps of a U that was not observed

    @property
    def checks(self) -> dict[str, Check]:
        """The checks that have a verdict, by the premise they are of."""
        return {
            "sources disagree": self.heterogeneity,
            "factorization closes": self.closure,
            "abductions differ": self.angles,
            "deduction is invariant": self.invariance,
            "a transplant basis exists": self.basis,
        }

    def summary(self) -> tuple[str, ...]:
        """The verdicts in words, one sentence each."""
        shifts = (
            f"Diversity shift {self.shifts.diversity:.2f} (inputs that only one domain has), "
            f"correlation shift {self.shifts.correlation:.2f} (labels that differ on like inputs)."
        )
        return (*(check.sentence for check in self.checks.values()), shifts, *self.remarks)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dictionaries."""
        document: dict[str, Any] = {
            "rows": self.n_rows,
            "features": self.n_features,
            "domains": self.domains,
            "groups": list(self.groups),
            "groups_observed": self.observed,
        }
        for name in ("heterogeneity", "closure", "angles", "invariance", "basis", "shifts"):
            document[name] = getattr(self, name).to_dict()
        return document | {"remarks": list(self.remarks), "summary": list(self.summary())}


def diagnose(
    X: ArrayLike,
    y: ArrayLike,
    sample_domain: ArrayLike,
    group: ArrayLike | None = None,
    *,
    groups: int = 2,
    seed: int = 0,
    device: str = "cpu",
    on_progress: OnProgress = ignore_progress,
) -> Diagnosis:
    """Check the premises on rows ``X`` (n, d), labels ``y`` (n,) and their domains (n,).

    ``group`` (n,) is the U of each row where it was observed. Else ``groups`` unobserved values
    are fitted by maximum likelihood; what needs U then stays undecided. ``on_progress`` is called
    with what comes next. Raises ``ValueError`` with one sentence.
    """
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed is {seed}: pass a number from 0 to 2**63 - 1.")
    domains = check_domains(X, y, sample_domain, device=device)
    if len(domains.names) < 2:
        raise ValueError("all rows belong to one domain: pass rows of two domains or more.")
    names = [str(name) for name in domains.names]
    if group is None:
        if not 2 <= groups <= MOST_GROUPS:
            raise ValueError(f"groups is {groups}: pass a number from 2 to {MOST_GROUPS}.")
        hold_out(domains)  # refuses too few rows before anything is fitted
        values: list[str] = [str(u + 1) for u in range(groups)]
        index = torch.zeros_like(domains.y)
    else:
        found, places = index_column(group, "group", len(domains.y))
        if len(found) < 2:
            raise ValueError(f"group is {found[0]!s} in every row: pass two groups or more.")
        if len(found) > _MOST_OBSERVED:
            raise ValueError(
                f"group has {len(found)} values: pass {_MOST_OBSERVED} or fewer, for example by "
                "binning numbers."
            )
        values = [str(value) for value in found]
        index = torch.from_numpy(places).to(domains.y)
    on_progress("testing whether the sources disagree")
    rows = group_rows(domains, index, 1 if group is None else len(values), seed=seed)
    heterogeneity = check_heterogeneity(rows, draws=DRAWS, seed=seed)
    on_progress("measuring shifts")
    shifts = measure_shifts(domains, seed=seed)
    part = _latent if group is None else _observed
    closure, angles, invariance, basis, remarks = part(
        domains, rows, names, values, seed, on_progress
    )
    return Diagnosis(
        n_rows=len(domains.y),
        n_features=domains.X.shape[1],
        domains=dict(zip(names, torch.bincount(domains.domain).tolist(), strict=True)),
        groups=tuple(values),
        observed=group is not None,
        heterogeneity=heterogeneity,
        closure=closure,
        angles=angles,
        invariance=invariance,
        basis=basis,
        shifts=shifts,
        remarks=remarks,
    )


_Parts = tuple[
    FactorizationClosure, AbductionAngles, DeductionInvariance, TransplantBasis, tuple[str, ...]
]


def _observed(
    domains: Domains,
    rows: GroupedRows,
    names: list[str],
    values: list[str],
    seed: int,
    on_progress: OnProgress,
) -> _Parts:
    on_progress("fitting abduction and deduction maps")
    penalties = choose_penalties(rows)
    maps = fit_factorization(rows, penalties)
    on_progress("predicting held-out rows")
    closure = check_closure(rows, penalties, names=names)
    on_progress("comparing abductions")
    angles = check_angles(
        rows,
        maps.abductions,
        penalty=penalties.abduction,
        names=names,
        draws=DRAWS,
        seed=seed,
    )
    on_progress("comparing deductions")
    invariance = check_invariance(
        rows,
        maps.deduction,
        penalty=penalties.deduction,
        names=names,
        groups=values,
        draws=DRAWS,
        seed=seed,
    )
    on_progress("looking for a transplant basis")
    unseen = len(names) * len(values) - invariance.n_cells
    basis = check_basis(maps.in_features(rows.whitening), _by_domain(domains), unseen=unseen)
    return closure, angles, invariance, basis, ()


def _latent(
    domains: Domains,
    rows: GroupedRows,
    names: list[str],
    values: list[str],
    seed: int,
    on_progress: OnProgress,
) -> _Parts:
    fit = _fit_quietly(domains, len(values), seed, on_progress, "all rows")
    closure = _latent_closure(domains, names, len(values), seed, on_progress)
    angles = describe_angles(fit.factorization.abductions, names)
    invariance = DeductionInvariance(
        verdict="undecided",
        sentence="Whether deductions are invariant cannot be tested without the groups of the "
        "rows: pass them if they are known.",
        p_value=float("nan"),
        views={},
        effective_rows=0.0,
        cells=(),
        n_cells=0,
        pull=float("nan"),
    )
    on_progress("looking for a transplant basis")
    basis = check_basis(fit.factorization, _by_domain(domains))
    return closure, angles, invariance, basis, fit.warnings


def _latent_closure(
    domains: Domains, names: list[str], groups: int, seed: int, on_progress: OnProgress
) -> FactorizationClosure:
    """Predict a third of the rows by maps of unobserved groups fitted to the others."""
    train, test = hold_out(domains)
    maps = _fit_quietly(train, groups, seed, on_progress, "two thirds of the rows").factorization
    seen = group_rows(train, torch.zeros_like(train.y), 1, seed=seed)
    direct = [fit_map(data, choose_penalty([data])) for data in seen.labels_by_domain()]
    heads = seen.whitening.to_features(torch.stack(direct)).mT  # (K, d + 1, C)
    by_head = torch.stack([torch.softmax(read_out(test.X, head), dim=1) for head in heads])
    own = by_head[test.domain, torch.arange(len(test.y), device=test.y.device)]
    factorized = maps.predict(test.X, test.domain)
    return compare_predictions(test.y, test.domain, factorized, own, names=names)


def _by_domain(domains: Domains) -> list[Tensor]:
    return [domains.X[domains.domain == s] for s in range(len(domains.names))]


def _fit_quietly(
    domains: Domains, groups: int, seed: int, on_progress: OnProgress, which: str
) -> LatentFit:
    def report_restart(done: int, _: float) -> None:
        if done < _RESTARTS:
            on_progress(
                f"fitting {groups} unobserved groups to {which}, start {done + 1} of {_RESTARTS}"
            )

    report_restart(0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are in the answer too
        return fit_latent_domains(
            domains,
            groups,
            shift="full",
            restarts=_RESTARTS,
            seed=seed,
            max_iterations=_ITERATIONS,
            on_restart=report_restart,
        )
