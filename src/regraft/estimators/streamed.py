"""Fit on all rows of a table that is never in memory, after a fit of a sample that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regraft.core.abduction import find_groups, rows_of_sources
from regraft.core.domains import Domains, check_domains
from regraft.core.game import OnRound
from regraft.core.group_certificate import GroupCertificate
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.latent_game import doubt_promise, doubt_rows, judge_folds, name_outside
from regraft.core.latent_witness import map_from_means
from regraft.core.row_certificate import certify_rows
from regraft.core.row_game import FittedSample, SettledGame, settle_on_rows
from regraft.core.row_sums import RowFolds, RowSums, hash_numbers
from regraft.core.splitting import largest_size
from regraft.estimators.abduction import describe_source_groups
from regraft.estimators.cro import REMEDY, CROClassifier
from regraft.estimators.game_head import warn_unless_converged

SAMPLE_ROWS = 100_000
_IN_PARTS = {"family": "latent", "class_groups": False, "device": "cpu"}
_FEWEST_ROWS = 30  # of a class in a source, as far as there are so many


@dataclass(frozen=True)
class SampledRows:
    """Rows that were drawn from a table, in the order of their numbers there."""

    X: NDArray[np.floating[Any]]  # (m, d)
    y: NDArray[Any]  # (m,)
    domain: NDArray[Any]  # (m,)
    numbers: NDArray[np.int64]  # (m,) from 0, rising


def sampling_rates(counts: NDArray[np.int64], most: int = SAMPLE_ROWS) -> NDArray[np.float64]:
    """Return the share of the rows to draw of each source and class, like ``counts`` (K, C).

    Large sources are cut to one size, so that about ``most`` rows are left, and small ones are
    whole. Classes keep their shares, but a few rows of each are drawn in any case.
    """
    sizes = counts.sum(axis=1)
    cut = largest_size(sizes.tolist(), most)
    rate = np.minimum(1.0, cut / np.maximum(sizes, 1))[:, None]
    rates: NDArray[np.float64] = np.maximum(rate, _FEWEST_ROWS / np.maximum(counts, 1)).clip(0, 1)
    return rates


def draw_rows(first: int, rates: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which rows (n,), numbered from ``first`` on, are drawn at their ``rates`` (n,)."""
    numbers = np.arange(first, first + len(rates), dtype=np.uint64)
    # Twice, so that whether a row is drawn tells nothing about its fold.
    hashed = hash_numbers(hash_numbers(numbers))
    drawn: NDArray[np.bool_] = (hashed >> np.uint64(11)) < rates * 2.0**53
    return drawn


def check_streamed(model: CROClassifier) -> None:
    """Raise ``ValueError`` unless the model can be fitted on rows that are not in memory."""
    model.check_parameters()
    refuse_in_parts({"family": model.family, "class_groups": model.class_groups})


def refuse_in_parts(settings: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for settings that need all rows in memory."""
    for name, value in settings.items():
        if value != _IN_PARTS[name]:
            raise ValueError(
                f"{name}={value!r} needs all rows in memory: leave it out, or leave out --engine."
            )


def fit_on_rows(
    model: CROClassifier,
    sample: SampledRows,
    rows: RowSums,
    counts: NDArray[np.int64],
    *,
    on_round: OnRound = None,
) -> CROClassifier:
    """Fit ``model`` (family latent) on all ``rows``, of which ``sample`` is in memory.

    The sample decides the regularization, the models of the groups and the learner's ridge. All
    rows decide the heads, the guard and the certificate. ``counts`` (K, C) are the rows of each
    source and class, both in sorted order.
    """
    check_streamed(model)
    domains = check_domains(sample.X, sample.y, sample.domain)
    sources = fit_source_heads(domains)
    groups = find_groups(rows_of_sources(sources))
    fitted = FittedSample(sources, groups, model.play_groups(sources, groups))
    dealt = rows.with_folds(_deal(sample, fitted))
    number = torch.from_numpy(counts)
    settled = settle_on_rows(
        dealt,
        number,
        fitted,
        ridge=model.ridge,
        tolerance=model.tolerance,
        max_rounds=model.max_rounds,
        on_round=on_round,
    )
    model.abduction_ = describe_source_groups(groups, sources, domains)
    found = model.abduction_.to_dict()

    def certify(settled: SettledGame) -> GroupCertificate:
        return certify_rows(dealt, number, fitted, settled, domains.texts, found, domains.notes())

    certificate = certify(settled)
    if not settled.reason:
        doubt = doubt_promise(certificate.targets, certificate.pooled_targets)
        outside: tuple[int, ...] = ()
        if not doubt:  # the sample is enough to see what is large enough to matter
            judged = judge_folds(sources, settled.folds[0])
            doubt, outside = doubt_rows(sources, groups, fitted.outcome.targets, judged)
        if doubt:
            settled = settled.keep_pooled(name_outside(doubt, outside, domains.texts))
            certificate = certify(settled)
    warn_unless_converged(settled.game, REMEDY)
    model.certificate_ = certificate
    _describe(model, domains, fitted, settled)
    return model


def _deal(sample: SampledRows, fitted: FittedSample) -> RowFolds:
    """Return the folds of the sample's rows by their numbers in the table."""
    order = fitted.sources.order.numpy()
    head, group = np.empty(len(order), np.uint8), np.empty(len(order), np.uint8)
    head[order] = fitted.sources.held_out.fold.numpy()
    group[order] = fitted.groups.fold.numpy()
    models = fitted.groups.models
    n_group = 1 if models is None else len(models.weights)
    return RowFolds(sample.numbers, head, group, len(fitted.sources.held_out.pooled), n_group)


def _describe(
    model: CROClassifier, domains: Domains, fitted: FittedSample, settled: SettledGame
) -> None:
    """Set what a model says of its sources and groups, from all rows where sums tell it."""
    sources = _move_heads(fitted.sources, settled)
    mass = settled.joint.sum(dim=0)
    means = settled.frame.gather(settled.group_rows)[:, :-1] / mass.unsqueeze(1)
    ridge = sources.regularization.pooled_ridge
    group_map = map_from_means(mass, means, sources.whitening, ridge)
    model.group_map_ = sources.whitening.to_features(group_map).numpy()
    model.set_groups(domains, sources, fitted.groups, judge_folds(sources, settled.folds[0]))
    model.reference_ = replace(model.reference_, shares=mass)
    model.group_prior_ = (settled.joint / settled.joint.sum(dim=1, keepdim=True)).numpy()
    model.set_sources(domains, sources, settled.head)
    model.feature_mean_ = (settled.frame.mean + settled.group_rows[:, :-1].sum(dim=0)).numpy()


def _move_heads(sources: SourceHeads, settled: SettledGame) -> SourceHeads:
    """Return the sample with the pooled heads that all rows led to."""
    held_out = replace(sources.held_out, pooled=settled.folds[-1])
    return replace(sources, pooled=settled.pooled, held_out=held_out)
