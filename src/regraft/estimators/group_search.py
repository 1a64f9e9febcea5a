"""Linear heads that look for hidden groups by mistakes, without labels of them: JTT, EIIL, XRM.

Each finds rows that an ordinary head gets wrong and fits a second head that cares more for them.
They use the whitening and the cross-validated ridge of the other baselines. They ignore which
domain a row came from, except that every domain has the same mass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from sklearn.utils import Tags
from torch import Tensor

from regraft.core.cross_mistakes import find_cross_mistakes
from regraft.core.heads import SHRINKAGES, SMALLEST_RIDGE, SourceHeads, check_ridge
from regraft.core.newton import log_probabilities, logits, minimax_newton
from regraft.estimators.baselines import group_weights, minimax_over_groups, scale_slopes
from regraft.estimators.linear import LinearHead
from regraft.estimators.row_weights import ClassWeight

_UPWEIGHTS = (2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0, 100.0)  # the paper's are 4 to 100
_TOLERANCE = 1e-4  # nats of duality gap: the many groups of class and mistake make steps costly


class _GroupSearcher(LinearHead):
    """Base of heads that find groups of rows first, then a head that does well in all of them."""

    ridge: float | None

    def _check_parameters(self) -> None:
        check_ridge(self.ridge)


class _UnderfittedReader(_GroupSearcher):
    """Base of heads that find groups by what one underfitted head gets wrong."""

    reference_ridge: float

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not SMALLEST_RIDGE <= self.reference_ridge < float("inf"):
            raise ValueError(
                f"reference_ridge is {self.reference_ridge}: pass a finite number of "
                f"{SMALLEST_RIDGE:g} or more."
            )


class _MinimaxByMistake(_GroupSearcher):
    """Base of heads with the smallest worst risk over groups of class and mistake.

    If mistakes are noise and no hidden group explains them, that head guesses.
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # in scikit-learn's checks, mistakes are noise
        return tags

    def solve(self, sources: SourceHeads) -> Tensor:
        """Return the head (C, k) on whitened rows that ``fit`` gets from these source heads."""
        group = 2 * sources.y + self._find_mistakes(sources).long()
        ridge = sources.learner_ridge(self.ridge)
        return minimax_over_groups(sources, group, ridge, _TOLERANCE)

    def _find_mistakes(self, sources: SourceHeads) -> Tensor:
        """Return which rows (n,) form a group of their own in each class."""
        raise NotImplementedError


class JTTClassifier(_UnderfittedReader):
    """Just train twice (Liu et al. 2021): ERM again, with more weight on the first head's mistakes.

    The first head, which only identifies rows, is underfitted by a strong ridge where the paper
    stops training early. Rows that it gets wrong count ``upweight`` times in the second fit. The
    paper chooses both with labels of the groups. Here the ridge is fixed, and the factor has the
    smallest worst risk on held-out rows over the groups of class and mistake. Domains matter only
    in that each has the same mass.

    Parameters
    ----------
    upweight : float or None
        How many times a mistake counts, 1 or more; 1 is ERM. None chooses one from 2 to 100.
    reference_ridge : float
        Ridge of the first head, on principal coordinates that are hardly rescaled, so that strong
        directions are learned first. 1 is ten times the largest ridge that ERM chooses from.
    ridge : float or None
        Ridge of the second head, as in :class:`~regraft.estimators.cro.CROClassifier`.
    class_weight : mapping, "balanced" or None
        Weights of the classes, as in :class:`~regraft.estimators.cro.CROClassifier`.
    """

    def __init__(
        self,
        upweight: float | None = None,
        reference_ridge: float = 1.0,
        ridge: float | None = None,
        class_weight: ClassWeight = None,
    ) -> None:
        self.upweight = upweight
        self.reference_ridge = reference_ridge
        self.ridge = ridge
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.upweight is not None and not 1 <= self.upweight < float("inf"):
            raise ValueError(
                f"upweight is {self.upweight}: pass a finite number, 1 or more, or None to choose "
                "it on held-out rows."
            )

    def solve(self, sources: SourceHeads) -> Tensor:
        """Return the head (C, k) on whitened rows that ``fit`` gets from these source heads."""
        wrong = find_mistakes(sources, underfitted_head(sources, self.reference_ridge))
        groups = group_weights(sources.weight, 2 * sources.y + wrong.long())
        ridge = sources.learner_ridge(self.ridge)

        def refit(rows: Tensor, upweight: float) -> Tensor:
            weight = torch.where(wrong, upweight, 1.0) * rows * sources.weight
            return _weighted_head(sources, weight, ridge)

        def held_out_worst(upweight: float) -> float:
            loss = sources.held_out_losses(lambda rows: refit(rows, upweight))
            return float((groups @ loss).max())

        upweight = self.upweight or _first_minimum(held_out_worst, _UPWEIGHTS)
        return refit(torch.ones_like(wrong), upweight)


