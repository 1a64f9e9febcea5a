"""Section 5.4 from end to end: records, features, premises, and CRO on an unseen panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.domains import check_domains, equal_domain_weights
from regraft.core.head_certificate import HeadCertificate
from regraft.encoders.base import TextEncoder
from regraft.estimators.audit import AuditCurve, audit
from regraft.estimators.baselines import ERMClassifier
from regraft.estimators.cro import CROClassifier
from regraft.moral.process import DrawnRecords, draw_records
from regraft.moral.scenarios import Library
from regraft.moral.values import PANELS, PROFILES, Panel, profile_name
from regraft.premises.abduction_angles import describe_angles
from regraft.premises.diagnose import Diagnosis, diagnose
from regraft.premises.factorization import (
    GroupedRows,
    choose_penalties,
    fit_factorization,
    group_rows,
)
from regraft.premises.factorization_closure import FactorizationClosure as Closure
from regraft.premises.factorization_closure import check_factorization_closure, unit_folds
from regraft.premises.grouped_audit import (
    AbductionPlacement,
    GroupedAudit,
    audit_abductions,
    place_abduction,
    span_abductions,
)
from regraft.premises.multinomial_maps import OutcomeData, choose_penalty, fit_map
from regraft.premises.placement import Placement, place_domain
from regraft.support.progress import OnProgress, ignore_progress

FEW_RECORDS = 2000  # of each panel, at which the angles are measured again
BETWEEN = (0.5, 0.5)  # weights of the first two panels in one that is plausible by construction
Probabilities = NDArray[np.float64]
_PROFILE_NAMES = [profile_name(profile) for profile in PROFILES]


@dataclass(frozen=True)
class HeadRow:
    """One head on the panels it was fitted on and on the unseen one, on fresh records."""

    name: str
    source_accuracy: float  # mean over the panels fitted on
    target_accuracy: float
    source_risk: float  # cross-entropy, nats
    target_risk: float


@dataclass(frozen=True)
class TargetRow:
    """CRO on one unseen panel, and where that panel lies among the plausible targets."""

    panel: str
    risk: float  # true cross-entropy of CRO there, by fresh records
    risk_error: float  # its standard error
    placement: Placement  # among heads, which is all that can be seen without U
    abduction: AbductionPlacement  # among abductions, which U shows
    is_plausible: bool  # by construction: whether its log prior is in the hull of the sources'


@dataclass(frozen=True)
class Transfer:
    """Heads fitted on two panels and tested on others, and whether the certificates held."""

    sources: tuple[str, ...]
    target: str
    radius: float
    heads: tuple[HeadRow, ...]  # ERM, then CRO
    certificate: HeadCertificate  # of CRO, over the hull of the source heads
    audit: GroupedAudit  # of CRO, over the hull of the source abductions, and over any prior
    targets: tuple[TargetRow, ...]
    curves: dict[str, AuditCurve]

    def sentences(self) -> tuple[str, ...]:
        """Say which bounds the true risk on each panel keeps."""
        bounds = {
            "the certificate (hull of heads)": self.certificate.risk,
            "the worst abduction (U observed)": self.audit.worst_case,
            f"any mix of the {self.audit.n_groups} profiles met": self.audit.any_prior,
        }
        words = []
        for row in self.targets:
            kept = [
                f"{'under' if row.risk <= bound else 'OVER'} that of {name}, {bound:.3f}"
                for name, bound in bounds.items()
            ]
            inside = "inside" if row.is_plausible else "outside"
            words.append(
                f"{row.panel}: {inside} the hull of the sources' log priors; CRO's true "
                f"risk there, {row.risk:.3f} ± {row.risk_error:.3f} nats, is {'; '.join(kept)}."
            )
        return tuple(words)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dictionaries."""
        return asdict(self) | {"sentences": list(self.sentences())}


