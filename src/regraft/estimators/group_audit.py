"""Audits by groups: a fixed predictor in every mixture of the hidden groups of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import torch
from numpy.typing import ArrayLike

from regraft.core.abduction import find_groups, rows_of_domains
from regraft.core.certificate import describe_worse
from regraft.core.domains import check_domains, domain_slices, warn_if_one_domain
from regraft.core.evidence import (
    CONFIDENCE,
    Evidence,
    HeldOutRows,
    measure_sources,
)
from regraft.core.group_evidence import measure_targets
from regraft.core.group_targets import GroupTargets, check_prior_shift
from regraft.estimators.abduction import describe_groups
from regraft.estimators.audit import Predictor, judge_rows
from regraft.support.plain_data import PlainData
from regraft.support.shown import ShownResult
from regraft.support.table import Cell, Number, Table, at_least, percent, share
from regraft.support.threads import threads_by_size

COLUMNS = "measured in", "effective rows", "risk", "at most", "accuracy", "at least"
_EFFECTIVE = (
    "Effective rows: how many rows of equal weight would tell as much. A row counts in every group "
    "that it may belong to, so they need not sum to the number of rows."
)
ONE_SOURCE_CONSEQUENCE = "no hidden groups can be told apart"


@dataclass(frozen=True, repr=False)
class GroupAudit(ShownResult, PlainData):
    """Risk and accuracy of one predictor in each hidden group, each source and every mixture.

    ``risk`` and ``accuracy`` are of the worst mixture of the groups on these rows. With a
    confidence of 95 %, no mixture has a risk above ``risk_bound`` or an accuracy below
    ``accuracy_bound``, if the rows are new to the predictor. ``worst_source`` was measured, and may
    be below that bound if it is no such mixture.
    """

    family: Literal["latent"]
    risk: float  # nats
    accuracy: float
    confidence: float
    source_accuracy: float  # mean over the sources
    groups: tuple[Evidence, ...]  # each group alone; the pooled sources if there is one group
    targets: tuple[Evidence, ...]  # extreme mixtures: the worst one is among them
    sources: tuple[Evidence, ...]
    prior_shift: float | None
    class_groups: bool
    abduction: dict[str, Any]  # what was found about the hidden factor
    # Follow from the evidence.
    risk_bound: float = field(init=False)
    accuracy_bound: float = field(init=False)
    worst_source: Evidence = field(init=False)  # with the lowest accuracy

    def __post_init__(self) -> None:
        found = {
            "risk_bound": max(each.risk_bound for each in self.targets),
            "accuracy_bound": min(each.accuracy_bound for each in self.targets),
            "worst_source": min(self.sources, key=lambda each: each.accuracy),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GroupAudit:
        """Rebuild an audit from :meth:`to_dict`, also after a round trip through JSON.

        Bounds follow from the evidence, also those of audits that older versions wrote.
        """
        evidence = {
            name: tuple(Evidence(**each) for each in data[name])
            for name in ("groups", "targets", "sources")
        }
        given = {each.name for each in fields(cls) if not each.init}
        return cls(**{name: x for name, x in (data | evidence).items() if name not in given})

    @property
    def n_groups(self) -> int:
        """Number of groups; 1 if no hidden factor was found."""
        return len(self.groups)

    @property
    def mixtures(self) -> tuple[Evidence, ...]:
        """Each group alone, and the extreme mixtures that are no group."""
        return (*self.groups, *(each for each in self.targets if each not in self.groups))

    def paragraphs(self) -> tuple[str, ...]:
        """Say in plain words how good the predictor is, and where it is worst."""
        sources = (
            f"The predictor has {percent(self.source_accuracy)} on the sources (mean over them)"
        )
        lowest = min(self.targets, key=lambda each: each.accuracy_bound)
        bound = f"{at_least(lowest.accuracy_bound)} with {self.confidence:.0%} confidence"
        is_worse = self.worst_source.accuracy < self.accuracy_bound
        worse = f" {describe_worse(self.worst_source, self.accuracy_bound)}" if is_worse else ""
        if self.n_groups == 1:
            return (
                "No hidden factor was found, so nothing is known about how a new domain may "
                f"differ. {sources}, and {bound} in a domain like them pooled.{worse}",
            )
        scope = "in the worst mixture of the groups found"
        if self.prior_shift is not None:
            scope += f", with log-odds at most {self.prior_shift:g} nats from the sources'"
        if self.class_groups:
            scope += ", each class mixed in its own proportion"
        worst = min(self.targets, key=lambda each: each.accuracy)
        if self.targets == self.groups:
            scope += f", which is {worst.name} alone"
        else:
            group = min(self.groups, key=lambda each: each.accuracy)
            worse = (
                f" Of the groups, {group.name} alone is the hardest group, with "
                f"{percent(group.accuracy)}.{worse}"
            )
        said = f"{sources} and {percent(self.accuracy)} {scope}"
        if lowest.name == worst.name:
            return f"{said} ({bound}).{worse}", _EFFECTIVE
        return (
            f"{said} ({at_least(worst.accuracy_bound)}). The lowest bound is that of "
            f"{lowest.name}: {bound}, and so in every mixture.{worse}",
            _EFFECTIVE,
        )

    def table(self) -> Table:
        """Show risk and accuracy in each group, mixture and source."""
        parts = evidence_rows(self.mixtures), evidence_rows(self.sources)
        note = _EFFECTIVE if self.n_groups > 1 else ""
        return Table.from_sections("Each hidden group and source", COLUMNS, *parts, note=note)

    def plot(self, path: str, name: str = "predictor") -> None:
        """Draw accuracy by group and source to the picture ``path`` (needs the extra ``plots``)."""
        from regraft.estimators.plots import plot_group_audit

        plot_group_audit({name: self}, path)


def evidence_rows(evidence: Iterable[Evidence]) -> list[tuple[Cell, ...]]:
    """Return evidence as cells under ``COLUMNS``."""
    return [
        (
            *(each.name, Number(each.rows, format=".0f")),
            *(Number(risk, format=".3f") for risk in (each.risk, each.risk_bound)),
            *(share(each.accuracy), share(each.accuracy_bound)),
        )
        for each in evidence
    ]


@threads_by_size
def audit_groups(
    predictor: Predictor | ArrayLike,
    X: Any,
    y: ArrayLike,
    sample_domain: ArrayLike,
    *,
    prior_shift: float | None = None,
    class_groups: bool = False,
    device: str = "cpu",
) -> GroupAudit:
    """Measure a fixed predictor in each hidden group of the rows, and in their worst mixture.

    The groups follow from ``X``, ``y`` and ``sample_domain`` alone, as :func:`regraft.abduct` finds
    them, so all predictors are audited against the same mixtures. The numbers hold only for rows
    that the predictor was not fitted on: on its training rows it looks better than it is. Where
    they are those of a head of Regraft, a warning says so.

    Parameters
    ----------
    predictor, X, y, sample_domain, device
        As in :func:`regraft.audit`.
    prior_shift, class_groups
        Which mixtures count, as in :class:`~regraft.estimators.cro.CROClassifier`.

    Returns
    -------
    GroupAudit

    Raises
    ------
    ValueError
        If the data or the predictor is not usable; the message says how to fix it.
    """
    # Reports read audits, and need not wait for scikit-learn.
    from regraft.estimators.pipelines import split_rows
    from regraft.estimators.raw_tables import fit_features
    from regraft.estimators.unseen import warn_if_seen

    check_prior_shift(prior_shift)
    predictor, X = split_rows(predictor, X)
    rows = fit_features(X, sample_domain)[1]
    domains = check_domains(rows, y, sample_domain, device=device)
    loss, error = judge_rows(predictor, X, domains)
    warn_if_seen(predictor, X, sample_domain)
    warn_if_one_domain(domains, ONE_SOURCE_CONSEQUENCE)
    found = find_groups(rows_of_domains(domains))
    mixed = (found.posterior, domains.weight, domains.y, len(domains.classes))
    held_out = HeldOutRows(loss, 1 - error)
    told = found.told(domains.y)
    groups = measure_targets(GroupTargets(*mixed, told=told), held_out)
    targets = measure_targets(GroupTargets(*mixed, prior_shift, class_groups, told), held_out)
    order = torch.argsort(domains.domain, stable=True)
    slices = domain_slices(domains.domain[order], len(domains.names))
    by_source = HeldOutRows(held_out.loss[order], held_out.correct[order])
    names = domains.texts
    sources = measure_sources(by_source, slices, names, domains.row_weight[order])
    found_groups = describe_groups(found, domains).to_dict()
    return join_audit(groups, targets, sources, prior_shift, class_groups, found_groups)


def join_audit(
    groups: tuple[Evidence, ...],
    targets: tuple[Evidence, ...],
    sources: tuple[Evidence, ...],
    prior_shift: float | None,
    class_groups: bool,
    abduction: dict[str, Any],
) -> GroupAudit:
    """Return the audit of what was measured in each group, extreme mixture and source."""
    return GroupAudit(
        family="latent",
        risk=max(each.risk for each in targets),
        accuracy=min(each.accuracy for each in targets),
        confidence=CONFIDENCE,
        source_accuracy=sum(each.accuracy for each in sources) / len(sources),
        groups=groups,
        targets=targets,
        sources=sources,
        prior_shift=prior_shift,
        class_groups=class_groups,
        abduction=abduction,
    )
