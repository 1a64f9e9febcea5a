"""Diagnosis: four answers to act on, and all checks of the method's premises behind them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from regraft.core.domains import Domains, index_column
from regraft.core.splitting import hold_out, take_rows, thin_sources
from regraft.core.standardization import standardize_columns
from regraft.premises.abduction_angles import AbductionAngles, check_angles, describe_angles
from regraft.premises.answers import Answer, Findings, answer_questions
from regraft.premises.deduction_invariance import DeductionInvariance, check_invariance
from regraft.premises.factorization import (
    GroupedRows,
    choose_penalties,
    fit_factorization,
    group_rows,
    read_out,
)
from regraft.premises.factorization_closure import (
    FactorizationClosure,
    check_factorization_closure,
    compare_predictions,
)
from regraft.premises.heterogeneity import Heterogeneity, check_heterogeneity
from regraft.premises.hidden_factor import HiddenFactor, find_hidden_factor
from regraft.premises.latent_groups import MAX_GROUPS, LatentFit, LatentOptions, fit_latent_domains
from regraft.premises.multinomial_maps import choose_penalty, fit_map
from regraft.premises.randomization import pooled_probabilities
from regraft.premises.sample_size import SampleSize, measure_sample_size
from regraft.premises.shifts import Shifts, measure_shifts, relative_densities
from regraft.premises.transplant_basis import TransplantBasis, check_basis
from regraft.premises.verdicts import ONE_SOURCE
from regraft.support.plain_data import PlainData
from regraft.support.progress import OnProgress, ignore_progress
from regraft.support.shown import ShownResult
from regraft.support.table import Table

# By the name of their check.
PREMISES = {
    "heterogeneity": "sources disagree",
    "closure": "factorization closes",
    "angles": "abductions differ",
    "invariance": "deduction is invariant",
    "basis": "a transplant basis exists",
}
_MAX_OBSERVED_GROUPS = 100
_RESTARTS, _ITERATIONS = 3, 200  # for unobserved groups; fewer, as only predictions count here
_MAX_ROWS = 50_000  # that are looked at
_MAX_MAP_ROWS = 6_000  # that shifts and maps of unobserved groups, which no answer tests, are of
_CLOSURE_ROWS = 3  # of each domain and class, that hold_out needs

Check = (
    Heterogeneity | FactorizationClosure | AbductionAngles | DeductionInvariance | TransplantBasis
)


@dataclass(frozen=True, repr=False)
class Diagnosis(ShownResult):
    """Four answers to act on, and verdicts of the data on the premises of the method.

    Each check has a ``verdict``, a ``sentence`` that explains it, and its numbers. All columns are
    standardized before, so units make no difference.
    """

    n_rows: int
    n_features: int
    domains: dict[str, int]  # number of rows of each domain
    groups: tuple[str, ...]  # values of U; numbered if U was not observed
    observed: bool  # whether U was observed
    answers: tuple[Answer, ...]  # a hidden factor? inputs only? enough data? what to do?
    factor: HiddenFactor
    size: SampleSize
    heterogeneity: Heterogeneity
    closure: FactorizationClosure
    angles: AbductionAngles
    invariance: DeductionInvariance
    basis: TransplantBasis
    shifts: Shifts
    remarks: tuple[str, ...]  # rows left out, and doubts about the maps of an unobserved U

    @property
    def checks(self) -> dict[str, Check]:
        """Checks that have a verdict, by the premise that they test."""
        return {title: getattr(self, name) for name, title in PREMISES.items()}

    def headline(self) -> tuple[str, ...]:
        """Return the answers, a line each."""
        return tuple(f"{each.question} {each.answer} ({each.number})" for each in self.answers)

    def table(self) -> Table:
        """Show the answers with the numbers behind them, then the verdicts on the premises."""
        answers = ((each.question, each.answer, each.number) for each in self.answers)
        verdicts = ((name, check.verdict, None) for name, check in self.checks.items())
        columns = "question or premise", "answer", "number"
        return Table.from_sections("Diagnosis", columns, answers, verdicts, align="lll")

    def paragraphs(self) -> tuple[str, ...]:
        """Return the answers, then the verdicts on the premises, one sentence each."""
        answers = (answer.sentence for answer in self.answers)
        if not self.shifts.pairs:
            return (*answers, *self.remarks)
        shifts = (
            f"Diversity shift {self.shifts.diversity:.2f} (inputs that only one domain has), "
            f"correlation shift {self.shifts.correlation:.2f} (labels that differ on like inputs)."
        )
        checks = (check.sentence for check in self.checks.values())
        return (*answers, *checks, shifts, *self.remarks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dictionaries."""
        document: dict[str, Any] = {
            "rows": self.n_rows,
            "features": self.n_features,
            "domains": self.domains,
            "groups": list(self.groups),
            "groups_observed": self.observed,
            "answers": [answer.to_dict() for answer in self.answers],
        }
        for name, value in vars(self).items():
            if isinstance(value, PlainData):
                document[name] = value.to_dict()
        return document | {"remarks": list(self.remarks), "summary": list(self.paragraphs())}


