"""The head that is minimax over a region of mixtures.

For cross-entropy, the minimax head over a convex set of mixtures is the conditional of one of them:
the least favourable, whose own risk is largest. That risk is concave in the shares, and its slope
is the risk of its head in each group. So the search is one of Frank and Wolfe.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from regraft.core.group_shares import ShareRegion, target_log_probabilities
from regraft.core.newton import losses
from regraft.core.reference import Reference

_STEPS = 50
_TOLERANCE = 1e-4  # nats


@dataclass(frozen=True)
class LeastFavourable:
    """Mixture of a region whose head has the least risk in the worst mixture of the region."""

    shares: Tensor  # (G,) of the mixture
    worst: Tensor  # (G,) shares at which its head has the largest risk
    log_p: Tensor  # (m, C) of the reference rows, by its head


def find_least_favourable(region: ShareRegion, reference: Reference) -> LeastFavourable:
    """Find the minimax head among the conditionals of the mixtures in ``region``."""
    shares, laws = region.shares, reference.laws
    best: tuple[float, LeastFavourable] | None = None
    for step in range(_STEPS):
        log_p = target_log_probabilities(reference.log_joint, reference.shares, shares)
        risks = laws @ losses(log_p, reference.y)  # (G,)
        worst = region.farthest(risks)
        value = float(risks @ worst)
        if best is None or value < best[0]:
            best = value, LeastFavourable(shares, worst, log_p)
        if value - float(risks @ shares) <= _TOLERANCE:
            break
        shares = shares + 2 / (step + 3) * (worst - shares)
    assert best is not None
    return best[1]
