"""Adapt a fitted model to a new domain, from no labels to many."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from torch import Tensor

from regraft.core.adaptation import (
    FOLDS,
    MIN_TO_MEASURE,
    LabelledRows,
    choose_correction,
    deal_folds,
    fit_correction,
    no_correction,
)
from regraft.core.domains import is_missing_value, is_target
from regraft.core.evidence import CONFIDENCE, Evidence, HeldOutRows, judge, measure
from regraft.core.group_shares import ShareLikelihood, ShareRegion, estimate_shares, log_ratios
from regraft.core.guard import WorstCase, compare_worst_cases
from regraft.core.least_favourable import find_least_favourable
from regraft.core.reference import Reference
from regraft.estimators.adaptation_families import Family, GroupFamily, HullFamily
from regraft.estimators.adapted import AdaptedClassifier
from regraft.estimators.pipelines import join_model, split_model
from regraft.estimators.placing import (
    LEVEL,
    MIN_ROWS,
    check_new,
    closure_of,
    count_known,
    describe_other,
    find_known,
    joint_of,
    reference_of,
    warn_of_known,
)
from regraft.estimators.target_certificate import TargetCertificate
from regraft.support.plurals import count
from regraft.support.threads import threads_by_size

if TYPE_CHECKING:
    from regraft.estimators.cro import CROClassifier


@threads_by_size
def adapt(
    model: CROClassifier | Pipeline,
    X: ArrayLike,
    y: ArrayLike | None = None,
    sample_domain: ArrayLike | None = None,
) -> AdaptedClassifier | Pipeline:
    """Adapt a fitted model to a new domain, with the rows and labels that are at hand.

    Without labels, the head is minimax over the mixtures of the groups that the rows leave
    possible. A few labels place it in the family of the model, and 20 or more may correct it
    beyond, or be fitted alone. What is not better than the head of the model, on rows that were
    held out, is not taken.

    Parameters
    ----------
    model : CROClassifier or Pipeline
        Fitted with the family "latent", or "hull", which needs labels; or a pipeline that ends in
        such a head.
    X : array-like (n, d)
        Rows of the new domain; for a pipeline, what it takes.
    y : array-like (n,) or None
        Their labels; None, NaN, an empty text or -1 where a row has none.
    sample_domain : array-like (n,) of int, or None
        If given, rows of negative domains are those of the new domain, and the others, which are
        rows of sources, are left out.

    Returns
    -------
    AdaptedClassifier or Pipeline
        With a ``certificate_`` for the new domain; for a pipeline, the same steps with this head.

    Raises
    ------
    ValueError
        If the model, the rows or the labels are not usable; the message says how to fix it.
    """
    if isinstance(model, Pipeline):
        before, head = split_model(model)
        X = X if before is None else before.transform(X)
        return join_model(before, adapt(head, X, y, sample_domain), model.steps[-1][0])
    if sample_domain is not None:
        rows = is_target(sample_domain)
        if not rows.any():
            raise ValueError(
                "sample_domain has no negative number, which marks rows of the new domain: pass "
                "some."
            )
        X, y = np.asarray(X)[rows], None if y is None else np.asarray(y)[rows]
    target = check_target_rows(model, X, y)
    if model.family == "hull":
        return _adapt_hull(model, target)
    return _adapt_latent(model, target)


@dataclass(frozen=True)
class PartlyLabelled:
    """Rows of a new domain, of which the first ones have labels."""

    features: NDArray[np.floating[Any]]  # (n, d)
    y: Tensor  # (l,) class numbers of the first rows

    @property
    def n_labels(self) -> int:
        """How many of the rows have labels."""
        return len(self.y)


def check_target_rows(model: CROClassifier, X: ArrayLike, y: ArrayLike | None) -> PartlyLabelled:
    """Validate rows (n, d) of a new domain and labels (n,), of which some or all may be missing."""
    from regraft.estimators.cro import CROClassifier

    if not isinstance(model, CROClassifier):
        raise ValueError(
            f"{describe_other(model)} has no family of plausible domains: adapt a model made by "
            "regraft fit."
        )
    if model.family == "factorized":
        raise ValueError('the family "factorized" cannot be adapted: fit with "latent" or "hull".')
    features = model._check_rows(X)
    labels = np.full(len(features), None) if y is None else np.asarray(y, dtype=object).ravel()
    if len(labels) != len(features):
        raise ValueError(f"y has {len(labels)} entries for {len(features)} rows: pass one each.")
    numbers = {_key(name): number for number, name in enumerate(model.classes_)}
    keys = [_key(label) for label in labels]
    known = np.array([key is not None and (key != -1 or key in numbers) for key in keys], bool)
    strange = [
        label for label, key, k in zip(labels, keys, known, strict=True) if k and key not in numbers
    ]
    if strange:
        raise ValueError(
            f"the target has the label {strange[0]}, which the model does not know: its classes "
            f"are {', '.join(map(str, model.classes_))}."
        )
    index = [numbers[key] for key, k in zip(keys, known, strict=True) if k]
    if len(set(index)) == 1:
        raise ValueError(
            f"all labels of the target are {model.classes_[index[0]]}: label rows of two classes "
            "or more, or pass no labels."
        )
    order = np.concatenate([np.flatnonzero(known), np.flatnonzero(~known)])
    return PartlyLabelled(features[order], torch.tensor(index, dtype=torch.long))


def _key(label: Any) -> float | str | None:
    """Return what a label is compared by, as a number if it is one; None if it is missing."""
    if is_missing_value(label):
        return None
    try:
        number = float(label)
    except (TypeError, ValueError):
        return None if label == "" else str(label)
    return None if math.isnan(number) else number


def _adapt_latent(model: CROClassifier, target: PartlyLabelled) -> AdaptedClassifier:
    reference, n = reference_of(model), target.n_labels
    known = find_known(reference, target.features)
    check_new(model, reference, known)
    warn_of_known(reference, known, len(target.features))
    known_labelled = find_known(reference, target.features[:n]) if known.any() else known
    if 2 * count_known(reference, known_labelled, n) > n:
        raise ValueError(
            "most of the labelled rows are rows that the model was fitted on, on which it looks "
            "better than it is: label rows that are new to it."
        )
    if len(target.features) < MIN_ROWS and not n:
        raise ValueError(
            f"the target has {count(len(target.features), 'rows')} and no labels: pass {MIN_ROWS} "
            "rows or more."
        )
    log_joint = joint_of(model, target.features)
    labelled = log_ratios(log_joint[:n], reference.shares, target.y)
    ratios = torch.cat([labelled, log_ratios(log_joint[n:], reference.shares)])
    # Two statements, about the shares and about the head, hold together with the confidence.
    confidence = (1 + CONFIDENCE) / 2
    region = estimate_shares(ShareLikelihood(ratios), n, reference, confidence)
    p_value = None
    if len(target.features) >= MIN_ROWS:
        p_value = closure_of(reference, target.features, region).p_value
    is_mixture = p_value is None or p_value > LEVEL
    before = HeldOutRows(reference.loss, reference.correct)
    groups = GroupFamily(
        model, reference, log_joint[:n], labelled, ratios[n:] if is_mixture else None
    )
    if n:
        head = _adapt_by_labels(model, target, groups, prefer_placed=is_mixture)
        now = groups.judge(head.coordinates) if head.kind == "placed" else before
    else:
        minimax = find_least_favourable(region, reference)
        now = judge(minimax.log_p.T, reference.y)
        cases = [WorstCase(_worst(region, reference, rows), rows.loss) for rows in (before, now)]
        better = is_mixture and compare_worst_cases(*cases).is_clear
        now = now if better else before
        head = _Head("placed" if better else "kept", groups.coordinates(minimax.shares))
    numbers = [str(u) for u in range(len(region.shares))]
    # What is shown is what place shows; the certificate stands on the wider region.
    low, high = replace(region, confidence=CONFIDENCE).bounds.tolist()
    shares = groups.shares(head.coordinates) if n and head.base == "placed" else region.shares
    certificate = TargetCertificate(
        family="latent",
        kind=head.kind,
        rows=len(target.features),
        labels=n,
        weights=dict(zip(numbers, shares.tolist(), strict=True)),
        lower=dict(zip(numbers, low, strict=True)),
        upper=dict(zip(numbers, high, strict=True)),
        p_value=p_value,
        **_measure_labels(head.judged),
        mixture=_measure_mixture(region, reference, now) if head.is_known and is_mixture else None,
        mixture_before=_measure_mixture(region, reference, before) if is_mixture else None,
    )
    return _assemble(model, groups, head, certificate)


def _worst(region: ShareRegion, reference: Reference, rows: HeldOutRows) -> Tensor:
    """Return the weights (m,) of the mixture in a region at which the risk is largest."""
    return region.farthest(reference.laws @ rows.loss) @ reference.laws


def _measure_mixture(region: ShareRegion, reference: Reference, rows: HeldOutRows) -> Evidence:
    """Measure the worst mixture of a region; the bounds are the worse ones of two mixtures."""
    laws, found = reference.laws, []
    purity = (laws * reference.belief.T).sum(dim=1)  # (G,)
    for harm in (rows.loss, 1 - rows.correct):
        shares = region.farthest(laws @ harm)
        found.append(
            measure(
                "the worst mixture left",
                shares @ laws,
                rows,
                together=2,
                purity=float(shares @ purity),
            )
        )
    return replace(
        found[0],
        risk_bound=max(each.risk_bound for each in found),
        accuracy=found[1].accuracy,
        accuracy_bound=min(each.accuracy_bound for each in found),
    )


def _adapt_hull(model: CROClassifier, target: PartlyLabelled) -> AdaptedClassifier:
    if not target.n_labels:
        reference_of(model)  # says that this family learns nothing from unlabelled rows
    hull = HullFamily(model, target.features[: target.n_labels], target.y)
    head = _adapt_by_labels(model, target, hull, prefer_placed=len(hull.prior.center) > 0)
    weights = hull.weights(head.coordinates)
    certificate = TargetCertificate(
        family="hull",
        kind=head.kind,
        rows=len(target.features),
        labels=target.n_labels,
        weights=weights,
        lower={},
        upper={},
        p_value=None,
        **_measure_labels(head.judged),
        mixture=None,
        mixture_before=None,
    )
    adapted = _assemble(model, hull, head, certificate)
    adapted.witness_ = model.witness(weights)
    return adapted


@dataclass(frozen=True)
class _Head:
    """What the rows of a target lead to."""

    base: str  # "placed", "kept" or "refitted"
    coordinates: Tensor
    correction: Tensor | None = None
    judged: _Judged | None = None  # None without labels

    @property
    def kind(self) -> str:
        is_base = self.correction is None or self.base == "refitted"
        return self.base if is_base else "corrected"

    @property
    def is_known(self) -> bool:
        """Whether source rows were judged by such a head that has not seen them."""
        return self.kind in ("placed", "kept")


@dataclass(frozen=True)
class _Judged:
    """Labelled rows as heads see them that have not seen their labels."""

    y: Tensor  # (l,)
    log_p: Tensor  # (l, C) by the chosen kind of head
    before: Tensor  # (l, C) by the head of the model
    tried: int  # how many kinds of head the labels chose from


def _measure_labels(judged: _Judged | None) -> dict[str, Evidence | None]:
    if judged is None:
        return {"labelled": None, "labelled_before": None}
    weight = judged.log_p.new_full((len(judged.y),), 1 / len(judged.y))
    # The labels that judge a head have also chosen its kind, so the bounds hold for all kinds.
    now, before = (
        measure("labels of the domain", weight, judge(log_p.T, judged.y), together=tried)
        for log_p, tried in ((judged.log_p, judged.tried), (judged.before, 1))
    )
    if len(judged.y) < MIN_TO_MEASURE:  # enough for an interval of the accuracy only
        return {"labelled": None, "labelled_before": None, "few": now, "few_before": before}
    return {"labelled": now, "labelled_before": before}


def _adapt_by_labels(
    model: CROClassifier, target: PartlyLabelled, family: Family, *, prefer_placed: bool
) -> _Head:
    """Return the head that labels choose: of the family, as it was, corrected, or a new one."""
    features = target.features[: target.n_labels]
    scaled = (torch.from_numpy(features).double() - torch.from_numpy(model.feature_mean_)) / (
        model.feature_scale_
    )
    rows = LabelledRows(scaled, target.y, deal_folds(target.y))
    before = torch.log_softmax(torch.from_numpy(model._logits_of(features)).double(), dim=1)
    placed = torch.stack([family.log_p(family.fit(rows.fold != f)) for f in range(FOLDS)])
    ignorant = torch.full_like(before, -math.log(before.shape[1]))
    bases = {"placed": placed, "kept": before.expand(FOLDS, -1, -1)}
    bases["refitted"] = ignorant.expand(FOLDS, -1, -1)
    order = ["placed", "kept"] if prefer_placed else ["kept", "placed"]
    order.append("refitted")
    few = rows.thin()
    choice = choose_correction(rows.take(few), [bases[kind][:, few] for kind in order])
    kind = order[choice.base]
    coordinates = family.fit(torch.ones_like(target.y, dtype=torch.bool))
    correction = None
    if choice.ridge is not None:
        base = family.log_p(coordinates) if kind == "placed" else bases[kind][0]
        correction = fit_correction(rows, base, choice.ridge)
    judged = _Judged(target.y[few], choice.log_p, before[few], choice.tried)
    return _Head(kind, coordinates, correction, judged)


def _assemble(
    model: CROClassifier, family: Family, head: _Head, certificate: TargetCertificate
) -> AdaptedClassifier:
    adapted = AdaptedClassifier()
    adapted.classes_, adapted.domains_ = model.classes_, model.domains_
    adapted.n_features_in_ = model.n_features_in_
    for name in {"feature_names_in_", "encoder_", "column_roles_"} & vars(model).keys():
        setattr(adapted, name, getattr(model, name))
    if head.base == "placed":
        adapted.group_heads_ = family.heads(head.coordinates).numpy()
    else:
        adapted.group_heads_ = model._head[None].copy()
        adapted.group_heads_ *= head.base == "kept"
    correction = head.correction
    if correction is None:
        correction = no_correction(len(model.classes_), model.n_features_in_)
    adapted.correction_ = correction.numpy()
    adapted.feature_mean_, adapted.feature_scale_ = model.feature_mean_, model.feature_scale_
    adapted.certificate_ = certificate
    return adapted
