"""Audits by the free adversary: one attack of the paper's own adversary on a fixed linear head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike

from regraft.core.domains import check_domains, warn_if_one_domain
from regraft.core.evidence import CONFIDENCE, Evidence, judge, mean_accuracy, measure_sources
from regraft.core.free_adversary import FreeAdversary, FreeAdversaryOptions
from regraft.core.head_certificate import measure_target
from regraft.core.heads import fit_source_heads
from regraft.core.newton import log_probabilities
from regraft.core.standardization import standardize
from regraft.core.surrogates import SurrogateKind, check_surrogate
from regraft.estimators.audit import ONE_DOMAIN_CONSEQUENCE
from regraft.estimators.group_audit import COLUMNS, evidence_rows
from regraft.support.plain_data import PlainData
from regraft.support.shown import ShownResult
from regraft.support.table import Table, percent
from regraft.support.threads import threads_by_size

if TYPE_CHECKING:
    from regraft.estimators.pipelines import Model


@dataclass(frozen=True, repr=False)
class FreeAudit(ShownResult, PlainData):
    """Risk and accuracy of a fixed head in the worst domain that the free adversary found.

    The adversary has no bound but its penalties, and its search may miss the worst domain.
    """

    family: Literal["free"]
    target: Evidence
    sources: tuple[Evidence, ...]
    source_accuracy: float  # mean over the sources
    confidence: float
    surrogate: SurrogateKind

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FreeAudit:
        """Rebuild an audit from :meth:`to_dict`, also after a round trip through JSON."""
        sources = tuple(Evidence(**each) for each in data["sources"])
        return cls(**{**data, "target": Evidence(**data["target"]), "sources": sources})

    def paragraphs(self) -> tuple[str, ...]:
        """Say in plain words how good the head is in the worst domain found."""
        return (
            f"The head has {percent(self.source_accuracy)} on the sources and "
            f"{percent(self.target.accuracy)} in the worst domain that the free adversary found "
            f"(at least {percent(self.target.accuracy_bound)} with {self.confidence:.0%} "
            "confidence); there may be a worse one.",
        )

    def table(self) -> Table:
        """Show risk and accuracy in the worst domain found, and in each source."""
        parts = evidence_rows([self.target]), evidence_rows(self.sources)
        return Table.from_sections("The worst domain found, and each source", COLUMNS, *parts)

    def plot(self, path: str, name: str = "predictor") -> None:
        """Draw accuracy by domain to the picture ``path`` (needs the extra ``plots``)."""
        from regraft.estimators.plots import plot_free_audit

        plot_free_audit(self, path, name)


@threads_by_size
def audit_free(
    head: Model,
    X: ArrayLike,
    y: ArrayLike,
    sample_domain: ArrayLike,
    *,
    surrogate: SurrogateKind = "relabelled",
    random_state: int = 0,
    device: str = "cpu",
) -> FreeAudit:
    """Let the free adversary attack a fixed linear head once, and measure the head there.

    The adversary starts at the ERM head of these rows. It differentiates through the head, so other
    predictors cannot be audited this way.

    Parameters
    ----------
    head : LinearHead or Pipeline
        Fitted linear head of Regraft, or a pipeline that ends in one.
    X, y, sample_domain : array-like (n, d), (n,), (n,)
        Features, labels and the domain of each row; best rows that the head was not fitted on.
    surrogate : {"relabelled", "transplanted", "reweighted"}
        How a target is made, as in :class:`~regraft.estimators.literal.LiteralCROClassifier`.
    random_state : int
        Seed of the adversary's search.
    device : str
        Where torch computes, such as "cpu" or "cuda".

    Returns
    -------
    FreeAudit

    Raises
    ------
    ValueError
        If the data or the head is not usable; the message says how to fix it.
    """
    # Reports read audits, and need not wait for scikit-learn.
    from regraft.estimators.linear import LinearHead
    from regraft.estimators.pipelines import split_rows
    from regraft.estimators.unseen import warn_if_seen

    check_surrogate(surrogate)
    head, X = split_rows(head, X)
    if not isinstance(head, LinearHead) or not hasattr(head, "coef_"):
        raise ValueError(
            "the free adversary needs a linear head to attack, and rows that it was not fitted "
            "on: pass a fitted head of regraft with other rows, or take another family."
        )
    domains = check_domains(X, y, sample_domain, device=device)
    warn_if_seen(head, X, sample_domain)
    if not np.array_equal(head.classes_, domains.classes):
        raise ValueError(
            f"the head knows the classes {head.classes_.tolist()}, and the rows have "
            f"{domains.classes.tolist()}: pass rows of all of its classes and no others."
        )
    warn_if_one_domain(domains, ONE_DOMAIN_CONSEQUENCE)
    sources = fit_source_heads(domains)
    scaled = standardize(sources)
    start = scaled.from_features(sources.whitening.to_features(sources.pooled))
    fixed = scaled.from_features(torch.from_numpy(head._head).to(start.device))
    options = FreeAdversaryOptions(cro_rank=min(FreeAdversaryOptions.cro_rank, domains.X.shape[1]))
    adversary = FreeAdversary(scaled.rows, sources.slices, start, options, surrogate, random_state)
    found = adversary.attack(fixed)
    judged = judge(log_probabilities(scaled.rows.Z, fixed).T, sources.y)
    folds = len(sources.held_out.pooled)
    return FreeAudit(
        family="free",
        target=measure_target(found, sources, fixed.expand(folds, -1, -1)),
        sources=measure_sources(judged, sources.slices, domains.texts, sources.row_weight),
        source_accuracy=mean_accuracy(judged, sources.slices, sources.row_weight),
        confidence=CONFIDENCE,
        surrogate=surrogate,
    )
