"""Numbers of a certificate, each with a sentence that explains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regraft.core.certificate import CLOSURE_ROWS, CONFIDENCE, Certificate
from regraft.core.certificates import AnyCertificate
from regraft.core.group_certificate import GroupCertificate
from regraft.estimators.group_tables import name_mixtures
from regraft.support.data_files import read_toml
from regraft.support.glossary import meaning


@dataclass(frozen=True)
class Term:
    """One number of a certificate, explained."""

    name: str
    value: str  # with its unit, if it has one
    meaning: str  # one sentence


def explain_certificate(certificate: AnyCertificate) -> tuple[Term, ...]:
    """Return the terms of a certificate, the most asked-for first."""
    if isinstance(certificate, GroupCertificate):
        chosen, words = _explain_groups(certificate)
    else:
        chosen, words = _explain_worst_case(certificate)
    terms = read_toml("regraft.estimators", "certificate_terms.toml")
    return tuple(
        _fill(term, words)
        for group, is_chosen in chosen.items()
        if is_chosen
        for term in terms[group]
    )


def _explain_groups(c: GroupCertificate) -> tuple[dict[str, bool], dict[str, Any]]:
    chosen = {
        "mixtures": True,
        "guard": c.advantage is not None,
        "price": c.price is not None,
        "rounds": bool(c.rounds),
        "test": True,
        "factor": c.n_groups > 1,
    }
    return chosen, {"c": c, "found": c.abduction, "scope": name_mixtures(c), **_game_words(c)}


def _explain_worst_case(c: Certificate) -> tuple[dict[str, bool], dict[str, Any]]:
    on_hull = c.radius is not None
    reweighted = c.surrogate == "reweighted"
    chosen = {
        "worst_case": True,
        "rounds": True,
        "game": True,
        "guard": c.advantage is not None,
        "transplants": True,
        "finite_sample": c.finite_sample is not None,
    }
    words = {
        "c": c,
        "t": c.finite_sample,
        "found": "found within the radius" if on_hull else "that the free adversary found",
        "less": ", less that of this domain's own head" if c.objective == "regret" else "",
        "optimism": ", with ERM's optimism on its own rows added" if on_hull and reweighted else "",
        "space": "whitened" if c.family == "hull" else "standardized",
        "closure_rows": CLOSURE_ROWS,
        "confidence": CONFIDENCE,
        **_game_words(c),
    }
    return chosen, words


def _game_words(c: AnyCertificate) -> dict[str, Any]:
    return {"rounds": len(c.rounds), "settled": "settled" if c.converged else "not settled"}


def _fill(term: Mapping[str, str], words: Mapping[str, Any]) -> Term:
    text = term.get("meaning") or meaning(term["name"])
    return Term(*(each.format(**words) for each in (term["name"], term["value"], text)))