def diagnose_domains(
    domains: Domains,
    group: ArrayLike | None = None,
    *,
    groups: int = 2,
    seed: int = 0,
    on_progress: OnProgress = ignore_progress,
) -> Diagnosis:
    """Say what rows show, as :func:`regraft.diagnose` does, which checks them first."""
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed is {seed}: pass a number from 0 to 2**63 - 1.")
    if group is None:
        if not 2 <= groups <= MAX_GROUPS:
            raise ValueError(f"groups is {groups}: pass a number from 2 to {MAX_GROUPS}.")
        values = [str(u + 1) for u in range(groups)]
        index, n_observed = torch.zeros_like(domains.y), 1
    else:
        values, index = _index_groups(group, domains)
        n_observed = len(values)
    whole, kept = domains, thin_sources(domains, _MAX_ROWS)
    if not bool(kept.all()):
        domains, index = take_rows(domains, kept), index[kept]
    domains = standardize_columns(domains)
    rows = group_rows(domains, index, n_observed, seed=seed)
    names = domains.texts
    some = thin_sources(domains, _MAX_MAP_ROWS)
    mapped = domains if bool(some.all()) else take_rows(domains, some)
    data = _Data(domains, mapped, rows, names, values, seed, on_progress)
    evidence = gather_evidence(whole, domains, rows, seed=seed, on_progress=on_progress)
    if len(names) == 1:
        closure, angles, invariance, basis, remarks = _check_nothing()
    else:
        check = _check_latent if group is None else _check_observed
        closure, angles, invariance, basis, remarks = check(data)
    evidence = replace(evidence, invariance=None if group is None else invariance)
    counts = len(whole.y), len(domains.y), len(mapped.y)
    return Diagnosis(
        n_rows=len(whole.y),
        n_features=domains.X.shape[1],
        domains=dict(zip(names, torch.bincount(whole.domain).tolist(), strict=True)),
        groups=tuple(values),
        observed=group is not None,
        answers=answer_questions(evidence),
        factor=evidence.factor,
        size=evidence.size,
        heterogeneity=evidence.heterogeneity,
        closure=closure,
        angles=angles,
        invariance=invariance,
        basis=basis,
        shifts=evidence.shifts,
        remarks=(*_describe_samples(*counts, observed=group is not None), *remarks),
    )


def gather_evidence(
    whole: Domains,
    domains: Domains,
    rows: GroupedRows,
    *,
    seed: int = 0,
    on_progress: OnProgress = ignore_progress,
) -> Findings:
    """Measure what the answers rest on, as far as it does not need U.

    ``domains`` and ``rows`` are the standardized rows to look at, ``whole`` all rows.
    """
    on_progress("looking for a hidden factor")
    factor = find_hidden_factor(domains)
    on_progress("testing whether the sources disagree")
    if len(domains.names) == 1:
        heterogeneity = check_heterogeneity(rows, seed=seed)
        shifts = Shifts(float("nan"), float("nan"), ())
    else:
        p = pooled_probabilities(rows)
        heterogeneity = check_heterogeneity(rows, probabilities=p, seed=seed)
        on_progress("measuring shifts")
        some = thin_sources(domains, _MAX_MAP_ROWS)
        densities = relative_densities(rows, p)[some]
        shifts = measure_shifts(take_rows(domains, some), densities=densities)
    size = measure_sample_size(whole, heterogeneity.accuracies)
    return Findings(factor, heterogeneity, shifts, size)


def _describe_samples(whole: int, tested: int, mapped: int, *, observed: bool) -> tuple[str, ...]:
    """Say which steps saw a part of the rows only."""
    parts = [("The hidden factor and the tests", tested)] if tested < whole else []
    if mapped < tested:
        maps = "The shifts" if observed else "The shifts and the maps of unobserved groups"
        parts.append((maps, mapped))
    return tuple(
        f"{steps} come from {rows} of the {whole} rows: the largest sources are thinned."
        for steps, rows in parts
    )


def _index_groups(group: ArrayLike, domains: Domains) -> tuple[list[str], Tensor]:
    """Return the names of the observed groups, and the index (n,) of each row's."""
    found, places = index_column(group, "group", len(domains.y))
    if len(found) < 2:
        raise ValueError(f"group is {found[0]!s} in every row: pass two groups or more.")
    if len(found) > _MAX_OBSERVED_GROUPS:
        raise ValueError(
            f"group has {len(found)} values: pass {_MAX_OBSERVED_GROUPS} or fewer, for example by "
            "binning numbers."
        )
    return [str(value) for value in found], torch.from_numpy(places).to(domains.y)


