"""The certificate of a game over target heads: the hull's, and what the free adversary found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regraft.core.certificate import Certificate, join_evidence, measure_heads
from regraft.core.closure import least_closure
from regraft.core.evidence import CONFIDENCE, Evidence, HeldOutRows, judge, measure
from regraft.core.game import GameOutcome, Target
from regraft.core.guard import NOT_BETTER
from regraft.core.heads import SourceHeads
from regraft.core.hull import Objective, PlausibleTargets, attack
from regraft.core.hull_evidence import ERRORS, measure_hull, measure_keeping_inputs
from regraft.core.surrogates import SurrogateKind, WeightedSample
from regraft.core.transplant import Witness

CLOSURE_ROWS = 1000
RESOLUTION = 0.01  # nats at which the targets are covered in prop:finite-sample
ONE_TARGET = "the sources leave one plausible domain, in which the ordinary model is the best"


@dataclass(frozen=True)
class FiniteSample:
    """Terms of `prop:finite-sample`, with its constant C_1 (open in the paper) taken as 1."""

    rows: float  # N, the effective number of rows of the worst target
    metric_entropy: float  # log covering number of the ball of targets at RESOLUTION
    statistical: float  # sqrt((metric_entropy + log(1 / (1 - CONFIDENCE))) / N)
    optimization: float  # duality gap, plus what the adversary gains and ERM's head costs if kept
    closure: float  # the closure residual
    resolution: float  # eta


@dataclass(frozen=True, kw_only=True, repr=False)
class HeadCertificate(Certificate):
    """How good a head is where the labels given the inputs follow a plausible head.

    Plausible heads are affine combinations of the source heads within ``radius`` nats of their
    mean. Such a domain is made of the sources' rows by weights that turn the head of each source
    into the plausible one; the law of the inputs moves with the weights. The sources as they are
    count, too. ``kept`` is a second attack on the same head, with weights that leave the inputs as
    they are; these are not bounded, so its evidence stands on fewer rows.

    In the family ``factorized`` the same holds for conditionals: plausible ones share the sources'
    deduction, and their abduction is an affine combination of the sources'. Witness, closure and
    distances are then those of abductions.

    Not covered: other inputs, heads outside of the hull, and errors in the source heads. In the
    free family there is no radius: it shows the worst domain that its adversary found, which may
    not be the worst there is.

    With ``objective="regret"`` the game's own numbers (``value``, ``attack_value``, ``rounds``) and
    ``regret`` are in excess of the risk of each target's own head. On the hull, the minimax value
    lies between ``value - gap`` and ``attack_value + ridge_term``, as far as the adversary's search
    is exact. Lengths (closure, Lipschitz constant) are in whitened features, or in standardized
    features for the free family.
    """

    surrogate: SurrogateKind
    objective: Objective
    radius: float | None  # None in the free family, which is bounded by penalties instead
    distances: dict[str, float]  # of the source heads from their mean (nats); free family: empty
    regret: float | None  # bound on the regret; None if the objective is the risk
    kept: tuple[Evidence, ...]  # in the worst domains with the sources' inputs; free family: empty
    pooled_kept: tuple[Evidence, ...]
    worst_target: dict[str, float]  # affine coefficients of the sources at the largest risk
    dimension: int  # number of coordinates of a target; at most K - 1 on the hull
    value: float  # M_t of the last round, on the rows fitted on
    ridge_term: float  # the ridge's part of the objective at the head
    attack_value: float  # the head's value on the worst target of the game, on the rows fitted on
    witness_rank: int  # transplant dimension r of the witness of the worst target
    fit_residual: float  # residual of (P4)
    biorthogonality_residual: float  # residual of (P5)
    closure_residual: float  # epsilon of def:eps-closure between source pairs, least over L
    lipschitz: float  # of the head's cross-entropy: the longest contrast of two classes
    softmax_slack: float  # lipschitz times the closure residual
    finite_sample: FiniteSample | None  # None in the free family, whose size has no bound

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HeadCertificate:
        """Rebuild a certificate from :meth:`to_dict`, also after a round trip through JSON."""
        terms = data["finite_sample"]
        found = super().from_dict(data)
        return found if terms is None else replace(found, finite_sample=FiniteSample(**terms))

    def _pair_more(self) -> Iterator[tuple[str, Evidence, Evidence]]:
        for ours, theirs in zip(self.kept, self.pooled_kept, strict=True):
            yield f"{ours.name}, with the sources' inputs", ours, theirs

    def scope(self) -> str:
        """Name the domains that it covers."""
        if self.radius is None:
            return "in the worst domain that the free adversary found, and in each source"
        what = "heads"
        if self.family == "factorized":
            what = "abductions, with the deduction that they share,"
        return (
            f"in every domain made of the sources' rows by weights that turn their {what} into an "
            f"affine combination within {self.radius:.3g} nats of their mean (the inputs move with "
            "the weights), and in each source"
        )

    def claim(self) -> str:
        """Say what is certified, beside ERM's."""
        regret = "" if self.regret is None else f" Its regret is at most {self.regret:.3f} nats."
        return super().claim() + regret

    def limits(self) -> str:
        """Say what is not certified."""
        if self.radius is None:
            return (
                "Not certified: any other domain. The free adversary has no bound, and its search "
                "may miss the worst."
            )
        farthest = max(self.distances.values())
        what, errors = "head", "source heads"
        if self.family == "factorized":
            what, errors = "abduction", "fitted maps, among them the common deduction"
        return (
            f"With the sources' inputs kept, the bounds are {self.kept_risk:.3f} nats and "
            f"{self.kept_accuracy:.1%} (on {min(each.rows for each in self.kept):,.0f} effective "
            f"rows). The farthest source lies {farthest:.2f} nats from the mean. Not certified: "
            f"other inputs, domains whose {what} is no such combination or lies further away, and "
            f"errors in the {errors}; only labelled rows of the new domain can tell."
        )

    @property
    def kept_risk(self) -> float:
        """Bound on the risk with the sources' inputs kept."""
        return max(each.risk_bound for each in self.kept)

    @property
    def kept_accuracy(self) -> float:
        """Bound on the accuracy with the sources' inputs kept."""
        return min(each.accuracy_bound for each in self.kept)


