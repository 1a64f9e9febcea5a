"""HullPlacement of a labelled domain among the plausible targets of other domains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from regraft.core.domains import Domains, index_column
from regraft.core.features import check_features
from regraft.core.heads import fit_source_heads
from regraft.core.hull import plausible_targets
from regraft.core.newton import log_probabilities, losses
from regraft.premises.multinomial_maps import OutcomeData, crossfit_probabilities


@dataclass(frozen=True)
class HullPlacement:
    """Plausible target under which a domain's labels are most likely."""

    distance: float  # from the mean of the sources, in nats: the radius that includes it
    weights: dict[str, float]  # affine coefficients of the sources
    risk: float  # cross-entropy of that target's head on the domain
    own_risk: float  # cross-entropy of a head fitted to the domain itself, on unseen rows

    @property
    def misfit(self) -> float:
        """Nats per row that no plausible target explains; about zero if the domain is plausible."""
        return self.risk - self.own_risk


def place_domain(domains: Domains, X: ArrayLike, y: ArrayLike, *, seed: int = 0) -> HullPlacement:
    """Find the plausible target of two or more ``domains`` that is nearest to a labelled domain.

    ``X`` (n, d) and ``y`` (n,) are its features and labels; if their columns or classes differ
    from those of the sources, ``ValueError`` is raised. ``seed`` shuffles before cross-fitting.
    """
    if len(domains.names) < 2:
        raise ValueError("one source has no hull to place a domain in: pass two sources or more.")
    features = check_features(X)
    if features.shape[1] != domains.X.shape[1]:
        raise ValueError(
            f"the domain to place has {features.shape[1]} features, its sources "
            f"{domains.X.shape[1]}: pass rows of the same."
        )
    found, labels = index_column(y, "y", len(features))
    if found.tolist() != domains.classes.tolist():
        raise ValueError(
            f"the domain to place has the classes {found.tolist()}, its sources "
            f"{domains.classes.tolist()}: pass rows of the same."
        )
    sources = fit_source_heads(domains)
    hull, _ = plausible_targets(sources)
    order = np.random.default_rng(seed).permutation(len(features))
    target = torch.from_numpy(labels[order]).to(domains.y)
    rows = torch.from_numpy(features[order]).to(domains.X.device)
    Z = sources.whitening(rows).to(hull.center.dtype)
    moves = hull.directions @ Z.T  # (m, C, n)

    def risk(z: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_p = log_probabilities(Z, hull.head(torch.from_numpy(z).to(hull.center)))
        residual = log_p.exp()
        residual[torch.arange(len(target)), target] -= 1
        slope = torch.einsum("mcn,nc->m", moves, residual) / len(target)
        return float(losses(log_p, target).mean()), slope.cpu().numpy()

    best = minimize(risk, np.zeros(len(hull.directions)), jac=True, method="BFGS")
    own = OutcomeData(Z, target, len(domains.classes))
    p = crossfit_probabilities(own)
    weights = hull.coefficients(torch.from_numpy(best.x).to(hull.center)).tolist()
    return HullPlacement(
        distance=float(np.linalg.norm(best.x)),
        weights={str(name): w for name, w in zip(domains.names, weights, strict=True)},
        risk=float(best.fun),
        own_risk=float(losses(p.log(), target).mean()),
    )
