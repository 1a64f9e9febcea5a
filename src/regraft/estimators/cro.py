"""CROClassifier: the game over plausible domains as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from regraft.core.abduction import Groups, find_groups, rows_of_sources
from regraft.core.domains import Domains, warn_if_one_domain
from regraft.core.evidence import HeldOutRows
from regraft.core.game import GameOutcome, OnRound
from regraft.core.group_certificate import certify_latent
from regraft.core.group_heads import fit_group_heads
from regraft.core.head_certificate import certify_hull
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.hull import Objective, PlausibleTargets, check_rank, supported_radius
from regraft.core.hull_game import play_hull
from regraft.core.intervals import Interval
from regraft.core.latent_game import LatentOutcome, play_latent
from regraft.core.latent_witness import fit_group_map
from regraft.core.reference import Reference, take_reference
from regraft.core.surrogates import SurrogateKind
from regraft.core.transplant import Witness
from regraft.estimators.abduction import Abduction, describe_source_groups
from regraft.estimators.adapted import AdaptedClassifier
from regraft.estimators.adapting import adapt
from regraft.estimators.cro_settings import check_cro_settings, warn_if_far
from regraft.estimators.families import Family
from regraft.estimators.game_head import GameHead, warn_unless_converged
from regraft.estimators.intervals import interval_of
from regraft.estimators.parameter_types import check_numbers
from regraft.estimators.row_weights import ClassWeight
from regraft.estimators.witnesses import witness_of
from regraft.premises.factorized_targets import find_targets
from regraft.support.threads import threads_for

REMEDY = "max_rounds or tolerance, or the ridge"


class CROClassifier(GameHead):
    """Causal Robust Optimization: a linear head that is minimax over plausible unseen domains.

    By default, plausible domains are mixtures of the hidden groups that abduction finds in the
    sources. The head is ERM's unless the game's has a lower risk in the worst domain on held-out
    rows, by more than two paired standard errors and by more than it costs on the sources, promises
    no lower accuracy, and the sources look like mixtures of the groups.

    Parameters
    ----------
    family : {"latent", "hull", "factorized"}
        What counts as plausible: domains that mix the groups found by :func:`regraft.abduct` in any
        proportion; domains made of the sources' rows by weights that turn the heads of the sources
        into an affine combination of them within a radius; or the same with the sources' abductions
        in place of their heads, where labels are ``Σ_u softmax(A_s^T x)_u softmax(D_u^T x)`` with
        one deduction D, as in :func:`regraft.fit_latent`. The inputs of such domains move with the
        weights; a second bound of the certificate keeps them. (The paper's free adversary is
        :class:`~regraft.estimators.literal.LiteralCROClassifier`.)
    radius : float or None
        Of the hull and the factorized family: how far a target may lie from the sources' mean, in
        nats (root mean square of the change in the logits of classes, or of groups). It is an
        assumption about the deployment, not something to tune: source accuracy always prefers 0,
        which is plain ERM. None takes what K sources support: ``sqrt((K + 1) / (K - 1))`` times the
        distance of the farthest of them, which is where a further domain would lie if it were drawn
        as they were. A radius of more than three times that gets a warning.
    rank : int or None
        Of the hull, transplant dimension: the number of class directions (at most C - 1) in which
        targets may move. None keeps all.
    objective : {"risk", "regret"}
        Of the hull and the factorized family: minimize the worst risk (as in the paper), or the
        worst excess over the risk of each target's own labels. The optimism of fitting, as measured
        for ERM's head, is added to both.
    surrogate : {"reweighted", "relabelled", "transplanted"}
        Of the hull, how a target is made: real source rows with other weights (real inputs keep
        real labels), the same rows with labels drawn from the target's head, or rows moved by the
        transplant (the paper's equation). The last two are for study.
    prior_shift : float or None
        Of the latent family: the most by which the log-odds of any two groups may differ from
        those of the pooled sources, in nats. None allows every mixture.
    class_groups : bool
        Of the latent family: let every class mix the groups in its own proportion. A larger family,
        which can ruin small tables.
    n_groups : int
        Of the factorized family: the number of values of u, 2 or more.
    ridge : float or None
        Weight of the logits' variance in the learner's objective. None takes the ridge of the
        smallest held-out worst case (latent), or the cross-validated one of the pooled head.
    tolerance : float
        The game ends when its value moves by at most this many nats.
    max_rounds : int
        The game ends after so many rounds in any case, with a warning.
    class_weight : mapping, "balanced" or None
        Weights of the classes, by which those of the rows are multiplied: a mapping of classes to
        positive numbers (1 for those that it leaves out), or "balanced" for the same sum in each.
        Risks, accuracies and the certificate are then those of the weighted rows.
    device : str
        Where torch computes, such as "cpu" or "cuda".

    Attributes
    ----------
    coef_, intercept_, classes_, domains_, n_features_in_
        As in :class:`~regraft.estimators.linear.LinearHead`.
    certificate_ : GroupCertificate or HeadCertificate
        Of the latent family, or of the others.
    rounds_ : tuple of Round
    source_heads_ : ndarray (K, C, d + 1)
        Head of each source on ``[x, 1]``; their affine hull holds the hull's plausible heads.
    pooled_head_ : ndarray (C, d + 1)
        The ERM head from which the game started.
    abduction_ : Abduction
        Latent family: what was found about the hidden factor; not kept when the model is saved.
    group_map_ : ndarray (G, d + 1)
        Latent family: log-odds of the groups on ``[x, 1]``, up to a constant; see :meth:`witness`.
    group_heads_, group_prior_ : ndarray (G, C, d + 1), ndarray (C, G)
        Latent family: log P(y, u | x) of the pooled sources on ``[x, 1]``, up to a constant, and
        P(u | y).
    reference_ : Reference
        Latent family: up to 4,000 source rows, for :func:`regraft.place` and :func:`regraft.adapt`.
    hull_heads_ : ndarray (K, C, d + 1)
        Hull: source heads as points of the hull, cut to ``rank``, up to a constant over classes.
    hull_mixing_ : ndarray (m, K)
        Hull and factorized family: coefficients of ``hull_heads_``, or of ``abductions_``,
        in each of m orthogonal directions of one nat.
    abductions_, deduction_ : ndarray (K, G, d + 1), ndarray (G, C, d + 1)
        Factorized family: A_s and D on ``[x, 1]``.
    feature_mean_, feature_scale_ : ndarray (d,), float
        Mean of the source rows, and root mean variance of the features.
    regularization_ : Regularization
    """

    source_heads_: NDArray[np.float64]
    hull_heads_: NDArray[np.float64]
    hull_mixing_: NDArray[np.float64]
    group_map_: NDArray[np.float64]
    abductions_: NDArray[np.float64]
    deduction_: NDArray[np.float64]
    group_heads_: NDArray[np.float64]
    group_prior_: NDArray[np.float64]
    pooled_head_: NDArray[np.float64]
    feature_mean_: NDArray[np.float64]
    feature_scale_: float
    abduction_: Abduction
    reference_: Reference

    def __init__(
        self,
        family: Family = "latent",
        *,
        radius: float | None = None,
        rank: int | None = None,
        objective: Objective = "risk",
        surrogate: SurrogateKind = "reweighted",
        prior_shift: float | None = None,
        class_groups: bool = False,
        n_groups: int = 2,
        ridge: float | None = None,
        tolerance: float = 1e-3,
        max_rounds: int = 50,
        class_weight: ClassWeight = None,
        device: str = "cpu",
    ) -> None:
        self.family = family
        self.radius = radius
        self.rank = rank
        self.objective = objective
        self.surrogate = surrogate
        self.prior_shift = prior_shift
        self.class_groups = class_groups
        self.n_groups = n_groups
        self.ridge = ridge
        self.tolerance = tolerance
        self.max_rounds = max_rounds
        self.class_weight = class_weight
        self.device = device

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_domain: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        on_round: OnRound = None,
    ) -> Self:
        """Fit on rows ``X`` (n, d), labels ``y`` (n,), the domain and the weight of each row (n,).

        Within a domain, a row counts in proportion to its weight; domains weigh the same.
        ``on_round`` is called after each round of the game, for progress.
        """
        self.check_parameters()
        domains = self._check(X, y, sample_domain, sample_weight)
        check_rank(self.rank, len(domains.classes))
        warn_if_one_domain(
            domains, "nothing is known about how domains differ and the head is plain ERM's"
        )
        with threads_for(domains.X.numel()):
            return self.fit_sources(domains, fit_source_heads(domains), on_round=on_round)

    def fit_sources(
        self, domains: Domains, sources: SourceHeads, *, on_round: OnRound = None
    ) -> Self:
        """Fit as ``fit`` does on ``domains``, whose source heads are known already."""
        fit = self._fit_latent if self.family == "latent" else self._fit_hull
        self.set_sources(domains, sources, fit(domains, sources, on_round))
        return self

    def set_sources(self, domains: Domains, sources: SourceHeads, head: Tensor) -> None:
        """Set what all families have, and last the head (C, k)."""
        whitening = sources.whitening
        self.n_features_in_ = domains.X.shape[1]
        self.regularization_ = sources.regularization
        self.source_heads_ = whitening.to_features(sources.heads).cpu().numpy()
        self.pooled_head_ = whitening.to_features(sources.pooled).cpu().numpy()
        self.feature_mean_ = whitening.mean.cpu().numpy()
        self.feature_scale_ = float(whitening.eigenvalues.mean().sqrt())
        self._set_head(domains, whitening.to_features(head))

    def solve(self, sources: SourceHeads) -> Tensor:
        """Return the head (C, k) on whitened rows that ``fit`` gets from these source heads."""
        if self.family == "latent":
            latent = self.play_groups(sources, find_groups(rows_of_sources(sources)))
            warn_unless_converged(latent.game, REMEDY)
            return latent.head
        targets, _ = find_targets(sources, self.family, self.rank, self.n_groups)
        outcome = self._play_hull(sources, targets, self.choose_radius(targets)[0])
        warn_unless_converged(outcome, REMEDY)
        return outcome.head

    def choose_radius(self, targets: PlausibleTargets) -> tuple[float, float]:
        """Return the radius, and the one that the sources support, which it is by default."""
        supported = supported_radius(targets.hull)
        return (supported if self.radius is None else float(self.radius)), supported

    def _fit_latent(self, domains: Domains, sources: SourceHeads, on_round: OnRound) -> Tensor:
        groups = find_groups(rows_of_sources(sources))
        outcome = self.play_groups(sources, groups, on_round)
        warn_unless_converged(outcome.game, REMEDY)
        self.abduction_ = describe_source_groups(groups, sources, domains)
        self.certificate_ = certify_latent(
            outcome, sources, domains.texts, self.abduction_.to_dict(), domains.notes()
        )
        ridge = sources.regularization.pooled_ridge
        group_map = fit_group_map(
            sources.Z, sources.weight, groups.posterior, sources.whitening, ridge
        )
        self.group_map_ = sources.whitening.to_features(group_map).cpu().numpy()
        self.set_groups(domains, sources, groups, outcome.held_out)
        self.group_prior_ = outcome.targets.prior.cpu().numpy()
        return outcome.head

    def set_groups(
        self, domains: Domains, sources: SourceHeads, groups: Groups, held_out: HeldOutRows
    ) -> None:
        """Set the heads of the groups and the rows that stay with the model."""
        group_heads = fit_group_heads(sources, groups)
        self.group_heads_ = sources.whitening.to_features(group_heads.heads).cpu().numpy()
        self.reference_ = take_reference(domains, sources, groups, group_heads, held_out)

    def _fit_hull(self, domains: Domains, sources: SourceHeads, on_round: OnRound) -> Tensor:
        targets, maps = find_targets(sources, self.family, self.rank, self.n_groups)
        radius, supported = self.choose_radius(targets)
        if len(domains.names) > 1:
            warn_if_far(radius, supported)
        outcome = self._play_hull(sources, targets, radius, on_round)
        warn_unless_converged(outcome, REMEDY)
        self.certificate_ = certify_hull(
            sources,
            targets,
            outcome,
            names=domains.texts,
            ridge=sources.learner_ridge(self.ridge),
            objective=self.objective,
            surrogate=self.surrogate,
            radius=radius,
            notes=domains.notes(),
        )
        to_features = sources.whitening.to_features
        if maps is None:
            hull_heads = torch.stack([targets.hull.head(z) for z in targets.hull.sources])
            self.hull_heads_ = to_features(hull_heads).cpu().numpy()
        else:
            self.abductions_ = to_features(maps.abductions).cpu().numpy()
            self.deduction_ = to_features(maps.deduction).cpu().numpy()
        self.hull_mixing_ = targets.hull.mixing.cpu().numpy()
        return outcome.head

    def play_groups(
        self, sources: SourceHeads, groups: Groups, on_round: OnRound = None
    ) -> LatentOutcome:
        """Play the game of the latent family with the settings of this classifier."""
        return play_latent(
            sources,
            groups,
            prior_shift=self.prior_shift,
            class_groups=self.class_groups,
            ridge=self.ridge,
            tolerance=self.tolerance,
            max_rounds=self.max_rounds,
            on_round=on_round,
        )

    def _play_hull(
        self,
        sources: SourceHeads,
        targets: PlausibleTargets,
        radius: float,
        on_round: OnRound = None,
    ) -> GameOutcome:
        _, outcome = play_hull(
            sources,
            radius=radius,
            targets=targets,
            rank=self.rank,
            objective=self.objective,
            surrogate=self.surrogate,
            ridge=self.ridge,
            tolerance=self.tolerance,
            max_rounds=self.max_rounds,
            on_round=on_round,
        )
        return outcome

    def check_parameters(self) -> None:
        """Raise ``ValueError`` with one sentence if a setting is wrong or of another family."""
        check_numbers(self)
        check_cro_settings(self.get_params())

    def predict_interval(self, X: ArrayLike) -> Interval:
        """Return the least and largest P(y | x) over the plausible targets, for rows ``X`` (n, d).

        It is about each target's own conditional, so it need not hold what ``predict_proba`` says,
        which answers for all targets at once. Exact for the latent family, and for the others as
        stated in :func:`~regraft.core.intervals.hull_bounds` and
        :func:`~regraft.core.intervals.factorized_bounds`.
        """
        return interval_of(self, self._check_rows(X))

    def adapt(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_domain: ArrayLike | None = None
    ) -> AdaptedClassifier:
        """Return a classifier for a new domain, from rows ``X`` (n, d) and labels ``y`` (n,).

        See :func:`regraft.adapt`.
        """
        return adapt(self, X, y, sample_domain)

    def witness(self, weights: Mapping[Any, float] | None = None) -> Witness:
        """Return the transplants behind a plausible target, in raw features with a constant 1.

        For the hull and the factorized family, ``weights`` maps each domain to its affine
        coefficient. They sum to one, and negative ones extrapolate. Without ``weights``, the worst
        target of the certificate is taken. For the latent family, ``weights`` maps each group (0,
        1, …) to its share in the target; without them, nearly all of it is the worst group of the
        certificate.
        """
        check_is_fitted(self)
        return witness_of(self, weights)
