"""What heads do in every mixture of hidden groups, from sums over all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regraft.core.certificate import MeasuredHead, join_evidence
from regraft.core.evidence import Evidence, HeldOutRows
from regraft.core.group_certificate import GroupCertificate
from regraft.core.group_evidence import name_target
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
from regraft.core.row_risks import RowFrame, RowWeights
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
    judged = [judge_folds(sample.sources, folds) for folds in settled.folds]
    where = rows, settled.frame, settled.frame.spread(settled.folds), settled.weights
    in_targets, in_sources = measure_rows(*where, targets, judged, names)
    in_groups = in_targets
    if targets.prior_shift is not None:
        in_groups, _ = measure_rows(*where, alone, judged, names)
    heads = [
        MeasuredHead(own, sources, sum(each.accuracy for each in sources) / len(sources))
        for own, sources in zip(in_targets, in_sources, strict=True)
    ]
    shared = join_evidence(
        heads[0],
        heads[-1],
        notes=notes,
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


def measure_rows(
    rows: RowSums,
    frame: RowFrame,
    heads: Tensor,
    weights: RowWeights,
    targets: GroupTargets,
    judged: Sequence[HeldOutRows],
    names: Sequence[str],
    most: float = math.inf,
) -> tuple[_ByHead, _ByHead]:
    """Return the evidence of each head in the extreme targets, and in the sources.

    ``heads`` (H, F, C, d + 1) have not seen the rows of their folds. ``targets`` are mixtures of a
    sample of the rows, which each head has ``judged``. No loss counts for more than ``most``.
    """
    tilts = extreme_tilts(targets.belief.shape[1], targets.prior_shift)
    tilted = replace(weights, tilts=tilts)
    masses, right, _, _ = rows.sum(group_sums, frame, tilted, heads.shape[1])
    mass = masses.sum(dim=0)
    vertices = replace(tilted, tilts=tilts / mass.unsqueeze(1))
    sums = rows.sum(evidence_sums, frame, heads, vertices, most)
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
        parts = _cut_sample(targets, judged)
        shares = rows.sum(share_sums, frame, heads, tilted, parts, targets.least_factor, most)
        for h, own in enumerate(found):
            for v, each in enumerate(own):
                pure = evidence_from(sums, v, h, "", together=together)
                own[v] = tighten(each, shares, v, h, together=together, pure=pure)
    sources = [
        tuple(evidence_from(sums, len(tilts) + s, h, name) for s, name in enumerate(names))
        for h in range(len(heads))
    ]
    return [tuple(own) for own in found], sources


def _cut_sample(targets: GroupTargets, judged: Sequence[HeldOutRows]) -> tuple[TargetParts, ...]:
    """Cut the rows of the sample by their shares in each target; see :class:`ShareParts`."""

    def cut(value: Tensor, share: Tensor) -> ShareParts:
        where = targets.base, targets.y, targets.n_classes
        return cut_by_share(value, share, *where, least=targets.least_factor)

    return tuple(
        TargetParts(
            loss=tuple(cut(each.loss, share) for each in judged),
            error=tuple(cut(1 - each.correct, share) for each in judged),
        )
        for share in torch.unbind(targets.shares, dim=1)
    )
