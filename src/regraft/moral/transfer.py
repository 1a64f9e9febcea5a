"""Heads fitted without one panel: their risk there, and which bounds it keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.certificate import Certificate
from regraft.core.domains import check_domains, equal_domain_weights
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate
from regraft.estimators.audit import AuditCurve, audit
from regraft.estimators.baselines import ERMClassifier
from regraft.estimators.cro import CROClassifier
from regraft.moral.values import PANELS, PROFILES, Panel, profile_name
from regraft.premises.factorization import GroupedRows, group_rows
from regraft.premises.grouped_audit import (
    AbductionPlacement,
    GroupedAudit,
    audit_abductions,
    place_abduction,
    span_abductions,
)
from regraft.premises.multinomial_maps import OutcomeData, choose_penalty, fit_map
from regraft.premises.placement import HullPlacement, place_domain
from regraft.support.progress import OnProgress

BETWEEN = (0.5, 0.5)  # weights of the first two panels in one that is plausible by construction
CLEAR_ERRORS = 3.0  # standard errors by which a risk is above another beyond doubt
HULL, LATENT = "CRO, hull", "CRO, latent"


@dataclass(frozen=True)
class Sample:
    """Records of some panels, with their features."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    panel: NDArray[np.str_]
    profile: NDArray[np.int64]

    def take(self, rows: NDArray[np.bool_]) -> Sample:
        """Select some of the records."""
        return Sample(self.X[rows], self.y[rows], self.panel[rows], self.profile[rows])

    def grouped(self, seed: int, device: str) -> tuple[GroupedRows, list[str]]:
        """Whiten the records; also return the names of the panels in the order used there."""
        domains = check_domains(self.X, self.y, self.panel, device=device)
        profile = torch.from_numpy(self.profile).to(device)
        rows = group_rows(domains, profile, len(PROFILES), seed=seed)
        return rows, domains.texts


@dataclass(frozen=True)
class HeadRow:
    """One head on the panels it was fitted on and on the unseen one, on fresh records."""

    name: str
    source_accuracy: float  # mean over the panels fitted on
    target_accuracy: float
    source_risk: float  # cross-entropy, nats
    target_risk: float


@dataclass(frozen=True)
class BoundedHead:
    """One of CRO's heads, with what bounds its risk in panels that nobody has seen."""

    certificate: Certificate  # over the plausible targets of its family
    audit: GroupedAudit  # over the hull of the source abductions, and over any prior

    def bounds(self) -> dict[str, float]:
        """Return each bound of the risk by its name, in nats."""
        return {
            "its certificate": self.certificate.risk_bound,
            "the worst abduction (U observed)": self.audit.worst_case,
            f"any mix of the {self.audit.n_groups} profiles met": self.audit.any_prior,
        }


@dataclass(frozen=True)
class MeanLoss:
    """Cross-entropy of a head on fresh records, in nats."""

    risk: float
    error: float  # standard error


@dataclass(frozen=True)
class TargetRow:
    """CRO's heads on one unseen panel, and where that panel lies among the plausible targets."""

    panel: str
    risks: dict[str, MeanLoss]  # by head
    placement: HullPlacement  # among heads, which is all that can be seen without U
    abduction: AbductionPlacement  # among abductions, which U shows
    is_plausible: bool  # by construction: whether its log prior is in the hull of the sources'


