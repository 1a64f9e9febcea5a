"""A certificate in plain words, with each of its terms explained."""

from __future__ import annotations

from regraft.core.certificate import Certificate
from regraft.estimators.certificate_terms import explain
from regraft.report.charts import rounds_chart
from regraft.report.elements import Chart, Section, Terms, Text
from regraft.support.table import Table

_SHOWN = 4  # terms before one unfolds the rest


def certificate_section(certificate: Certificate) -> Section:
    """What is certified, what it rests on, and what is not certified."""
    *certified, limits = certificate.summary()
    terms = Terms("The other terms, each explained", explain(certificate), shown=_SHOWN)
    return Section("The certificate", (*map(Text, certified), terms, Text(limits)))


def game_section(certificate: Certificate) -> Section:
    """The rounds of the game between adversary and learner."""
    kind = certificate.objective
    rows = tuple(
        (str(i), f"{r.attack_value:.4f}", f"{r.value:.4f}", f"{r.gap:.0e}", f"{r.sample_size:.0f}")
        for i, r in enumerate(certificate.rounds, start=1)
    )
    columns = "round", "worst domain found", "learner's answer", "duality gap", "effective rows"
    last = certificate.rounds[-1]
    description = (
        f"In {len(rows)} rounds the worst {kind} found went from "
        f"{certificate.rounds[0].attack_value:.3f} to {last.attack_value:.3f} nats and the "
        f"learner's answer ended at {last.value:.3f}."
    )
    return Section(
        "The game, round by round",
        (
            Text(
                "In each round an adversary names the plausible domain that is worst for the "
                "present head, and a learner answers with the head that is best against all "
                "domains named so far. The game ends when the learner's line stops rising; it has "
                f"the ridge added, {certificate.ridge_term:.3f} nats at the end."
            ),
            Chart(
                "Value of the game by round", rounds_chart(certificate.rounds, kind), description
            ),
            Table(f"Rounds: {kind} in nats", columns, rows),
        ),
    )
