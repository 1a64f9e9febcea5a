"""The certificate of a head for every mixture of hidden groups, measured on rows held out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from scipy.stats import norm, t
from torch import Tensor

from regraft.core.game import Round
from regraft.core.group_targets import GroupTargets
from regraft.core.latent_game import HeldOutRows, LatentOutcome
from regraft.support.plain_data import PlainData

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Evidence:
    """Risk and accuracy on weighted rows that the heads have not seen, with one-sided bounds."""

    name: str
    rows: float  # effective number of rows
    purity: float  # share of the weight that is expected to lie on rows of the group
    risk: float  # nats
    risk_bound: float  # above the true risk, with the confidence
    accuracy: float
    accuracy_bound: float  # below the true accuracy, with the confidence


@dataclass(frozen=True)
class GroupCertificate(PlainData):
    """How good a head is in every domain that mixes the groups found, in any proportion.

    ``risk`` and ``accuracy`` are the certificate: no mixture's risk is above, and no mixture's
    accuracy is below, each with a confidence of 95 %. Extreme mixtures have one-sided bounds that
    hold together, and the worst mixture is among them. No source's risk exceeds it either.
    Everything is measured on rows that the measured heads were not fitted on;
    the head itself was fitted on all rows. Not covered: domains that are no mixture of these
    groups, and errors in telling the groups apart.
    """

    family: Literal["latent"]
    risk: float
    accuracy: float
    confidence: float
    targets: tuple[Evidence, ...]  # extreme mixtures
    sources: tuple[Evidence, ...]
    reason: str  # why the head is ERM's; empty if it is the game's
    n_groups: int
    prior_shift: float | None
    class_groups: bool
    source_accuracy: float  # held out, mean over the sources
    pooled_source_accuracy: float  # the same for ERM's head
    pooled_risk: float  # ERM's certificate, by the same rule
    pooled_accuracy: float
    pooled_targets: tuple[Evidence, ...]  # ERM's evidence, in the order of this head's
    pooled_sources: tuple[Evidence, ...]
    advantage: float | None  # of the game's head over ERM's in the held-out worst case (nats)
    advantage_error: float | None  # its paired standard error
    price: float | None  # by how much its risk on the pooled sources is larger (nats)
    ridge: float | None  # chosen for the learner
    gap: float  # duality gap of the game's answer
    converged: bool
    rounds: tuple[Round, ...]
    source_rows: tuple[int, ...]
    abduction: dict[str, Any]  # what was found about the hidden factor

    def to_json(self) -> str:
        """Return the certificate as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GroupCertificate:
        """Rebuild a certificate from :meth:`to_dict`, also after a round trip through JSON."""
        kinds = "targets", "sources", "pooled_targets", "pooled_sources"
        changed: dict[str, Any] = {
            **{kind: tuple(Evidence(**each) for each in data[kind]) for kind in kinds},
            "rounds": tuple(Round(**{**r, "risks": tuple(r["risks"])}) for r in data["rounds"]),
            "source_rows": tuple(data["source_rows"]),
        }
        return cls(**{**data, **changed})

    def summary(self) -> tuple[str, ...]:
        """Return the certificate in plain words, one paragraph each."""
        return self._scope(), self._choice(), self._limits()

    def _scope(self) -> str:
        if self.n_groups == 1:
            scope = "In a domain like the pooled sources"
        elif self.prior_shift is not None:
            scope = (
                "In every domain that mixes the groups found, with log-odds at most "
                f"{self.prior_shift:g} nats from the sources'"
            )
        else:
            scope = "In every domain that mixes the groups found, in any proportion"
        if self.class_groups and self.n_groups > 1:
            scope += " and each class in its own"
        return (
            f"Certificate: {scope[0].lower()}{scope[1:]}, this head has a risk of at most "
            f"{self.risk:.3f} nats and an accuracy of at least {self.accuracy:.1%} "
            f"({self.confidence:.0%} confidence, rows held out), and no source was measured to be "
            f"worse; for ERM's head the same bounds "
            f"are {self.pooled_risk:.3f} nats and {self.pooled_accuracy:.1%}."
        )

    def _choice(self) -> str:
        if self.reason:
            return f"The head is ERM's: {self.reason}."
        assert self.advantage is not None and self.advantage_error is not None
        return (
            f"The head is the game's: its held-out worst case is better than ERM's by "
            f"{self.advantage:.3f} ± {self.advantage_error:.3f} nats. On the sources it has "
            f"{self.source_accuracy:.1%} where ERM has {self.pooled_source_accuracy:.1%} "
            "(rows held out)."
        )

    def _limits(self) -> str:
        if self.n_groups == 1:
            return (
                "Not certified: domains unlike the sources. No hidden factor was found that they "
                "mix in different shares, so nothing is known about how a new domain may differ."
            )
        return (
            "Not certified: domains that are no mixture of these groups, and errors in telling the "
            "groups apart; only rows of the new domain can show whether it is one."
        )


