"""The certificate of a head for every mixture of hidden groups, from sums over all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regraft.core.certificate import MeasuredHead, join_evidence
from regraft.core.evidence import Evidence, HeldOutRows
from regraft.core.group_certificate import GroupCertificate, name_target
from regraft.core.group_targets import GroupTargets, extreme_tilts
from regraft.core.latent_game import judge_folds
from regraft.core.row_evidence import (
    TargetParts,
    evidence_from,
    evidence_sums,
    group_sums,
    share_sums,
    tighten,
)
from regraft.core.row_game import FittedSample, SettledGame
from regraft.core.row_sums import RowSums
from regraft.core.uncertain_groups import ShareParts, cut_by_share


def certify_rows(
    rows: RowSums,
    counts: Tensor,
    sample: FittedSample,
    settled: SettledGame,
    names: Sequence[str],
    abduction: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> GroupCertificate:
    """Collect the evidence for the head that all rows led to, each row judged by an unseen head.

    ``counts`` (K, C) are the rows of each source and class.
    """
    targets = sample.outcome.targets
    alone = replace(targets, prior_shift=None)
    in_targets, in_sources = _measure(rows, sample, settled, targets, names)
    in_groups = in_targets
    if targets.prior_shift is not None:
        in_groups, _ = _measure(rows, sample, settled, alone, names)
    heads = [
        MeasuredHead(own, sources, sum(each.accuracy for each in sources) / len(sources))
        for own, sources in zip(in_targets, in_sources, strict=True)
    ]
    shared = join_evidence(
        heads[0],
        heads[-1],
        notes=notes,
        sources_have_bounds=False,  # they are mixtures, which the bounds cover
        reason=settled.reason,
        advantage=settled.advantage,
        game=settled.game,
        source_rows=tuple(counts.sum(dim=1).tolist()),
    )
    return GroupCertificate(
        family="latent",
        n_groups=sample.groups.n_groups,
        prior_shift=targets.prior_shift,
        class_groups=False,
        price=settled.price,
        ridge=sample.outcome.ridge,
        abduction=abduction,
        groups=in_groups[0],
        pooled_groups=in_groups[-1],
        **shared,
    )


_ByHead = list[tuple[Evidence, ...]]


def _measure(
    rows: RowSums,
    sample: FittedSample,
    settled: SettledGame,
    targets: GroupTargets,
    names: Sequence[str],
) -> tuple[_ByHead, _ByHead]:
    """Return the evidence of each head in the extreme targets, and in the sources."""
    frame, heads = settled.frame, settled.frame.spread(settled.folds)
    tilts = extreme_tilts(sample.groups.n_groups, targets.prior_shift)
    tilted = replace(settled.weights, tilts=tilts)
    masses, right, _, _ = rows.sum(group_sums, frame, tilted, settled.folds.shape[1])
    mass = masses.sum(dim=0)
    vertices = replace(tilted, tilts=tilts / mass.unsqueeze(1))
    sums = rows.sum(evidence_sums, frame, heads, vertices)
    purity, together = (right / mass).tolist(), len(tilts)
    found = [
        [
            evidence_from(
                sums, v, h, name_target(favoured, targets), together=together, purity=purity[v]
            )
            for v, favoured in enumerate(targets.favoured)
        ]
        for h in range(len(heads))
    ]
    if targets.least_factor != 1:
        parts = _cut_sample(sample, settled, targets)
        shares = rows.sum(share_sums, frame, heads, tilted, parts, targets.least_factor)
        for h, own in enumerate(found):
            for v, each in enumerate(own):
                pure = evidence_from(sums, v, h, "", together=together)
                own[v] = tighten(each, shares, v, h, together=together, pure=pure)
    sources = [
        tuple(evidence_from(sums, len(tilts) + s, h, name) for s, name in enumerate(names))
        for h in range(len(heads))
    ]
    return [tuple(own) for own in found], sources


def _cut_sample(
    sample: FittedSample, settled: SettledGame, targets: GroupTargets
) -> tuple[TargetParts, ...]:
    """Cut the rows of the sample by their shares in each target; see :class:`ShareParts`."""
    judged = [judge_folds(sample.sources, folds) for folds in settled.folds]

    def cut(value: Tensor, share: Tensor) -> ShareParts:
        where = targets.base, targets.y, targets.n_classes
        return cut_by_share(value, share, *where, least=targets.least_factor)

    def parts(share: Tensor, rows: list[HeldOutRows]) -> TargetParts:
        return TargetParts(
            loss=tuple(cut(each.loss, share) for each in rows),
            error=tuple(cut(1 - each.correct, share) for each in rows),
        )

    return tuple(parts(share, judged) for share in torch.unbind(targets.shares, dim=1))
