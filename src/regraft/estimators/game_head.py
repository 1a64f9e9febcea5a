"""Base of the heads that come out of a game."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning

from regraft.core.certificate import Certificate
from regraft.core.game import GameOutcome, Round
from regraft.core.heads import Regularization
from regraft.estimators.linear import LinearHead


class GameHead(LinearHead):
    """Linear head with a ``certificate_`` and the ``regularization_`` of its source heads."""

    certificate_: Certificate
    regularization_: Regularization

    @property
    def rounds_(self) -> tuple[Round, ...]:
        """Rounds of the game."""
        return self.certificate_.rounds


def warn_unless_converged(outcome: GameOutcome | None, remedy: str) -> None:
    """Warn the caller of ``fit`` that a game stopped early; ``remedy`` names what to raise."""
    if outcome is not None and not outcome.converged:
        warnings.warn(
            f"the game did not settle in {len(outcome.rounds)} rounds: raise {remedy}.",
            ConvergenceWarning,
            stacklevel=3,
        )