@dataclass(frozen=True)
class MoralResult:
    """Everything that ``regraft moral run`` measures."""

    mechanism: str  # what made the labels, plainly
    origin: str  # of the scenarios
    checksum: str  # of what the scenarios say
    encoder: str
    records: int  # of each panel
    seed: int
    diagnosis: Diagnosis
    new_scenarios: Closure  # the same closure on scenarios that no map has seen
    median_angles: dict[int, float]  # by records of each panel, in degrees
    transfer: Transfer

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dictionaries."""
        return {
            "labels": self.mechanism,
            "scenarios": self.origin,
            "scenarios_sha256": self.checksum,
            "encoder": self.encoder,
            "records": self.records,
            "seed": self.seed,
            "diagnosis": self.diagnosis.to_dict(),
            "new_scenarios": self.new_scenarios.to_dict(),
            "median_angles": {str(n): angle for n, angle in self.median_angles.items()},
            "transfer": self.transfer.to_dict(),
        }


def run_moral(
    library: Library,
    probabilities: Probabilities,
    mechanism: str,
    encoder: TextEncoder,
    *,
    records: int = 14_000,
    radius: float = 8.0,
    seed: int = 0,
    device: str = "cpu",
    on_progress: OnProgress = ignore_progress,
) -> tuple[MoralResult, DrawnRecords]:
    """Draw ``records`` of each panel, embed their scenarios, check the premises, and transfer.

    ``probabilities`` (n, 27) are those of action 1, made by ``mechanism``.
    """
    on_progress(f"embedding {len(library.texts)} scenarios with {encoder.name}")
    features = encoder.encode(library.texts).astype(np.float64)
    features = features[:, np.ptp(features, axis=0) > 0]  # n-grams that no scenario has

    def draw(panels: Sequence[Panel], seed: int) -> tuple[Sample, DrawnRecords]:
        drawn = draw_records(library, probabilities, records, seed=seed, panels=panels)
        names = np.array(drawn.names)[drawn.panel]
        return Sample(features[drawn.scenario], drawn.y, names, drawn.profile), drawn

    sample, drawn = draw(PANELS, seed)
    groups = np.array(_PROFILE_NAMES)[sample.profile]
    diagnosis = diagnose(
        sample.X, sample.y, sample.panel, groups, seed=seed, device=device, on_progress=on_progress
    )
    on_progress("predicting scenarios that no map has seen")
    closure = _new_scenarios(sample, drawn.scenario, seed, device)
    angles = {records: diagnosis.angles.median}
    if records > FEW_RECORDS:
        on_progress(f"comparing abductions of {FEW_RECORDS} records a panel")
        few = np.arange(len(sample.y)) % records < FEW_RECORDS  # panels follow each other
        angles[FEW_RECORDS] = _median_angle(sample.take(few), seed, device)
    transfer = _transfer(draw, radius, seed, device, on_progress)
    result = MoralResult(
        mechanism=mechanism,
        origin=library.origin,
        checksum=library.checksum,
        encoder=encoder.name,
        records=records,
        seed=seed,
        diagnosis=diagnosis,
        new_scenarios=closure,
        median_angles=dict(sorted(angles.items())),
        transfer=transfer,
    )
    return result, drawn


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
        return rows, [str(name) for name in domains.names]


def _new_scenarios(sample: Sample, scenario: NDArray[np.int64], seed: int, device: str) -> Closure:
    """Check the closure with folds of whole scenarios."""
    rows, names = sample.grouped(seed, device)
    unit = torch.from_numpy(scenario).to(device)[rows.order]
    penalties = choose_penalties(rows, unit_folds(rows, unit) == 0)
    return check_factorization_closure(rows, penalties, names=names, unit=unit)


def _median_angle(sample: Sample, seed: int, device: str) -> float:
    """Measure the median principal angle between the panels' abductions, in degrees."""
    rows, names = sample.grouped(seed, device)
    maps = fit_factorization(rows, choose_penalties(rows)).in_features(rows.whitening)
    return describe_angles(maps.abductions, names).median


def _transfer(
    draw: Callable[[Sequence[Panel], int], tuple[Sample, DrawnRecords]],
    radius: float,
    seed: int,
    device: str,
    on_progress: OnProgress,
) -> Transfer:
    """Fit on all panels but the last; measure and audit on fresh records."""
    *known, unseen = PANELS
    between = mix_panels(known, BETWEEN)
    (train, _), (fresh, _) = draw(known, seed), draw(known, seed + 1)
    on_progress(f"fitting ERM and CRO without the {unseen.name} panel")
    erm = ERMClassifier().fit(train.X, train.y, train.panel)
    cro = CROClassifier("hull", radius=radius, device=device).fit(train.X, train.y, train.panel)
    assert isinstance(cro.certificate_, HeadCertificate)  # of the hull
    targets = {panel.name: draw([panel], seed + 1)[0] for panel in (unseen, between)}
    on_progress("auditing them")
    rows, curves = [], {}
    for name, head in (("ERM", erm), ("CRO", cro)):
        rows.append(_head_row(name, head, fresh, targets[unseen.name]))
        curves[name] = audit(head, fresh.X, fresh.y, fresh.panel, device=device)
    on_progress("placing the unseen panels among the plausible ones")
    abductions = _Abductions(train, device)
    domains = check_domains(train.X, train.y, train.panel, device=device)
    placed = []
    for name, sample in targets.items():
        loss = _losses(cro, sample)
        placed.append(
            TargetRow(
                panel=name,
                risk=float(loss.mean()),
                risk_error=float(loss.std() / len(loss) ** 0.5),
                placement=place_domain(domains, sample.X, sample.y, seed=seed),
                abduction=abductions.place(sample),
                is_plausible=name == between.name,
            )
        )
    return Transfer(
        sources=tuple(panel.name for panel in known),
        target=unseen.name,
        radius=radius,
        heads=tuple(rows),
        certificate=cro.certificate_,
        audit=abductions.audit(_losses(cro, fresh), fresh, radius),
        targets=tuple(placed),
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
            groups=_PROFILE_NAMES,
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


def _losses(head: Any, sample: Sample) -> NDArray[np.float64]:
    """Compute the cross-entropy (n,) of each record."""
    p: NDArray[np.float64] = head.predict_proba(sample.X)
    return -np.log(p[np.arange(len(sample.y)), sample.y])