@dataclass(frozen=True)
class _Data:
    """The rows to check, with what all checks need."""

    domains: Domains
    mapped: Domains  # of these rows, the ones to which unobserved groups are fitted
    rows: GroupedRows
    names: list[str]  # of the domains
    values: list[str]  # names of the groups
    seed: int
    on_progress: OnProgress

    def rows_by_domain(self) -> list[Tensor]:
        """Return the features (n_s, d) of each domain."""
        return [self.domains.X[self.domains.domain == s] for s in range(len(self.names))]


_Checks = tuple[
    FactorizationClosure, AbductionAngles, DeductionInvariance, TransplantBasis, tuple[str, ...]
]


def _check_nothing() -> _Checks:
    """Leave the premises undecided, as one source shows none of them."""
    nan = float("nan")
    return (
        FactorizationClosure("undecided", ONE_SOURCE, ()),
        AbductionAngles("undecided", ONE_SOURCE, nan, (), {}, nan, nan),
        DeductionInvariance("undecided", ONE_SOURCE),
        TransplantBasis("undecided", ONE_SOURCE, 0, 0, nan, ()),
        (),
    )


def _check_observed(data: _Data) -> _Checks:
    """Check the premises that involve U, where it is observed."""
    rows, names, seed = data.rows, data.names, data.seed
    data.on_progress("fitting abduction and deduction maps")
    penalties = choose_penalties(rows)
    maps = fit_factorization(rows, penalties)
    data.on_progress("predicting held-out rows")
    closure = check_factorization_closure(rows, penalties, names=names)
    data.on_progress("comparing abductions")
    angles = check_angles(
        rows, maps.abductions, penalty=penalties.abduction, names=names, seed=seed
    )
    data.on_progress("comparing deductions")
    invariance = check_invariance(
        rows,
        maps.deduction,
        penalty=penalties.deduction,
        names=names,
        groups=data.values,
        seed=seed,
    )
    data.on_progress("looking for a transplant basis")
    unseen = len(names) * len(data.values) - invariance.n_cells
    basis = check_basis(maps.in_features(rows.whitening), data.rows_by_domain(), unseen=unseen)
    return closure, angles, invariance, basis, ()


def _check_latent(data: _Data) -> _Checks:
    """Check the premises that involve U by maps of unobserved groups, as far as these tell."""
    n = len(data.mapped.y)
    which = "all rows" if n == len(data.domains.y) else f"{n} rows"
    fit = _fit_quietly(data, data.mapped, which)
    closure = _check_latent_closure(data)
    angles = describe_angles(fit.factorization.abductions, data.names)
    invariance = DeductionInvariance(
        verdict="undecided",
        sentence="Whether deductions are invariant cannot be tested without the groups of the "
        "rows: record them, if that is possible.",
    )
    data.on_progress("looking for a transplant basis")
    basis = check_basis(fit.factorization, data.rows_by_domain())
    remarks = tuple(f"About the maps of unobserved groups: {doubt}." for doubt in fit.doubts)
    return closure, angles, invariance, basis, remarks


def _check_latent_closure(data: _Data) -> FactorizationClosure:
    """Predict a third of the rows by maps of unobserved groups fitted to the others."""
    counts = data.mapped.counts
    if int(counts[counts > 0].min()) < _CLOSURE_ROWS:
        sentence = "Some class of a source has too few rows to hold a third of them out."
        return FactorizationClosure("undecided", sentence, ())
    train, test = hold_out(data.mapped)
    maps = _fit_quietly(data, train, "two thirds of the rows").factorization
    seen = group_rows(train, torch.zeros_like(train.y), 1, seed=data.seed)
    direct = [fit_map(outcomes, choose_penalty([outcomes])) for outcomes in seen.labels_by_domain()]
    heads = seen.whitening.to_features(torch.stack(direct)).mT  # (K, d + 1, C)
    by_head = torch.stack([torch.softmax(read_out(test.X, head), dim=1) for head in heads])
    own = by_head[test.domain, torch.arange(len(test.y), device=test.y.device)]
    factorized = maps.predict(test.X, test.domain)
    return compare_predictions(test.y, test.domain, factorized, own, names=data.names)


def _fit_quietly(data: _Data, domains: Domains, which: str) -> LatentFit:
    """Fit unobserved groups to ``domains``, described as ``which``, without warnings."""
    groups = len(data.values)

    def report_restart(done: int, _: float) -> None:
        if done < _RESTARTS:
            start = f"start {done + 1} of {_RESTARTS}"
            data.on_progress(f"fitting {groups} unobserved groups to {which}, {start}")

    report_restart(0, 0.0)
    options = LatentOptions(
        shift="full", restarts=_RESTARTS, seed=data.seed, max_iterations=_ITERATIONS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are in the answer too
        return fit_latent_domains(domains, groups, options, report_restart)
