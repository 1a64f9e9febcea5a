"""Numbers of a certificate, each with a sentence that explains it."""

from __future__ import annotations

from dataclasses import dataclass

from regraft.core.certificate import CLOSURE_ROWS, CONFIDENCE, Certificate, FiniteSample
from regraft.support.glossary import meaning


@dataclass(frozen=True)
class Term:
    """One number of a certificate, explained."""

    name: str
    value: str  # with its unit, if it has one
    meaning: str  # one sentence


def explain_certificate(certificate: Certificate) -> tuple[Term, ...]:
    """Return the terms of a certificate, the most asked-for first."""
    terms = [
        *_worst_case_terms(certificate),
        *_game_terms(certificate),
        *_transplant_terms(certificate),
    ]
    if certificate.finite_sample is not None:
        terms += _finite_sample_terms(certificate.finite_sample)
    return tuple(terms)


def _worst_case_terms(c: Certificate) -> list[Term]:
    found = "found within the radius" if c.radius is not None else "that the free adversary found"
    risk = f"Cross-entropy of this head in the worst domain {found}"
    if c.objective == "regret":
        risk += ", less that of this domain's own head"
    if c.radius is not None and c.surrogate == "reweighted":
        risk += ", with ERM's optimism on its own rows added"
    return [
        Term(f"worst-case {c.objective}", f"{c.worst_case:.3f} nats", f"{risk}."),
        Term(
            "accuracy there",
            f"{c.worst_case_accuracy:.1%}",
            "Its accuracy in that domain, on the rows it was fitted on; another domain may have a "
            "lower accuracy at a lower risk.",
        ),
        Term(
            f"ERM's worst-case {c.objective}",
            f"{c.pooled_worst_case:.3f} nats",
            "The same for the ERM head that the game started from, in the domain worst for it.",
        ),
        Term(
            "hardest source",
            f"{c.source_risk:.3f} nats",
            "Largest cross-entropy of this head on one of the sources themselves.",
        ),
    ]


def _game_terms(c: Certificate) -> list[Term]:
    settled = "settled" if c.converged else "not settled"
    terms = [
        Term(
            "rounds",
            f"{len(c.rounds)}, {settled}",
            "How often the adversary named a domain and the learner answered all those so far.",
        ),
        Term(
            "minimax value",
            f"{c.value:.3f} nats",
            f"The learner's {c.objective} in the worst domain named, ridge included, which no "
            "linear head undercuts by more than the duality gap.",
        ),
        Term("duality gap", f"{c.gap:.0e} nats", meaning("duality gap")),
        Term("ridge term", f"{c.ridge_term:.3f} nats", meaning("ridge term")),
        Term("dimension", f"{c.dimension}", meaning("dimension")),
    ]
    # Only on the hull, and where rows keep their labels, is a head stepped back.
    return (
        terms + _step_back_terms(c) if (c.family, c.surrogate) == ("hull", "reweighted") else terms
    )


def _step_back_terms(c: Certificate) -> list[Term]:
    return [
        Term(
            "share of the way",
            f"{c.share:.0%}",
            "How far from ERM's head to the minimax one this head has gone: no further than its "
            "worst case, known to a standard error, calls for.",
        ),
        Term(
            "standard error",
            f"{c.standard_error:.3f} nats",
            "Of the minimax head's worst case; by stepping back, this head may be that much worse.",
        ),
    ]


def _transplant_terms(c: Certificate) -> list[Term]:
    space = "whitened" if c.family == "hull" else "standardized"
    return [
        Term("transplant rank", f"{c.witness_rank}", meaning("transplant rank")),
        Term(
            "fit residual",
            f"{c.fit_residual:.0e}",
            "Relative error of the worst domain's head on transplanted rows; 0 is exact.",
        ),
        Term(
            "biorthogonality residual",
            f"{c.biorthogonality_residual:.0e}",
            "How much these transplants touch the deduction, or miss the abduction; 0 is exact.",
        ),
        Term(
            "closure residual",
            f"{c.closure_residual:.3g}",
            f"Largest distance of a transplanted row of one source from the rows of another, in "
            f"{space} features, estimated on at most {CLOSURE_ROWS:,} rows of each.",
        ),
        Term("Lipschitz constant", f"{c.lipschitz:.3g}", meaning("Lipschitz constant")),
        Term("floor", f"{c.floor:.2g}", meaning("floor")),
        Term(
            "robustness slack",
            f"{c.robustness_slack:.3g} nats",
            "What the closure residual may add to the risk by the paper's bound: Lipschitz "
            "constant over floor, times residual.",
        ),
        Term(
            "softmax slack",
            f"{c.softmax_slack:.3g} nats",
            "The same by a sharper bound that holds for linear softmax heads.",
        ),
    ]


def _finite_sample_terms(terms: FiniteSample) -> list[Term]:
    return [
        Term("rows", f"{terms.rows:,}", "Of the smallest source."),
        Term(
            "metric entropy",
            f"{terms.metric_entropy:.3g}",
            f"Log of how many domains cover the plausible ones to {terms.resolution:g} nats.",
        ),
        Term(
            "statistical term",
            f"{terms.statistical:.3g}",
            "What new rows of the same plausible domains may add to the risk, with confidence "
            f"{CONFIDENCE:.0%} and a constant that the theory leaves open taken as 1; not that "
            "other rows would make other domains plausible.",
        ),
        Term(
            "optimization term",
            f"{terms.optimization:.2g} nats",
            "What the search left open: the duality gap, what the adversary still gains, and the "
            "step back towards ERM.",
        ),
    ]
