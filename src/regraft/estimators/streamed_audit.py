"""Audits of a linear head on all rows of a table that is never in memory."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from regraft.core.abduction import find_groups, rows_of_domains
from regraft.core.domains import check_domains, warn_if_one_domain
from regraft.core.evidence import HeldOutRows
from regraft.core.group_targets import GroupTargets, check_prior_shift
from regraft.core.row_certificate import measure_rows
from regraft.core.row_evidence import group_sums, make_weights
from regraft.core.row_risks import RowBeliefs, RowFrame
from regraft.core.row_sums import RowFolds, RowSums
from regraft.estimators.abduction import describe_groups
from regraft.estimators.audit import PROBABILITY_FLOOR, find_columns, judge_rows
from regraft.estimators.group_audit import ONE_SOURCE_CONSEQUENCE, GroupAudit, join_audit
from regraft.estimators.linear import LinearHead, SoftmaxHead
from regraft.estimators.streamed import SampledRows
from regraft.estimators.unseen import remembers


def audit_rows(
    head: SoftmaxHead,
    sample: SampledRows,
    rows: RowSums,
    counts: NDArray[np.int64],
    *,
    prior_shift: float | None = None,
) -> GroupAudit:
    """Measure a head on all ``rows`` as ``audit_groups`` does, of which ``sample`` is in memory.

    The sample decides the groups, and all rows what the head does in them. ``counts`` (K, C) are
    the rows of each source and class, both in sorted order.
    """
    check_prior_shift(prior_shift)
    if not isinstance(head, LinearHead):
        raise ValueError(
            f"{type(head).__name__} is no linear head, which an engine needs: leave out the engine."
        )
    domains = check_domains(sample.X, sample.y, sample.domain)
    loss, error = judge_rows(head, sample.X, domains)
    warn_if_one_domain(domains, ONE_SOURCE_CONSEQUENCE)
    found = find_groups(rows_of_domains(domains))
    mean = domains.weight @ domains.X.to(domains.weight)
    frame = RowFrame(mean, torch.eye(len(mean) + 1, dtype=mean.dtype))
    columns, n_columns = find_columns(head, domains)
    order = [*columns.tolist(), *(i for i in range(n_columns) if i not in columns)]
    heads = torch.from_numpy(head._head[order])
    heads[:, -1] += heads[:, :-1] @ mean
    beliefs = RowBeliefs.of(found.models, found.tells, frame)
    weights = make_weights(
        beliefs, torch.from_numpy(counts), torch.ones(1, found.n_groups).double()
    )
    folds = found.fold.numpy().astype(np.uint8)
    n_group = 1 if found.models is None else len(found.models.weights)
    dealt = rows.with_folds(RowFolds(sample.numbers, np.zeros_like(folds), folds, 1, n_group))
    group_rows = dealt.sum(group_sums, frame, weights, 1)[3]
    if remembers(head, (mean + group_rows[:, :-1].sum(dim=0)).numpy(), sample.X):
        warnings.warn(
            "the model was fitted on these very rows, where it looks better than it is: its "
            "certificate measures it on rows held out; audit other rows.",
            stacklevel=2,
        )
    targets = GroupTargets(
        *(found.posterior, domains.weight, domains.y, len(domains.classes)),
        prior_shift=prior_shift,
        told=found.told(domains.y),
    )
    judged = [HeldOutRows(loss, 1 - error)]
    names, most = domains.texts, -math.log(PROBABILITY_FLOOR)
    where = dealt, frame, heads[None, None], weights
    [mixtures], [sources] = measure_rows(*where, targets, judged, names, most)
    groups = mixtures
    if prior_shift is not None:
        alone = replace(targets, prior_shift=None)
        [groups], _ = measure_rows(*where, alone, judged, names, most)
    abduction = describe_groups(found, domains).to_dict()
    return join_audit(groups, mixtures, sources, prior_shift, False, abduction)