def certify_hull(
    sources: SourceHeads,
    targets: PlausibleTargets,
    outcome: GameOutcome,
    *,
    names: list[str],
    ridge: Tensor,
    objective: Objective,
    surrogate: SurrogateKind,
    radius: float,
    notes: tuple[str, ...] = (),
) -> HeadCertificate:
    """Collect the evidence of a game over the hull of the source heads, or of their abductions."""
    hull, rows = targets.hull, targets.rows
    fold = sources.held_out.fold
    assert outcome.answers is not None and outcome.starts is not None  # as a game keeps them
    is_erm = outcome.answers is outcome.starts
    log_p = sources.held_out.log_probabilities(outcome.answers, sources.Z)
    start_log_p = log_p
    if not is_erm:
        start_log_p = sources.held_out.log_probabilities(outcome.starts, sources.Z)
    held_out = judge(log_p, sources.y)
    pooled = held_out if is_erm else judge(start_log_p, sources.y)
    reason = ""
    if outcome.head is outcome.start:
        reason = ONE_TARGET if outcome.advantage is None else NOT_BETTER
    shared = join_evidence(
        *measure_heads(partial(measure_hull, rows, fold, radius), held_out, pooled, sources, names),
        notes=notes,
        game=outcome,
        source_rows=sources.sizes,
        reason=reason,
        advantage=outcome.advantage,
    )
    found = attack(rows, held_out.loss, radius, errors=ERRORS)
    weights = hull.coefficients(found.z).tolist()
    regret = None
    if objective == "regret":
        # A true regret is not negative: no head beats the target's own conditional.
        regret = max(attack(rows, held_out.loss, radius, "regret", errors=ERRORS).value, 0.0)
    worst = max(shared["targets"], key=lambda each: each.risk_bound)
    kept = measure_keeping_inputs(rows, fold, radius, log_p)
    pooled_kept = kept
    if not is_erm:
        pooled_kept = measure_keeping_inputs(rows, fold, radius, start_log_p)
    closing = _close(
        WeightedSample(sources.Z, sources.y, sources.weight),
        sources.slices,
        targets.witness(hull.head(found.z)),
        outcome,
        ridge,
    )
    return HeadCertificate(
        family=targets.family,
        surrogate=surrogate,
        objective=objective,
        radius=radius,
        distances=dict(zip(names, hull.sources.norm(dim=1).tolist(), strict=True)),
        regret=regret,
        kept=kept,
        pooled_kept=pooled_kept,
        worst_target=dict(zip(names, weights, strict=True)),
        finite_sample=_finite_sample(worst.rows, radius, outcome, closing),
        **closing,
        **shared,
    )


