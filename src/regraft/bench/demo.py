"""Demonstration: heads on Colored MNIST embeddings, and a domain that none of them saw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from regraft.core.domains import check_domains
from regraft.core.game import OnRound
from regraft.core.group_certificate import GroupCertificate
from regraft.core.heads import fit_source_heads
from regraft.data.examples import DemoBank, load_demo, load_demo_pixels
from regraft.estimators.abduction import abduct
from regraft.estimators.abduction_ends import EndRow, abduction_document, find_ends
from regraft.estimators.baselines import (
    ERMClassifier,
    GroupDROClassifier,
    IRMClassifier,
    VRExClassifier,
)
from regraft.estimators.compared_heads import on_cpu
from regraft.estimators.cro import CROClassifier
from regraft.estimators.group_audit import GroupAudit, audit_groups
from regraft.estimators.placing import Placement, place
from regraft.support.plain_data import PlainData
from regraft.support.progress import OnProgress, ignore_progress
from regraft.support.table import percent
from regraft.support.thumbnails import encode_png

CEILING = "probe told the colour (ceiling)"
AUDITED = ("ERM", "GroupDRO", "CRO")
_HELD_OUT_SHARE = 0.2
_SHOWN_ROWS = 6  # of each class, at either end of the hidden factor


@dataclass(frozen=True)
class DemoRow:
    """Accuracy of one head on held-out source rows and on the unseen domain."""

    name: str
    source_accuracy: float  # mean over the sources
    target_accuracy: float
    by_source: dict[str, float]


@dataclass(frozen=True)
class DemoResult(PlainData):
    """Measurements of the demonstration."""

    sources: tuple[str, ...]
    target: str  # the unseen domain
    rows: tuple[DemoRow, ...]  # ERM first, CRO last
    ceiling: DemoRow  # trained with the colour, which no head above knows
    certificate: GroupCertificate  # of the CRO head
    audits: dict[str, GroupAudit]  # of the heads AUDITED, on the held-out rows
    abduction: dict[str, Any]  # the hidden factor of the sources, with pictures at both ends
    placement: Placement  # of the unseen domain, by its rows without labels
    rows_measured: dict[str, int]  # by domain

    def verdict(self) -> str:
        """Compare ERM and CRO in the unseen domain, then in the worst mixture of the groups."""
        erm, cro = self.rows[0], self.rows[-1]
        ends = [f"{name} {percent(audit.accuracy)}" for name, audit in self.audits.items()]
        return (
            f"From the seen domains to the unseen one, ERM goes from "
            f"{percent(erm.source_accuracy)} to {percent(erm.target_accuracy)}, CRO from "
            f"{percent(cro.source_accuracy)} to {percent(cro.target_accuracy)}. Audited in the "
            f"hardest mixture of the groups found, on held-out rows: {', '.join(ends)}."
        )


def describe_demo(cell: str = "-90%") -> str:
    """Describe the data, and what makes the unseen domain hard, in plain words."""
    bank = load_demo(cell)
    agrees = bank.colour == bank.y
    sources = " and ".join(
        f"{agrees[bank.sample_domain == name].mean():.0%} of the images of {name}"
        for name in np.unique(bank.sample_domain)
    )
    target = (bank.colour_target == bank.y_target).mean()
    return (
        "Colored MNIST: tell digits 0-4 from 5-9, with a quarter of the labels wrong, so that "
        "shape alone reaches 75% at best. The heads train on two domains, in which the colour "
        f"agrees with the label for {sources}; the unseen domain, {bank.target}, has {target:.0%}."
    )


def run_demo(
    cell: str = "-90%",
    *,
    seed: int = 0,
    device: str = "cpu",
    on_progress: OnProgress = ignore_progress,
    on_round: OnRound = None,
) -> DemoResult:
    """Fit all heads on four fifths of the source rows, and measure them where they did not train.

    All heads share the source heads. ``seed`` chooses the fifth, ``device`` is CRO's and
    the audits'. ``on_progress`` is called with a description of each step before it starts,
    ``on_round`` with each round of CRO's game.
    """
    bank = load_demo(cell)
    test = _held_out(bank.sample_domain, seed)
    X, y, domain = bank.X[~test], bank.y[~test], bank.sample_domain[~test]

    def measure(name: str, model: Any) -> DemoRow:
        correct = model.predict(bank.X[test]) == bank.y[test]
        seen = bank.sample_domain[test]
        source = {str(name): float(correct[seen == name].mean()) for name in np.unique(seen)}
        target = float((model.predict(bank.X_target) == bank.y_target).mean())
        return DemoRow(name, float(np.mean([*source.values()])), target, source)

    heads: dict[str, Any] = {
        "ERM": ERMClassifier(),
        "GroupDRO": GroupDROClassifier(),
        "V-REx": VRExClassifier(),
        "IRM": IRMClassifier(),
    }
    domains = check_domains(X, y, domain, device=device)
    sources = fit_source_heads(domains)
    for name, head in heads.items():
        on_progress(f"fitting {name}")
        head.fit_sources(domains, on_cpu(sources))
    on_progress("fitting CRO")
    cro = CROClassifier(device=device).fit_sources(domains, sources, on_round=on_round)
    heads["CRO"] = cro
    audits = {}
    for name in AUDITED:
        on_progress(f"auditing {name}")
        rows = bank.X[test], bank.y[test], bank.sample_domain[test]
        audits[name] = audit_groups(heads[name], *rows, device=device)
    certificate = cro.certificate_
    assert isinstance(certificate, GroupCertificate)
    return DemoResult(
        sources=tuple(str(name) for name in cro.domains_),
        target=bank.target,
        rows=tuple(measure(name, head) for name, head in heads.items()),
        ceiling=measure(CEILING, _fit_ceiling(bank, ~test)),
        certificate=certificate,
        audits=audits,
        abduction=_abduct(bank, cell, device),
        placement=place(cro, bank.X_target),
        rows_measured=_count(bank.sample_domain[test]) | {bank.target: len(bank.y_target)},
    )


def _count(domain: NDArray[Any]) -> dict[str, int]:
    names, counts = np.unique(domain, return_counts=True)
    return dict(zip(map(str, names), counts.tolist(), strict=True))


def _held_out(domain: NDArray[Any], seed: int) -> NDArray[np.bool_]:
    """Return a mask (n,) of a random fifth of the rows of each domain, reproducible by seed."""
    random = np.random.default_rng(seed)
    mask = np.zeros(len(domain), bool)
    for name in np.unique(domain):
        rows = np.flatnonzero(domain == name)
        mask[random.permutation(rows)[: round(_HELD_OUT_SHARE * len(rows))]] = True
    return mask


def _abduct(bank: DemoBank, cell: str, device: str) -> dict[str, Any]:
    """Find the hidden factor, and the surest of those rows whose images are shipped."""
    found = abduct(bank.X, bank.y, bank.sample_domain, device=device)
    pixels = load_demo_pixels(cell)
    images = dict(zip(pixels.row.tolist(), pixels.images, strict=True))
    pictured = np.zeros(len(bank.y), bool)
    pictured[pixels.row] = True
    ends = find_ends(found, bank.y, bank.sample_domain, _SHOWN_ROWS, pictured)

    def add_picture(row: EndRow) -> EndRow:
        return replace(row, picture=encode_png(images[row.number - 1]))

    return abduction_document(found, [each.change_rows(add_picture) for each in ends])


def _fit_ceiling(bank: DemoBank, train: NDArray[np.bool_]) -> Any:
    """Fit a probe on rows reweighted so that colour says nothing about the label."""
    X, y = bank.X[train], bank.y[train]
    group = 2 * bank.colour[train] + y
    weight = 1.0 / np.bincount(group)[group]
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return probe.fit(X, y, logisticregression__sample_weight=weight / weight.mean())
