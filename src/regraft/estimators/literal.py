"""LiteralCROClassifier: the paper's free adversary, with the paper's parameter names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

import torch

from regraft.core.domains import Domains
from regraft.core.free_adversary import FreeAdversary, FreeAdversaryOptions
from regraft.core.game import play
from regraft.core.head_certificate import certify_free
from regraft.core.heads import SourceHeads
from regraft.core.hull_game import answer_without
from regraft.core.learner import Learner
from regraft.core.standardization import standardize
from regraft.core.surrogates import SurrogateKind, check_surrogate
from regraft.estimators.game_head import GameHead, warn_unless_converged
from regraft.estimators.row_weights import ClassWeight


class LiteralCROClassifier(GameHead):
    """Causal Robust Optimization with a free adversary, for study beside :class:`CROClassifier`.

    It shares the game, the learner and the certificate with the hull; the family is free (any
    abductions under exact biorthogonality, found by Adam) and bounded by penalties instead of a
    radius. Any direction of the head can then be attacked, so its answers are weak where the
    sources agree: see ``docs/readings.md`` before using it. Features are standardized, g* starts
    at the pooled ERM head, and the learner's ridge is the one cross-validated for that head.

    Parameters
    ----------
    surrogate : {"relabelled", "transplanted", "reweighted"}
        How a target is made: pooled rows with labels drawn from g*, transplanted rows with
        labels drawn from g*, or rows that keep their labels and change their weights.
    cro_rank : int
        Transplant dimension r, from 1 to the number of features.
    cro_gap_eps : float
        The game ends when its value moves by at most this many nats.
    cro_max_outer_iters : int
        Rounds after which it ends regardless.
    cro_adv_lr, cro_adv_epochs, cro_adv_batch
        Adam's learning rate at the start of an ascent (it falls to zero at its end), passes over
        the smallest source, and rows per source and step.
    cro_lambda_consist, cro_lambda_hausdorff, cro_lambda_op
        Weights of Fit (averaged over sources), Closure and the transplants' operator norms.
    cro_val_frac : float
        Share of each source's rows that judge an ascent instead of driving it.
    class_weight : mapping, "balanced" or None
        Weights of the classes, as in :class:`~regraft.estimators.cro.CROClassifier`.
    random_state : int
    device : str
        Where torch computes. For problems this small, "cpu" is usually faster.

    Attributes
    ----------
    coef_, intercept_, classes_, domains_, n_features_in_
        As in :class:`~regraft.estimators.linear.LinearHead`.
    certificate_ : HeadCertificate
    regularization_ : Regularization
    """

    _of_one_domain = "nothing says which part of the features is abduction"

    def __init__(
        self,
        surrogate: SurrogateKind = "relabelled",
        *,
        cro_rank: int = FreeAdversaryOptions.cro_rank,
        cro_gap_eps: float = 3e-3,
        cro_max_outer_iters: int = 10,
        cro_adv_lr: float = FreeAdversaryOptions.cro_adv_lr,
        cro_adv_epochs: int = FreeAdversaryOptions.cro_adv_epochs,
        cro_adv_batch: int = FreeAdversaryOptions.cro_adv_batch,
        cro_lambda_consist: float = FreeAdversaryOptions.cro_lambda_consist,
        cro_lambda_hausdorff: float = FreeAdversaryOptions.cro_lambda_hausdorff,
        cro_lambda_op: float = FreeAdversaryOptions.cro_lambda_op,
        cro_val_frac: float = FreeAdversaryOptions.cro_val_frac,
        class_weight: ClassWeight = None,
        random_state: int = 0,
        device: str = "cpu",
    ) -> None:
        self.surrogate = surrogate
        self.cro_rank = cro_rank
        self.cro_gap_eps = cro_gap_eps
        self.cro_max_outer_iters = cro_max_outer_iters
        self.cro_adv_lr = cro_adv_lr
        self.cro_adv_epochs = cro_adv_epochs
        self.cro_adv_batch = cro_adv_batch
        self.cro_lambda_consist = cro_lambda_consist
        self.cro_lambda_hausdorff = cro_lambda_hausdorff
        self.cro_lambda_op = cro_lambda_op
        self.cro_val_frac = cro_val_frac
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device

    def fit_sources(self, domains: Domains, sources: SourceHeads) -> Self:
        """Fit as ``fit`` does on ``domains``, whose source heads are known already."""
        scaled, to_features = standardize(sources), sources.whitening.to_features
        start = scaled.from_features(to_features(sources.pooled))
        ridge = sources.regularization.pooled_ridge
        adversary = FreeAdversary(
            scaled.rows, sources.slices, start, self._options(), self.surrogate, self.random_state
        )
        outcome = play(
            adversary,
            Learner(ridge=ridge),
            start,
            tolerance=self.cro_gap_eps,
            max_rounds=self.cro_max_outer_iters,
        )
        warn_unless_converged(outcome, "cro_max_outer_iters or cro_gap_eps")
        starts = scaled.from_features(to_features(sources.held_out.pooled))
        every = torch.arange(len(sources.y), device=sources.y.device)
        answers = [
            answer_without(outcome, every[sources.held_out.fold != f], len(every), ridge, head)
            for f, head in enumerate(starts)
        ]
        heads = scaled.from_features(to_features(sources.heads))
        self.certificate_ = certify_free(
            scaled.rows,
            sources,
            outcome,
            adversary.witness(outcome.worst, heads),
            heads=torch.stack(answers),
            starts=starts,
            names=domains.texts,
            ridge=ridge,
            surrogate=self.surrogate,
            notes=domains.notes(),
        )
        self.regularization_ = sources.regularization
        self._set_head(domains, scaled.to_features(outcome.head))
        return self

    def _options(self) -> FreeAdversaryOptions:
        known = {field.name for field in fields(FreeAdversaryOptions)}
        chosen = {name: value for name, value in self.get_params().items() if name in known}
        return FreeAdversaryOptions(**chosen)

    def _check_parameters(self) -> None:
        check_surrogate(self.surrogate)
        least: dict[str, Any] = {
            "cro_max_outer_iters": 2,
            "cro_adv_epochs": 1,
            "cro_adv_batch": 1,
            "cro_lambda_consist": 0,
            "cro_lambda_hausdorff": 0,
            "cro_lambda_op": 0,
        }
        for name, low in least.items():
            if not low <= getattr(self, name) < float("inf"):
                raise ValueError(
                    f"{name} is {getattr(self, name)}: pass a number of {low} or more."
                )
        for name in ("cro_gap_eps", "cro_adv_lr"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}: pass a positive number.")
        if not 0 < self.cro_val_frac < 1:
            raise ValueError(
                f"cro_val_frac is {self.cro_val_frac}: pass a share between 0 and 1, such as 0.1."
            )