def certify_free(
    rows: WeightedSample,
    sources: SourceHeads,
    outcome: GameOutcome,
    witness: Witness,
    *,
    heads: Tensor,
    starts: Tensor,
    names: list[str],
    ridge: float,
    surrogate: SurrogateKind,
    notes: tuple[str, ...] = (),
) -> HeadCertificate:
    """Collect what a free adversary found on source ``rows``, in the order of ``sources``.

    ``heads`` and ``starts`` (F, C, k) are answers and ERM heads that were fitted without each fold.
    """
    held_out, pooled = (
        judge(sources.held_out.log_probabilities(each, rows.Z), rows.y) for each in (heads, starts)
    )
    targets = (*outcome.targets, outcome.worst)

    def measure_targets(judged: HeldOutRows) -> tuple[Evidence, ...]:
        own = heads if judged is held_out else starts
        found = [measure_target(each, sources, own) for each in targets]
        return (max(found, key=lambda each: each.risk),)

    measured = measure_heads(measure_targets, held_out, pooled, sources, names)
    shared = join_evidence(*measured, notes=notes, game=outcome, source_rows=sources.sizes)
    return HeadCertificate(
        family="free",
        surrogate=surrogate,
        objective="risk",
        radius=None,
        distances={},
        regret=None,
        kept=(),
        pooled_kept=(),
        worst_target={},
        finite_sample=None,
        **_close(rows, sources.slices, witness, outcome, ridge),
        **shared,
    )


def measure_target(target: Target, sources: SourceHeads, heads: Tensor) -> Evidence:
    """Measure a target of a game by heads (F, C, k) fitted without each fold of its rows."""
    sample, n = target.sample, len(sources.y)
    folds = replace(sources.held_out, fold=sources.held_out.fold.repeat(len(sample.y) // n))
    pairs = judge(folds.log_probabilities(heads, sample.Z), sample.y)
    # Pairs of one row with each label are no rows of their own.
    share = sample.weight.reshape(-1, n)
    weight = share.sum(dim=0)
    share = share / weight
    judged = [(share * v.reshape(-1, n)).sum(dim=0) for v in (pairs.loss, pairs.correct)]
    return measure("the worst domain found", weight, HeldOutRows(*judged))


def _close(
    rows: WeightedSample,
    slices: Sequence[slice],
    witness: Witness,
    outcome: GameOutcome,
    ridge: float | Tensor,
) -> dict[str, Any]:
    """Return what the game and the transplants of its worst target say."""
    witness, closure = least_closure(witness, [rows.Z[s] for s in slices], max_rows=CLOSURE_ROWS)
    lipschitz = _longest_contrast(outcome.head)
    return {
        "dimension": len(outcome.worst.z),
        "value": outcome.rounds[-1].value,
        "ridge_term": float((ridge * outcome.head.square()).sum()),
        "attack_value": outcome.worst_value,
        "witness_rank": witness.rank,
        "fit_residual": witness.fit_residual,
        "biorthogonality_residual": witness.biorthogonality_residual,
        "closure_residual": closure,
        "lipschitz": lipschitz,
        "softmax_slack": lipschitz * closure,
    }


def _finite_sample(
    rows: float, radius: float, outcome: GameOutcome, closing: dict[str, Any]
) -> FiniteSample:
    entropy = closing["dimension"] * math.log1p(2 * radius / RESOLUTION)
    gain = closing["attack_value"] + closing["ridge_term"] - closing["value"]
    return FiniteSample(
        rows=rows,
        metric_entropy=entropy,
        statistical=math.sqrt((entropy - math.log(1 - CONFIDENCE)) / rows),
        optimization=outcome.rounds[-1].gap + max(gain, 0.0),
        closure=closing["closure_residual"],
        resolution=RESOLUTION,
    )


def _longest_contrast(head: Tensor) -> float:
    """Return the Lipschitz constant of the cross-entropy in the features.

    Its gradient is a convex combination of contrasts of class weights, so the longest bounds it.
    """
    coef = head[:, :-1]
    return float(torch.cdist(coef, coef).max())
