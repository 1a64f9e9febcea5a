"""Numbers of a certificate, each with a sentence that explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regraft.core.certificate import Certificate
from regraft.core.domain_scores import PERMUTATIONS
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import CLOSURE_ROWS, HeadCertificate
from regraft.estimators.evidence_tables import name_domains
from regraft.premises.verdicts import format_p_value
from regraft.support.data_files import read_toml
from regraft.support.glossary import meaning
from regraft.support.table import at_least


@dataclass(frozen=True)
class Term:
    """One number of a certificate, explained."""

    name: str
    value: str  # with its unit, if it has one
    meaning: str  # one sentence


def explain_certificate(certificate: Certificate) -> tuple[Term, ...]:
    """Return the terms of a certificate, the most asked-for first."""
    c = certificate
    chosen = {"bounds": True, "guard": c.advantage is not None, "rounds": bool(c.rounds)}
    words: dict[str, Any] = {
        "c": c,
        "scope": name_domains(c),
        "worst": c.worst_source,
        "rounds": len(c.rounds),
        "settled": "settled" if c.converged else "not settled",
        "own_accuracy": at_least(c.accuracy_bound),
        "pooled_accuracy": at_least(c.pooled_accuracy_bound),
    }
    if isinstance(c, GroupCertificate):
        chance = format_p_value(c.abduction["p_value"], PERMUTATIONS)
        words |= {"found": c.abduction, "chance": chance}
        chosen |= {"price": c.price is not None, "test": True, "factor": c.n_groups > 1}
    elif isinstance(c, HeadCertificate):
        words |= {"t": c.finite_sample, "closure_rows": CLOSURE_ROWS}
        words["space"] = "standardized" if c.family == "free" else "whitened"
        kept, terms = bool(c.kept), c.finite_sample is not None
        words["kept_accuracy"] = at_least(c.kept_accuracy) if kept else ""
        chosen |= {"regret": c.regret is not None, "kept": kept, "game": True}
        chosen |= {"transplants": True, "finite_sample": terms}
    terms_by_group = read_toml("regraft.estimators", "certificate_terms.toml")
    return tuple(
        _fill(term, words)
        for group, is_chosen in chosen.items()
        if is_chosen
        for term in terms_by_group[group]
    )


def _fill(term: Mapping[str, str], words: Mapping[str, Any]) -> Term:
    text = term.get("meaning") or meaning(term["name"])
    return Term(*(each.format(**words) for each in (term["name"], term["value"], text)))
