"""CROClassifier: the game over the hull as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from regraft.core.certificate import certify_hull
from regraft.core.domains import Domains, warn_if_one_domain
from regraft.core.game import GameOutcome, Round
from regraft.core.heads import SourceHeads, check_ridge, fit_source_heads
from regraft.core.hull import (
    Hull,
    Objective,
    check_objective,
    check_radius,
    check_rank,
)
from regraft.core.hull_game import play_hull
from regraft.core.surrogates import SurrogateKind, check_surrogate
from regraft.core.transplant import Witness, affine_combination, find_witness
from regraft.estimators.game_head import GameHead, warn_unless_converged


class CROClassifier(GameHead):
    """Causal Robust Optimization: a linear head that is minimax over plausible unseen domains.

    Of the heads between ERM's and the minimax one, it is the nearest to ERM's whose worst case is
    within one standard error of the best.

    Parameters
    ----------
    radius : float, default 8.0
        How far a target may lie from the sources' mean, in nats (root mean square of the change
        in the logits). It is an assumption about the deployment, not something to tune: source
        accuracy always prefers 0, which is plain ERM.
    rank : int or None
        Transplant dimension: the number of class directions (at most C - 1) in which targets may
        move. None keeps all.
    objective : {"risk", "regret"}
        Minimize the worst risk (as in the paper), or the worst excess over the risk of each
        target's own head. The optimism of fitting, as measured for ERM's head, is added to both.
    surrogate : {"reweighted", "relabelled", "transplanted"}
        How a target is made: real source rows with other weights (real inputs keep real
        labels), the same rows with labels drawn from the target's head, or rows moved by the
        transplant (the paper's equation). The last two are for study.
    ridge : float or None
        Weight of the logits' variance in the learner's objective; None takes the cross-validated
        ridge of the pooled head. The part of the ridge that suppresses weak directions of the
        features is cross-validated in any case.
    tolerance : float
        The game ends when its value moves by at most this many nats.
    max_rounds : int
        The game ends after so many rounds in any case, with a warning.
    device : str
        Where torch computes, such as "cpu" or "cuda".

    Attributes
    ----------
    coef_, intercept_, classes_, domains_, n_features_in_
        As in :class:`~regraft.estimators.linear.LinearHead`.
    certificate_ : Certificate
    rounds_ : tuple of Round
    source_heads_ : ndarray (K, C, d + 1)
        Head of each source on ``[x, 1]``; their affine hull holds the plausible targets' heads.
    hull_heads_ : ndarray (K, C, d + 1)
        The same heads as points of the hull: cut to ``rank``, and up to a constant over classes.
    pooled_head_ : ndarray (C, d + 1)
        The ERM head from which the game started.
    feature_mean_, feature_scale_ : ndarray (d,), float
        Mean of the source rows, and root mean variance of the features.
    regularization_ : Regularization
    """

    source_heads_: NDArray[np.float64]
    hull_heads_: NDArray[np.float64]
    pooled_head_: NDArray[np.float64]
    feature_mean_: NDArray[np.float64]
    feature_scale_: float

    def __init__(
        self,
        radius: float = 8.0,
        *,
        rank: int | None = None,
        objective: Objective = "risk",
        surrogate: SurrogateKind = "reweighted",
        ridge: float | None = None,
        tolerance: float = 1e-3,
        max_rounds: int = 50,
        device: str = "cpu",
    ) -> None:
        self.radius = radius
        self.rank = rank
        self.objective = objective
        self.surrogate = surrogate
        self.ridge = ridge
        self.tolerance = tolerance
        self.max_rounds = max_rounds
        self.device = device

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_domain: ArrayLike | None = None,
        *,
        on_round: Callable[[Round], None] | None = None,
    ) -> Self:
        """Fit on rows ``X`` (n, d), labels ``y`` (n,) and the domain of each row (n,).

        ``on_round`` is called after each round of the game, for progress.
        """
        self._check_parameters()
        domains = self._check(X, y, sample_domain, self.device)
        check_rank(self.rank, len(domains.classes))
        warn_if_one_domain(
            domains, "nothing is known about how domains differ and the head is plain ERM's"
        )
        return self.fit_sources(domains, fit_source_heads(domains), on_round=on_round)

    def fit_sources(
        self,
        domains: Domains,
        sources: SourceHeads,
        *,
        on_round: Callable[[Round], None] | None = None,
    ) -> Self:
        """Fit as ``fit`` does on ``domains``, whose source heads are known already."""
        plausible, outcome = self._play(sources, on_round)
        warn_unless_converged(outcome, "max_rounds or tolerance, or the ridge")
        self.certificate_ = certify_hull(
            sources,
            plausible,
            outcome,
            names=[str(name) for name in domains.names],
            ridge=sources.learner_ridge(self.ridge),
            objective=self.objective,
            surrogate=self.surrogate,
            radius=float(self.radius),
        )
        self.n_features_in_ = domains.X.shape[1]
        whitening = sources.whitening
        hull_heads = torch.stack([plausible.head(z) for z in plausible.sources])
        self.regularization_ = sources.regularization
        self.source_heads_ = whitening.to_features(sources.heads).cpu().numpy()
        self.hull_heads_ = whitening.to_features(hull_heads).cpu().numpy()
        self.pooled_head_ = whitening.to_features(sources.pooled).cpu().numpy()
        self.feature_mean_ = whitening.mean.cpu().numpy()
        self.feature_scale_ = float(whitening.eigenvalues.mean().sqrt())
        self._set_head(domains, whitening.to_features(outcome.head))
        return self

    def solve(self, sources: SourceHeads) -> Tensor:
        """Return the head (C, k) on whitened rows that ``fit`` gets from these source heads."""
        _, outcome = self._play(sources)
        warn_unless_converged(outcome, "max_rounds or tolerance, or the ridge")
        return outcome.head

    def _play(
        self, sources: SourceHeads, on_round: Callable[[Round], None] | None = None
    ) -> tuple[Hull, GameOutcome]:
        options = {name: value for name, value in self.get_params().items() if name != "device"}
        return play_hull(sources, on_round=on_round, **options)

    def _check_parameters(self) -> None:
        check_radius(self.radius)
        check_objective(self.objective)
        check_surrogate(self.surrogate)
        check_ridge(self.ridge)
        if not self.tolerance > 0:
            raise ValueError(f"tolerance is {self.tolerance}: pass a positive number of nats.")
        if self.max_rounds < 2:
            raise ValueError(f"max_rounds is {self.max_rounds}: the game needs 2 rounds or more.")

    def witness(self, weights: Mapping[Any, float] | None = None) -> Witness:
        """Return the transplants behind a plausible target, in raw features with a constant 1.

        ``weights`` maps each domain to its affine coefficient. They sum to one, and negative ones
        extrapolate. Without ``weights``, the worst target of the certificate is taken.
        """
        check_is_fitted(self)
        names = [str(name) for name in self.domains_]
        chosen = self.certificate_.worst_target if weights is None else weights
        given = {str(name): float(value) for name, value in chosen.items()}
        if sorted(given) != sorted(names):
            raise ValueError(
                f"weights names the domains {sorted(given)}: give one weight for each of {names}."
            )
        heads = torch.from_numpy(self.hull_heads_)
        mean, scale = torch.from_numpy(self.feature_mean_), self.feature_scale_
        # In centred and scaled features, weights and intercepts are of one size.
        coef = scale * heads[..., :-1]
        intercept = heads[..., -1:] + (heads[..., :-1] @ mean).unsqueeze(-1)
        heads = torch.cat([coef, intercept], dim=-1)
        weight = heads.new_tensor([given[name] for name in names])
        return find_witness(affine_combination(heads, weight), heads).in_features(mean, scale)