class EIILClassifier(_MinimaxByMistake, _UnderfittedReader):
    """Environment inference for invariant learning (Creager et al. 2021), then GroupDRO.

    Rows are split into the two environments in which an underfitted head breaks invariance most:
    the mean square over environments of IRMv1's derivative is largest. It is convex in the soft
    assignment of rows, so the best assignment is hard, and found exactly: the rows whose loss rises
    when the logits are scaled up, and the others. With two classes these are the head's mistakes.

    The head then has the smallest worst risk over the groups of environment and class, as in the
    paper's problems with groups. IRM, its other choice, is not convex and depends on a penalty
    that the paper chooses with labels of the groups. Where mistakes are noise, not a hidden group,
    this head guesses. Domains matter only in that each has the same mass.

    Parameters
    ----------
    reference_ridge : float
        Ridge of the underfitted head, as in :class:`JTTClassifier`; not tuned.
    ridge : float or None
        Ridge of the head, as in :class:`~regraft.estimators.cro.CROClassifier`.
    class_weight : mapping, "balanced" or None
        Weights of the classes, as in :class:`~regraft.estimators.cro.CROClassifier`.
    """

    def __init__(
        self,
        reference_ridge: float = 1.0,
        ridge: float | None = None,
        class_weight: ClassWeight = None,
    ) -> None:
        self.reference_ridge = reference_ridge
        self.ridge = ridge
        self.class_weight = class_weight

    def _find_mistakes(self, sources: SourceHeads) -> Tensor:
        return infer_environments(sources, underfitted_head(sources, self.reference_ridge))


class XRMClassifier(_MinimaxByMistake):
    """Cross-risk minimization (Pezeshki et al. 2023) in linear form, then GroupDRO.

    Two heads learn from one half of the rows each. The more confident one is about a row of the
    other's half, the more of the row's label its answer replaces. Both are fitted again, until the
    labels settle: they confirm each other's shortcuts. Rows that either gets wrong by the given
    label are cross mistakes. The head then has the smallest worst risk over the groups of class and
    cross mistake. Where mistakes are noise, not a hidden group, this head guesses.

    As in the paper, the ridge of the two heads is the one under which most labels are replaced;
    this needs no groups. There is no seed: halves are dealt by domain, class and distance from the
    mean, and labels are replaced in expectation. Domains matter only for this dealing, and in that
    each has the same mass.

    Parameters
    ----------
    ridge : float or None
        Ridge of the head, as in :class:`~regraft.estimators.cro.CROClassifier`.
    class_weight : mapping, "balanced" or None
        Weights of the classes, as in :class:`~regraft.estimators.cro.CROClassifier`.
    """

    def __init__(self, ridge: float | None = None, class_weight: ClassWeight = None) -> None:
        self.ridge = ridge
        self.class_weight = class_weight

    def _find_mistakes(self, sources: SourceHeads) -> Tensor:
        return find_cross_mistakes(sources)


def underfitted_head(sources: SourceHeads, ridge: float) -> Tensor:
    """Return the ERM head (C, k) with a ridge on coordinates whitened with the most shrinkage.

    These are nearly the raw ones, where a strong ridge does what stopping descent early does: weak
    directions stay unlearned.
    """
    column_ridge = ridge * sources.whitening.penalty(SHRINKAGES[-1])
    return _weighted_head(sources, sources.weight, column_ridge)


def find_mistakes(sources: SourceHeads, head: Tensor) -> Tensor:
    """Return which rows (n,) a head (C, k) gets wrong."""
    return logits(sources.Z, head).argmax(dim=1) != sources.y


def infer_environments(sources: SourceHeads, head: Tensor) -> Tensor:
    """Return the environment (n,), true or false, of each row that breaks invariance most.

    With row weights w, derivatives s and an assignment q, the sum of squares of ``Σ q·w·s`` and
    ``Σ (1 - q)·w·s`` is to be largest. It depends on the first sum alone and is convex in it, so
    that sum must be as large as it can be: q is 1 where s is positive, and 0 elsewhere.
    """
    return scale_slopes(log_probabilities(sources.Z, head), sources.y) > 0


def _first_minimum(function: Callable[[float], float], values: Sequence[float]) -> float:
    """Return the value at which ``function`` stops falling."""
    best = function(values[0])
    for value, following in pairwise(values):
        previous, best = best, function(following)
        if best >= previous:
            return value
    return values[-1]


def _weighted_head(sources: SourceHeads, weight: Tensor, ridge: Tensor) -> Tensor:
    """Return the head (C, k) of the smallest risk under ``weight`` (n,), of any sum."""
    # A fold may hold all rows of tiny sources; the head fitted without it is then zero.
    weights = (weight / weight.sum().clamp_min(torch.finfo(weight.dtype).tiny)).unsqueeze(0)
    return minimax_newton(sources.Z, sources.y, weights, ridge=ridge, start=sources.pooled).head
