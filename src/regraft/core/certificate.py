"""The certificate: what a finished game proves about its head, and under which assumptions."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from regraft.core.closure import closure_residual
from regraft.core.game import GameOutcome, Round
from regraft.core.heads import SourceHeads
from regraft.core.hull import Hull, Objective
from regraft.core.newton import log_probabilities, losses
from regraft.core.surrogates import SurrogateKind, WeightedSample
from regraft.core.transplant import Witness, find_witness
from regraft.support.plain_data import PlainData

Family = Literal["hull", "free"]

CLOSURE_ROWS = 1000
# Scale and confidence at which the terms of prop:finite-sample are evaluated.
RESOLUTION = 0.01
CONFIDENCE = 0.95
_SMALLEST_FLOOR = 1e-100  # keeps a vacuous slack finite, as JSON needs it


@dataclass(frozen=True)
class FiniteSample:
    """Terms of `prop:finite-sample`, with its constant C_1 (open in the paper) taken as 1."""

    rows: int  # N, rows of the smallest source
    metric_entropy: float  # log covering number of the ball of targets at RESOLUTION
    statistical: float  # sqrt((metric_entropy + log(1 / (1 - CONFIDENCE))) / N)
    optimization: float  # duality gap, plus what the adversary gains and ERM's head costs if kept
    closure: float  # the closure residual
    resolution: float  # eta


@dataclass(frozen=True)
class Certificate(PlainData):
    """Worst-case guarantee for a fitted head, with the assumptions it rests on.

    Risks are cross-entropies in nats. With ``objective="regret"``, the risk of each target's own
    head is subtracted. On the hull with reweighted targets, risks include the ERM head's optimism
    on its own rows, measured by leaving rows out. The optimism of the head itself is somewhat
    larger, because its targets put their weight on fewer rows.

    On the hull, the minimax value lies between ``value - gap`` and ``worst_case + ridge_term``, as
    far as the adversary's search is exact. The free adversary maximizes a penalized risk, so its
    ``worst_case`` is only a lower bound. Lengths (closure, Lipschitz constants) are in whitened
    features, or in standardized features for the free family.
    """

    family: Family
    surrogate: SurrogateKind
    objective: Objective
    radius: float | None  # None in the free family, which is bounded by penalties instead
    dimension: int  # number of coordinates of a target; at most K - 1 on the hull
    rounds: tuple[Round, ...]
    converged: bool
    value: float  # M_t of the last round
    gap: float  # its duality gap
    ridge_term: float  # the ridge's part of the objective at the head
    worst_case: float  # the head's value on the worst target found
    worst_case_accuracy: float  # the head's accuracy there, on rows it was fitted on
    pooled_worst_case: float  # the same value for the pooled ERM head it started from
    worst_target: dict[str, float]  # affine coefficients of the sources there; free family: empty
    witness_rank: int  # transplant dimension r of the witness of the worst target
    fit_residual: float  # residual of (P4)
    biorthogonality_residual: float  # residual of (P5)
    closure_residual: float  # epsilon of def:eps-closure between source pairs
    lipschitz: float  # L_h of the head's probabilities
    floor: float  # delta: smallest probability the head gives on a source row
    robustness_slack: float  # (L_h / delta) epsilon of thm:robustness
    softmax_slack: float  # the sharper bound that holds for linear softmax heads
    finite_sample: FiniteSample | None  # None in the free family, whose size has no bound
    # 0: the head is ERM's, 1: it is the game's; between them in certificates of older versions.
    share: float = 1.0
    # Of the game's head over ERM's in the worst case on rows held out; None if no rows were.
    advantage: float | None = None
    advantage_error: float | None = None  # its paired standard error
    source_risk: float = 0.0  # the head's largest risk on one source, measured on training rows
    # Measured on the training rows; None in certificates saved before these fields existed.
    source_rows: tuple[int, ...] | None = None  # rows of each source, in the order of domains_
    source_accuracy: float | None = None  # accuracy of the head, mean over the sources
    pooled_source_accuracy: float | None = None  # the same for the pooled ERM head
    pooled_source_risk: float | None = None  # largest risk of the ERM head on one source
    pooled_worst_case_accuracy: float | None = None  # accuracy of ERM in its own worst target

    def to_json(self) -> str:
        """Return the certificate as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def summary(self) -> tuple[str, ...]:
        """Return the certificate in plain words, one paragraph each."""
        settled = "settled" if self.converged else "has not settled"
        scope, place = "that the free adversary found", ""
        if self.radius is not None:
            scope = f"within {self.radius:g} nats of the sources"
            place = f"That domain weighs the source heads as {_mixture(self.worst_target)}. "
        return (
            f"Certificate: in the worst plausible domain {scope}, this head has "
            f"{self.objective} {self.worst_case:.3f} nats and, on the rows it was fitted on, "
            f"accuracy {self.worst_case_accuracy:.1%}; the ERM head it started from has "
            f"{self.objective} up to {self.pooled_worst_case:.3f} nats.{self._price()}",
            f"{place}The game {settled} after {len(self.rounds)} rounds, its answer within "
            f"{self.gap:.0e} nats (duality gap) of the best linear head against the domains it "
            f"collected.{self._choice()}{self._hard_source()}",
            "Not certified: that the domain you will meet is a plausible one (closure on the "
            "target's side); only knowledge of that domain, or labelled rows of it, can tell.",
        )

    def _price(self) -> str:
        if self.source_accuracy is None or self.pooled_source_accuracy is None:
            return ""
        here, there = (
            round(100 * share, 1) for share in (self.source_accuracy, self.pooled_source_accuracy)
        )
        if here == there:
            return f" On the sources it gives up nothing against ERM ({here}%), rows fitted on."
        change = f"gives up {there - here:.1f}" if here < there else f"gains {here - there:.1f}"
        return (
            f" On the sources it {change} points of accuracy against ERM ({here}% instead of "
            f"{there}%), rows fitted on."
        )

    def _choice(self) -> str:
        if self.advantage is not None:
            kept, but = ("the game's", "") if self.share else ("ERM's", ", not more than two")
            return (
                f" The head is {kept}: the game's worst case on rows held out is better than ERM's "
                f"by {self.advantage:.3f} nats with a standard error of "
                f"{self.advantage_error:.3f}{but}."
            )
        if self.share == 1:
            return ""
        way = f"goes {self.share:.0%} of the way from ERM's to it" if self.share else "is ERM's"
        return f" The head {way}."

    def _hard_source(self) -> str:
        if self.objective != "risk" or self.source_risk <= self.worst_case:
            return ""
        # Plausible domains are made of all sources' rows, so noise peculiar to one is averaged.
        return (
            f" One of the sources is harder than that domain, with {self.source_risk:.3f} nats: it "
            "lies further away, or its labels are noisier than the shift tells."
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Certificate:
        """Rebuild a certificate from :meth:`to_dict`, also after a round trip through JSON."""
        rounds = tuple(Round(**{**r, "risks": tuple(r["risks"])}) for r in data["rounds"])
        terms = data["finite_sample"]
        finite_sample = None if terms is None else FiniteSample(**terms)
        counts = data.get("source_rows")
        source_rows = None if counts is None else tuple(counts)
        changed = {"rounds": rounds, "finite_sample": finite_sample, "source_rows": source_rows}
        # Older certificates have the error of a worst case instead of that of an advantage.
        known = {key: value for key, value in data.items() if key != "standard_error"}
        return cls(**{**known, **changed})


def certify_hull(
    sources: SourceHeads,
    hull: Hull,
    outcome: GameOutcome,
    *,
    names: list[str],
    ridge: Tensor,
    objective: Objective,
    surrogate: SurrogateKind,
    radius: float,
) -> Certificate:
    """Collect the evidence of a game over the hull of the source heads."""
    z = outcome.worst.z
    heads = torch.stack([hull.head(z) for z in hull.sources])
    return certify(
        WeightedSample(sources.Z, sources.y, sources.weight),
        sources.slices,
        outcome,
        find_witness(hull.head(z), heads),
        ridge=ridge,
        surrogate=surrogate,
        objective=objective,
        radius=radius,
        worst_target=dict(zip(names, hull.coefficients(z).tolist(), strict=True)),
    )


def certify(
    rows: WeightedSample,
    slices: Sequence[slice],
    outcome: GameOutcome,
    witness: Witness,
    *,
    ridge: float | Tensor,
    surrogate: SurrogateKind,
    objective: Objective,
    radius: float | None,
    worst_target: dict[str, float],
) -> Certificate:
    """Collect the evidence of a finished game on source ``rows``, sorted into ``slices``.

    ``witness`` belongs to the worst target. The hull has a radius, hence a covering number, which
    gives the terms of `prop:finite-sample`; the free family has neither.
    """
    head, worst, start = outcome.head, outcome.worst, outcome.start
    advantage = outcome.advantage
    closure = closure_residual(witness, [rows.Z[s] for s in slices], max_rows=CLOSURE_ROWS)
    log_p = log_probabilities(rows.Z, head)
    lipschitz, contrast = _lipschitz(head)
    floor = math.exp(float(log_p.min()))
    last = outcome.rounds[-1]
    ridge_term = float((ridge * head.square()).sum())
    finite_sample = None
    if radius is not None:
        smallest = min(s.stop - s.start for s in slices)
        entropy = len(worst.z) * math.log1p(2 * radius / RESOLUTION)
        finite_sample = FiniteSample(
            rows=smallest,
            metric_entropy=entropy,
            statistical=math.sqrt((entropy - math.log(1 - CONFIDENCE)) / smallest),
            optimization=last.gap + max(outcome.worst_value + ridge_term - last.value, 0.0),
            closure=closure,
            resolution=RESOLUTION,
        )
    return Certificate(
        family="free" if radius is None else "hull",
        surrogate=surrogate,
        objective=objective,
        radius=radius,
        dimension=len(worst.z),
        rounds=outcome.rounds,
        converged=outcome.converged,
        value=last.value,
        gap=last.gap,
        ridge_term=ridge_term,
        worst_case=outcome.worst_value,
        worst_case_accuracy=worst.sample.accuracy(head),
        pooled_worst_case=outcome.rounds[0].attack_value,
        worst_target=worst_target,
        witness_rank=witness.rank,
        fit_residual=witness.fit_residual,
        biorthogonality_residual=witness.biorthogonality_residual,
        closure_residual=closure,
        lipschitz=lipschitz,
        floor=floor,
        robustness_slack=lipschitz / max(floor, _SMALLEST_FLOOR) * closure,
        softmax_slack=contrast * closure,
        finite_sample=finite_sample,
        share=float(head is not start),
        advantage=None if advantage is None else advantage.gain,
        advantage_error=None if advantage is None else advantage.standard_error,
        source_risk=_largest_risk(log_p, rows.y, slices),
        source_rows=tuple(s.stop - s.start for s in slices),
        source_accuracy=rows.accuracy(head),  # whose weights give each source the same mass
        pooled_source_accuracy=rows.accuracy(start),
        pooled_source_risk=_largest_risk(log_probabilities(rows.Z, start), rows.y, slices),
        pooled_worst_case_accuracy=outcome.targets[0].sample.accuracy(start),
    )


def _largest_risk(log_p: Tensor, y: Tensor, slices: Sequence[slice]) -> float:
    return max(float(losses(log_p[s], y[s]).mean()) for s in slices)


def _lipschitz(head: Tensor) -> tuple[float, float]:
    """Return the Lipschitz constants of the probabilities and of the cross-entropy in the features.

    The Jacobian of a softmax has norm at most 1/2. The gradient of the cross-entropy is a convex
    combination of contrasts of class weights, so the longest contrast bounds it without a floor.
    """
    coef = head[:, :-1] - head[:, :-1].mean(dim=0)
    contrasts = torch.cdist(coef, coef)
    return float(torch.linalg.matrix_norm(coef, 2)) / 2, float(contrasts.max())


def _mixture(weights: dict[str, float]) -> str:
    """Format the largest weights of the sources, such as "a: +1.50, b: -0.50"."""
    largest = sorted(weights.items(), key=lambda item: -abs(item[1]))
    shown = ", ".join(f"{name}: {weight:+.2f}" for name, weight in largest[:4])
    return shown if len(largest) <= 4 else f"{shown} and {len(largest) - 4} smaller"