def certify_latent(
    outcome: LatentOutcome,
    slices: Sequence[slice],
    names: Sequence[str],
    abduction: dict[str, Any],
) -> GroupCertificate:
    """Collect the evidence for the head of a game over groups, or for ERM's where that was kept.

    ``slices`` are the rows of the sources that ``names`` names.
    """
    targets, held_out, advantage, game = (
        outcome.targets,
        outcome.held_out,
        outcome.advantage,
        outcome.game,
    )
    extreme = measure_targets(targets, held_out)
    sources = measure_sources(held_out, slices, names)
    baseline = (
        measure_targets(targets, outcome.pooled),
        measure_sources(outcome.pooled, slices, names),
    )
    return GroupCertificate(
        family="latent",
        risk=largest_risk(extreme, sources),
        accuracy=lowest_accuracy(extreme, sources),
        confidence=CONFIDENCE,
        targets=extreme,
        sources=sources,
        reason=outcome.reason,
        n_groups=targets.belief.shape[1],
        prior_shift=targets.prior_shift,
        class_groups=targets.class_groups,
        source_accuracy=_mean_accuracy(held_out, slices),
        pooled_source_accuracy=_mean_accuracy(outcome.pooled, slices),
        pooled_risk=largest_risk(*baseline),
        pooled_accuracy=lowest_accuracy(*baseline),
        pooled_targets=baseline[0],
        pooled_sources=baseline[1],
        advantage=None if advantage is None else advantage.gain,
        advantage_error=None if advantage is None else advantage.standard_error,
        price=outcome.price,
        ridge=outcome.ridge,
        gap=0.0 if game is None else game.rounds[-1].gap,
        converged=game is None or game.converged,
        rounds=() if game is None else game.rounds,
        source_rows=tuple(s.stop - s.start for s in slices),
        abduction=abduction,
    )


def largest_risk(targets: Sequence[Evidence], sources: Sequence[Evidence]) -> float:
    """Return the bound on the risk in every mixture and in each source."""
    # Sources are mixtures, which the bounds cover; their measured risks count in case they are not.
    return max(*(each.risk_bound for each in targets), *(each.risk for each in sources))


def lowest_accuracy(targets: Sequence[Evidence], sources: Sequence[Evidence]) -> float:
    """Return the bound on the accuracy in every mixture and in each source."""
    return min(*(each.accuracy_bound for each in targets), *(each.accuracy for each in sources))


def measure(
    name: str, weight: Tensor, held_out: HeldOutRows, *, together: int = 1, purity: float = 1.0
) -> Evidence:
    """Measure risk and accuracy under ``weight`` (n,), which sums to one, with their bounds.

    The bound of the risk is Student's, that of the accuracy is Wilson's, both at the effective
    number of rows. So many bounds hold ``together`` with the confidence (Bonferroni). Where only a
    share ``purity`` of the weight lies on rows of the group, the others may be all right and free
    of risk, and the bounds allow for that.
    """
    level = 1 - (1 - CONFIDENCE) / together
    rows = float(1 / weight.square().sum())
    risk = float(weight @ held_out.loss)
    spread = float(weight @ (held_out.loss - risk).square())
    # With one effective row there is no spread to learn from.
    freedom = max(rows - 1, 1e-3)
    error = (spread / freedom) ** 0.5
    accuracy = float(weight @ held_out.correct)
    return Evidence(
        name=name,
        rows=rows,
        purity=purity,
        risk=risk,
        risk_bound=(risk + float(t.ppf(level, freedom)) * error) / purity,
        accuracy=accuracy,
        accuracy_bound=max(1 - (1 - _wilson(accuracy, rows, level)) / purity, 0.0),
    )


def _wilson(accuracy: float, rows: float, level: float) -> float:
    """Return the lower end of Wilson's one-sided interval."""
    z = float(norm.ppf(level))
    middle = accuracy + z * z / (2 * rows)
    spread = z * (accuracy * (1 - accuracy) / rows + z * z / (4 * rows * rows)) ** 0.5
    return float(max((middle - spread) / (1 + z * z / rows), 0.0))


def measure_targets(targets: GroupTargets, held_out: HeldOutRows) -> tuple[Evidence, ...]:
    """Measure heads or a predictor in every extreme mixture of the groups."""
    if targets.class_groups:  # too many to list: the worst one by risk, and by accuracy
        found = {
            "the mixture of the largest risk": targets.worst(held_out.loss),
            "the mixture of the lowest accuracy": targets.worst(-held_out.correct),
        }
        return tuple(
            measure(name, weight, held_out, together=len(found), purity=_least(targets, picks))
            for name, (weight, picks) in found.items()
        )
    together = len(targets.favoured)
    columns = targets.favoured, targets.blocks[0], targets.purity[0].tolist()
    return tuple(
        measure(_name(favoured, targets), weight, held_out, together=together, purity=purity)
        for favoured, weight, purity in zip(*columns, strict=True)
    )


def _least(targets: GroupTargets, picks: Tensor) -> float:
    """Return the least purity of the extremes that the blocks pick."""
    pairs = zip(targets.purity, picks.tolist(), strict=True)
    return min(float(block[pick]) for block, pick in pairs)


def _name(favoured: tuple[int, ...], targets: GroupTargets) -> str:
    if targets.belief.shape[1] == 1:
        return "pooled sources"
    numbers = " and ".join(str(u) for u in favoured)
    return f"group {numbers}" if targets.prior_shift is None else f"group {numbers} favoured"


def measure_sources(
    held_out: HeldOutRows, slices: Sequence[slice], names: Sequence[str]
) -> tuple[Evidence, ...]:
    """Measure heads or a predictor on every source."""
    evidence = []
    for rows, name in zip(slices, names, strict=True):
        weight = torch.zeros_like(held_out.loss)
        weight[rows] = 1 / (rows.stop - rows.start)
        evidence.append(measure(name, weight, held_out))
    return tuple(evidence)


def _mean_accuracy(held_out: HeldOutRows, slices: Sequence[slice]) -> float:
    return sum(float(held_out.correct[rows].mean()) for rows in slices) / len(slices)
