"""The certificate of a head for every mixture of hidden groups, measured on rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regraft.core.certificate import Certificate, join_evidence, measure_heads
from regraft.core.evidence import Evidence
from regraft.core.heads import SourceHeads
from regraft.core.latent_game import LatentOutcome, name_outside


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupCertificate(Certificate):
    """How good a head is in every domain that mixes the groups found, in any proportion.

    Extreme mixtures have one-sided bounds that hold together, and the worst mixture is among them.
    Not covered: domains, sources among them, that are no mixture of these groups, and errors in
    telling the groups apart.
    """

    n_groups: int
    prior_shift: float | None
    class_groups: bool
    price: float | None  # by how much its risk on the pooled sources is larger (nats)
    ridge: float | None  # chosen for the learner
    abduction: dict[str, Any]  # what was found about the hidden factor
    groups: tuple[Evidence, ...] = ()  # each group alone; the pooled sources if there is one
    pooled_groups: tuple[Evidence, ...] = ()  # ERM's

    def scope(self) -> str:
        """Name the domains that it covers."""
        if self.n_groups == 1:
            return "in a domain like the pooled sources"
        scope = "in every domain that mixes the groups found, in any proportion"
        if self.prior_shift is not None:
            scope = (
                "in every domain that mixes the groups found, with log-odds at most "
                f"{self.prior_shift:g} nats from the sources'"
            )
        return f"{scope} and each class in its own" if self.class_groups else scope

    def _bounded(
        self, targets: tuple[Evidence, ...], sources: tuple[Evidence, ...]
    ) -> tuple[Evidence, ...]:
        return targets  # sources are covered as far as they are mixtures

    def limits(self) -> str:
        """Say what is not certified."""
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
    sources: SourceHeads,
    names: Sequence[str],
    abduction: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> GroupCertificate:
    """Collect the evidence for the head of a game over groups, or for ERM's where that was kept.

    ``names`` are those of the sources, and ``notes`` say what to know of their rows.
    """
    targets, measured = outcome.targets, outcome.measured
    judged = outcome.held_out, outcome.pooled
    shared = join_evidence(
        *measure_heads(measured.in_targets, *judged, sources, names),
        notes=notes,
        game=outcome.game,
        source_rows=sources.sizes,
        reason=name_outside(outcome.reason, outcome.outside, names),
        advantage=outcome.advantage,
    )
    return GroupCertificate(
        family="latent",
        n_groups=targets.belief.shape[1],
        prior_shift=targets.prior_shift,
        class_groups=targets.class_groups,
        price=outcome.price,
        ridge=outcome.ridge,
        abduction=abduction,
        groups=measured.in_groups(outcome.held_out),
        pooled_groups=measured.in_groups(outcome.pooled),
        **shared,
    )