@dataclass(frozen=True)
class Transfer:
    """Heads fitted on two panels and tested on others, and whether the certificates held."""

    sources: tuple[str, ...]
    target: str
    radius: float
    heads: tuple[HeadRow, ...]  # ERM, then CRO's
    bounded: dict[str, BoundedHead]  # CRO's heads by name
    targets: tuple[TargetRow, ...]
    curves: dict[str, AuditCurve]

    def sentences(self) -> tuple[str, ...]:
        """Say which bounds the true risks on each panel keep, and what the groups found can say."""
        words = []
        for row in self.targets:
            inside = "inside" if row.is_plausible else "outside"
            words.append(f"{row.panel} is {inside} the hull of the sources' log priors.")
            for name, found in row.risks.items():
                kept = [
                    f"{'under' if found.risk <= bound else 'OVER'} that of {what}, {bound:.3f}"
                    for what, bound in self.bounded[name].bounds().items()
                ]
                words.append(
                    f"{row.panel}: the true risk of {name}, {found.risk:.3f} ± {found.error:.3f} "
                    f"nats, is {'; '.join(kept)}."
                )
        return (*words, *self._group_sentences())

    def _group_sentences(self) -> tuple[str, ...]:
        """Say what the certificate over groups stands on, and which panels they do not make up."""
        words = []
        for name, bounded in self.bounded.items():
            certificate = bounded.certificate
            if not isinstance(certificate, GroupCertificate):
                continue
            if certificate.n_groups == 1:
                words.append(f"{name} found no hidden factor: it certifies the pooled sources.")
                continue
            targets = certificate.targets
            largest, purity = max(t.risk for t in targets), min(t.purity for t in targets)
            fewest, coin = min(t.rows for t in targets), float(np.log(2))
            bound = certificate.risk_bound
            less = f", more than the {coin:.3f} of a coin" * (bound > coin)
            words.append(
                f"{name} found {certificate.n_groups} groups, of at least {fewest:.0f} effective "
                f"records each. The largest risk measured in one is {largest:.3f} nats. Its "
                f"certificate, {bound:.3f}{less}, allows for records that may be of "
                f"another group: as little as {purity:.0%} of a group's weight lies on its own."
            )
            words += [
                f"{row.panel} is no mixture of the groups as they were measured: its risk is above "
                f"that of each by more than {CLEAR_ERRORS:g} standard errors."
                for row in self.targets
                if row.risks[name].risk - CLEAR_ERRORS * row.risks[name].error > largest
            ]
        return tuple(words)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dictionaries."""
        return asdict(self) | {"sentences": list(self.sentences())}


def measure_transfer(
    draw: Callable[[Sequence[Panel], int], Sample],
    radius: float | None,
    seed: int,
    device: str,
    on_progress: OnProgress,
) -> Transfer:
    """Fit on all panels but the last; measure and audit on fresh records, which ``draw`` gives."""
    *known, unseen = PANELS
    between = mix_panels(known, BETWEEN)
    train, fresh = draw(known, seed), draw(known, seed + 1)
    on_progress(f"fitting ERM and CRO without the {unseen.name} panel")
    robust = {
        HULL: CROClassifier("hull", radius=radius, device=device),
        LATENT: CROClassifier("latent", device=device),
    }
    heads: dict[str, Any] = {"ERM": ERMClassifier(), **robust}
    for head in heads.values():
        head.fit(train.X, train.y, train.panel)
    certificate = robust[HULL].certificate_
    assert isinstance(certificate, HeadCertificate) and certificate.radius is not None
    reach = certificate.radius
    targets = {panel.name: draw([panel], seed + 1) for panel in (unseen, between)}
    on_progress("auditing them")
    curves = {
        name: audit(head, fresh.X, fresh.y, fresh.panel, device=device)
        for name, head in heads.items()
    }
    abductions = _Abductions(train, device)
    bounded = {
        name: BoundedHead(head.certificate_, abductions.audit(_losses(head, fresh), fresh, reach))
        for name, head in robust.items()
    }
    on_progress("placing the unseen panels among the plausible ones")
    domains = check_domains(train.X, train.y, train.panel, device=device)
    placed = tuple(
        TargetRow(
            panel=name,
            risks={head: _mean_loss(robust[head], sample) for head in robust},
            placement=place_domain(domains, sample.X, sample.y, seed=seed),
            abduction=abductions.place(sample),
            is_plausible=name == between.name,
        )
        for name, sample in targets.items()
    )
    return Transfer(
        sources=tuple(panel.name for panel in known),
        target=unseen.name,
        radius=reach,
        heads=tuple(_head_row(n, head, fresh, targets[unseen.name]) for n, head in heads.items()),
        bounded=bounded,
        targets=placed,
        curves=curves,
    )


class _Abductions:
    """The abductions of the panels that the heads were fitted on, and their span."""

    def __init__(self, sample: Sample, device: str) -> None:
        self._rows, self._names = sample.grouped(0, device)
        self._penalty = choose_penalty(self._rows.groups_by_domain())
        maps = [fit_map(data, self._penalty) for data in self._rows.groups_by_domain()]
        self._weight = equal_domain_weights(self._rows.domain, len(self._names))
        stacked = torch.stack(maps).mT
        self._spanned = span_abductions(
            stacked, self._rows.Z, self._rows.domain, self._weight, self._penalty
        )

    def place(self, sample: Sample) -> AbductionPlacement:
        """Measure where the abduction of ``sample`` lies among those of the panels."""
        own = OutcomeData(self._whiten(sample), self._groups(sample), len(PROFILES))
        fitted = fit_map(own, self._penalty).T
        return place_abduction(self._spanned.hull, fitted, self._rows.Z, self._weight)

    def audit(self, loss: NDArray[np.float64], sample: Sample, radius: float) -> GroupedAudit:
        """Find the worst case of ``loss`` (n,) within ``radius``."""
        Z = self._whiten(sample)
        _, panel = np.unique(sample.panel, return_inverse=True)
        weight = equal_domain_weights(torch.from_numpy(panel), len(self._names)).to(Z)
        return audit_abductions(
            self._spanned,
            torch.from_numpy(loss).to(Z),
            Z,
            self._groups(sample),
            weight,
            radius,
            names=self._names,
            groups=[profile_name(profile) for profile in PROFILES],
        )

    def _whiten(self, sample: Sample) -> Tensor:
        return self._rows.whitening(torch.from_numpy(sample.X).to(self._rows.Z.device))

    def _groups(self, sample: Sample) -> Tensor:
        return torch.from_numpy(sample.profile).to(self._rows.Z.device)


def mix_panels(panels: Sequence[Panel], weights: Sequence[float]) -> Panel:
    """Make the panel whose log prior is an affine combination of these panels' log priors."""
    priors = np.log([panel.prior for panel in panels])  # (panels, axes, poles)
    mixed = np.exp(np.tensordot(weights, priors, axes=1))
    mixed /= mixed.sum(axis=1, keepdims=True)
    parts = (f"{w:g} {panel.name}" for w, panel in zip(weights, panels, strict=True))
    name = f"log prior {' + '.join(parts)}"
    conseq, indv, care = (tuple(axis) for axis in mixed.tolist())
    return Panel(name, (conseq, indv, care))


def _head_row(name: str, head: Any, known: Sample, unseen: Sample) -> HeadRow:
    """Measure one head on known and unseen panels."""
    accuracy = [float((head.predict(s.X) == s.y).mean()) for s in (known, unseen)]
    risk = [float(_losses(head, s).mean()) for s in (known, unseen)]
    return HeadRow(name, *accuracy, *risk)


def _mean_loss(head: Any, sample: Sample) -> MeanLoss:
    loss = _losses(head, sample)
    return MeanLoss(float(loss.mean()), float(loss.std() / len(loss) ** 0.5))


def _losses(head: Any, sample: Sample) -> NDArray[np.float64]:
    """Compute the cross-entropy (n,) of each record."""
    p: NDArray[np.float64] = head.predict_proba(sample.X)
    return -np.log(p[np.arange(len(sample.y)), sample.y])
