"""The price of robustness: heads trained at several radii, measured on rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike
from torch import Tensor

from regraft.core.domains import Domains, check_domains, warn_if_one_domain
from regraft.core.game import GameOutcome
from regraft.core.heads import SourceHeads, check_ridge, fit_source_heads
from regraft.core.hull import (
    Hull,
    Objective,
    TiltedRows,
    attack,
    check_objective,
    check_rank,
    plausible_targets,
    tilt_rows,
)
from regraft.core.hull_adversary import HullOptions
from regraft.core.hull_game import play_hull
from regraft.core.newton import log_probabilities, losses
from regraft.core.splitting import hold_out
from regraft.estimators.audit import ONE_DOMAIN_CONSEQUENCE, RADII, check_radii
from regraft.support.plain_data import PlainData
from regraft.support.progress import OnProgress, ignore_progress


@dataclass(frozen=True)
class FrontierPoint:
    """Head trained at one radius, measured on rows that it was not trained on."""

    radius: float
    source_accuracy: float
    worst_case_accuracy: float  # over targets within the frontier's audit radius
    worst_case_risk: float


@dataclass(frozen=True)
class Frontier(PlainData):
    """Cost of robustness on the sources, and its gain in the worst case."""

    points: tuple[FrontierPoint, ...]
    audit_radius: float

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Frontier:
        """Rebuild a frontier from :meth:`to_dict`, also after a round trip through JSON."""
        return cls(**{**data, "points": tuple(FrontierPoint(**point) for point in data["points"])})

    def plot(self, path: str) -> None:
        """Draw the frontier to the picture ``path`` (needs the extra ``plots``)."""
        from regraft.estimators.plots import plot_frontier

        plot_frontier(self, path)


@dataclass(frozen=True)
class HeldOut:
    """Source heads fitted on two thirds of the rows, and the others, which measure heads."""

    sources: SourceHeads
    hull: Hull
    test: Domains  # the rows held out
    Z: Tensor  # (n, k) these rows, whitened
    tilted: TiltedRows  # the same, to be reweighted
    names: list[str]  # of the domains

    @classmethod
    def of(cls, domains: Domains, rank: int | None, seed: int | None) -> HeldOut:
        """Hold rows out and fit the source heads on the rest; ``ValueError`` if there are too few.

        ``seed`` shuffles the rows first.
        """
        train, test = hold_out(domains, seed)
        sources = fit_source_heads(train)
        hull, _ = plausible_targets(sources, rank)
        Z = sources.whitening(test.X)
        tilted = tilt_rows(hull, Z, test.y, test.weight)
        return cls(sources, hull, test, Z, tilted, [str(name) for name in domains.names])

    def measure(self, head: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses and the errors (n,) of a head (C, k) on the rows held out."""
        log_p = log_probabilities(self.Z, head)
        return losses(log_p, self.test.y), (log_p.argmax(dim=1) != self.test.y).to(log_p.dtype)

    def frontier(
        self,
        radii: Sequence[float],
        ridge: float | None,
        options: HullOptions,
        on_progress: OnProgress = ignore_progress,
    ) -> tuple[Frontier, dict[float, GameOutcome]]:
        """Play one game for each radius and measure its head; also return the games by radius."""
        points, games = [], {}
        for radius in radii:
            _, games[radius] = play_hull(self.sources, radius=radius, ridge=ridge, **options)
            loss, error = self.measure(games[radius].head)
            point = FrontierPoint(
                radius=radius,
                source_accuracy=1 - float(self.test.weight @ error),
                worst_case_accuracy=1 - attack(self.tilted, error, max(radii)).value,
                worst_case_risk=attack(self.tilted, loss, max(radii)).value,
            )
            points.append(point)
            on_progress(f"fitted at radius {radius:g}")
        return Frontier(tuple(points), audit_radius=max(radii)), games


def frontier(
    X: ArrayLike,
    y: ArrayLike,
    sample_domain: ArrayLike,
    radii: Sequence[float] = RADII,
    *,
    objective: Objective = "risk",
    rank: int | None = None,
    ridge: float | None = None,
    seed: int | None = None,
    device: str = "cpu",
    on_progress: OnProgress = ignore_progress,
) -> Frontier:
    """Compare source accuracy to worst-case accuracy for heads trained at each radius.

    Two thirds of the rows train the heads, and the others measure them. The worst case is taken
    within the largest of ``radii``, the same for all heads.

    Parameters
    ----------
    X, y, sample_domain : array-like (n, d), (n,), (n,)
        Features, labels and the domain of each row.
    radii : sequence of float
        Radii at which heads are trained, in nats.
    objective, rank, ridge
        As in :class:`~regraft.estimators.cro.CROClassifier`.
    seed : int or None
        Shuffles the rows before every third is held out; None keeps their order.
    device : str
        Where torch computes, such as "cpu" or "cuda".
    on_progress : callable, optional
        Called with a line of text when a head is fitted and measured.

    Returns
    -------
    Frontier

    Raises
    ------
    ValueError
        If the data or an argument is not usable; the message says how to fix it.
    """
    radii = check_radii(radii)
    check_objective(objective)
    check_ridge(ridge)
    domains = check_domains(X, y, sample_domain, device=device)
    check_rank(rank, len(domains.classes))
    held_out = HeldOut.of(domains, rank, seed)
    warn_if_one_domain(domains, ONE_DOMAIN_CONSEQUENCE)
    options: HullOptions = {"rank": rank, "objective": objective}
    return held_out.frontier(radii, ridge, options, on_progress)[0]
