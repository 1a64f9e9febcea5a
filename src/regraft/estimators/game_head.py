"""What the heads that come out of a game have in common."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning

from regraft.core.certificate import Certificate
from regraft.core.game import GameOutcome, Round
from regraft.core.heads import Regularization
from regraft.estimators.linear import LinearHead


class GameHead(LinearHead):
    """A linear head with a ``certificate_`` and the ``regularization_`` of its source heads."""

    certificate_: Certificate
    regularization_: Regularization

    @property
    def rounds_(self) -> tuple[Round, ...]:
        """The rounds of the game."""
        return self.certificate_.rounds


def warn_unless_converged(outcome: GameOutcome, remedy: str) -> None:
    """Warn, in the name of the caller of ``fit``, that a game stopped early; say what to raise."""
    if not outcome.converged:
        warnings.warn(
            f"the game did not settle in {len(outcome.rounds)} rounds: raise {remedy}.",
            ConvergenceWarning,
            stacklevel=3,
        )
