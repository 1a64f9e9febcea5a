"""The price of robustness: heads for several sizes of shift, measured on rows not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from regraft.core.abduction import find_groups, rows_of_sources
from regraft.core.domains import check_domains, warn_if_one_domain
from regraft.core.group_evidence import measure_targets
from regraft.core.group_targets import check_prior_shift
from regraft.core.guard import STANDARD_ERRORS as _CLEAR
from regraft.core.guard import WorstCase, compare_worst_cases
from regraft.core.heads import SourceHeads, check_ridge, fit_source_heads
from regraft.core.hull import Objective, PlausibleTargets, attack, check_objective, check_rank
from regraft.core.hull_game import play_hull
from regraft.core.latent_game import NOT_WORTH, judge_folds, play_latent
from regraft.core.splitting import check_counts
from regraft.estimators.audit import ONE_DOMAIN_CONSEQUENCE, RADII, check_radii
from regraft.estimators.families import Family, check_settings
from regraft.estimators.frontier_point import FrontierPoint
from regraft.estimators.group_audit import ONE_SOURCE_CONSEQUENCE
from regraft.estimators.parameter_types import sort_numbers
from regraft.premises.factorized_targets import check_n_groups, find_targets
from regraft.support.measured import MeasuredShare
from regraft.support.plain_data import PlainData
from regraft.support.progress import OnProgress, ignore_progress
from regraft.support.shown import ShownResult
from regraft.support.table import Cell, Number, Table
from regraft.support.threads import threads_by_size

_MEASURED = (
    "Every row is measured once, by a head that has not seen it; mean over the sources; in "
    "brackets, 95 % intervals."
)
_INTERVALS = "±: half of the 95 % interval. Every row counts once, by a head that has not seen it."
_AT_LEAST = (
    "These intervals take the group of every row as known. The bounds (at least) also allow for "
    "rows whose group is uncertain, as the certificate of a fit does: they are the ones to quote."
)
PRIOR_SHIFTS = (0.0, 0.5, 1.0, 2.0, 4.0, math.inf)


@dataclass(frozen=True, repr=False)
class Frontier(ShownResult, PlainData):
    """Cost of robustness on the sources, and its gain in the worst case."""

    points: tuple[FrontierPoint, ...]
    audit_radius: float | None  # of the hull, in which the worst case is; None for every mixture
    family: Family = "hull"
    has_factor: bool = True  # latent family: whether a hidden factor was found

    @property
    def trained(self) -> str:
        """What tells the heads apart."""
        far = "how far the mix of groups may move"
        return f"{far if self.family == 'latent' else 'training radius'} (nats)"

    @property
    def scope(self) -> str:
        """Over which domains the worst case is taken."""
        if self.audit_radius is None:
            return "worst mixture of the groups"
        return f"worst domain within {self.audit_radius:g} nats"

    def paragraphs(self) -> tuple[str, ...]:
        """Compare the first and the last head in one sentence."""
        first, last = self.points[0], self.points[-1]
        if not self.has_factor:
            return (
                "No hidden factor was found, so there is no mix of groups to move and nothing to "
                f"trade: the head is ERM's, with {last.source} on the sources. {_MEASURED}",
            )
        moved = "the training radius goes from"
        if self.family == "latent":
            moved = "the mix of groups may move further, from"
        start = "any distance" if first.label == "any" else f"{first.label} nats"
        end = "any distance" if last.label == "any" else f"{last.label} nats"
        source = _tell_change(first.source, last.source, last.source_change_error)
        worst = _tell_change(first.worst_case, last.worst_case, last.worst_case_change_error)
        changes = (
            f"{self.price()} As {moved} {start} to {end}, accuracy on the sources {source}; in the "
            f"{self.scope} it {worst}. {_MEASURED}"
        )
        bound = () if last.worst_case_bound is None else (_AT_LEAST,)
        return (changes, *filter(None, [self.decision()]), *bound)

    def decision(self) -> str:
        """Say that a fit for the last size of shift returns ERM's head, and why; may be empty."""
        last = self.points[-1]
        if not last.reason or last.prior_shift == 0:
            return ""
        if last.cost is None or last.gain is None:  # no game was played
            return f"All of these are the ordinary model, because {last.reason}."
        said = f"These are the robust models. A fit returns the ordinary one, because {last.reason}"
        if last.reason == NOT_WORTH:
            said += f": {last.cost:.3f} nats of risk there, against {last.gain:.3f}"
        return f"{said}."

    def price(self) -> str:
        """Say in points what robustness costs on the sources, and what it buys."""
        first, last = self.points[0], self.points[-1]
        change = _clear_change(first.source, last.source, last.source_change_error)
        gain = _clear_change(first.worst_case, last.worst_case, last.worst_case_change_error)
        paid = f"costs {100 * -change:.1f} points" if change < 0 else "costs nothing"
        if change > 0:
            paid = f"gains {100 * change:.1f} points"
        bought = f"buys {100 * gain:.1f} points" if gain > 0 else "buys nothing"
        if gain < 0:
            bought = f"loses {100 * -gain:.1f} points"
        return (
            f"Robustness {paid} in domains like the sources, and {bought} in the worst domain, as "
            "far as chance lets one tell."
        )

    def table(self) -> Table:
        """Show the accuracies of each head, and its risk in the worst case."""
        columns = ["accuracy on the sources", f"in the {self.scope}", "risk there (nats)"]
        rows: list[list[Cell]] = [
            [p.label, _cell(p.source), _cell(p.worst_case), Number(p.worst_case_risk, format=".3f")]
            for p in self.points
        ]
        note = _INTERVALS
        if self.points[-1].worst_case_bound is not None:
            note = f"{note}\n{_AT_LEAST}"
            columns = [*columns[:2], "at least", columns[2], "fit returns"]
            rows = [
                [*row[:3], p.at_least, row[3], p.returned]
                for row, p in zip(rows, self.points, strict=True)
            ]
        cells = tuple(map(tuple, rows))
        return Table("Measured on rows not seen", (self.trained, *columns), cells, note=note)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Frontier:
        """Rebuild a frontier from :meth:`to_dict`, also after a round trip through JSON."""
        return cls(**{**data, "points": tuple(FrontierPoint(**point) for point in data["points"])})

    def plot(self, path: str) -> None:
        """Draw the frontier to the picture ``path`` (needs the extra ``plots``)."""
        from regraft.estimators.plots import plot_frontier

        plot_frontier(self, path)


@threads_by_size
def frontier(
    X: Any,
    y: ArrayLike,
    sample_domain: ArrayLike,
    radii: Sequence[float] | None = None,
    *,
    family: Family = "latent",
    prior_shifts: Sequence[float] | None = None,
    class_groups: bool = False,
    objective: Objective = "risk",
    rank: int | None = None,
    n_groups: int = 2,
    ridge: float | None = None,
    device: str = "cpu",
    on_progress: OnProgress = ignore_progress,
) -> Frontier:
    """Compare source accuracy to worst-case accuracy for heads trained for each size of shift.

    Heads are trained without each third of the rows in turn, and measured on that third, so that
    every row counts once. The worst case is the same for all heads: over all mixtures of the groups
    found, or within the largest of ``radii``.

    Parameters
    ----------
    X, y, sample_domain : array-like (n, d), (n,), (n,)
        Features, labels and the domain of each row, also of tables, as in :func:`regraft.abduct`.
    radii : sequence of float or None
        Of the hull and the factorized family: radii at which heads are trained, in nats. None takes
        0 to 16.
    family : {"latent", "hull", "factorized"}
        What counts as plausible, as in :class:`~regraft.estimators.cro.CROClassifier`.
    prior_shifts : sequence of float or None
        Of the latent family: bounds on the prior shift at which heads are trained, in nats;
        ``math.inf`` allows every mixture. None takes 0, 0.5, 1, 2, 4 and infinity.
    class_groups, objective, rank, n_groups, ridge
        As in :class:`~regraft.estimators.cro.CROClassifier`.
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
    # Reports read frontiers, and need not wait for scikit-learn.
    from regraft.estimators.raw_tables import fit_features

    given = {"radii": radii, "prior_shifts": prior_shifts}
    settings = {name: None if steps is None else list(steps) for name, steps in given.items()}
    own = {"rank": rank, "objective": objective, "class_groups": class_groups}
    check_settings(family, settings | own | {"n_groups": n_groups})
    check_n_groups(n_groups)
    check_ridge(ridge)
    X = fit_features(X, sample_domain)[1]
    shifts = check_prior_shifts(PRIOR_SHIFTS if prior_shifts is None else prior_shifts)
    steps = check_radii(RADII if radii is None else radii)
    check_objective(objective)
    domains = check_domains(X, y, sample_domain, device=device)
    check_counts(domains)
    check_rank(rank, len(domains.classes))
    if family == "latent":
        warn_if_one_domain(domains, ONE_SOURCE_CONSEQUENCE)
        sources = fit_source_heads(domains)
        return _latent_frontier(sources, shifts, class_groups, ridge, on_progress)
    warn_if_one_domain(domains, ONE_DOMAIN_CONSEQUENCE)
    sources = fit_source_heads(domains)
    targets, _ = find_targets(sources, family, rank, n_groups)
    points = _hull_points(sources, targets, steps, objective, ridge, on_progress)
    return Frontier(points, audit_radius=steps[-1], family=family)


def check_prior_shifts(prior_shifts: Sequence[float]) -> list[float | None]:
    """Return the bounds once each, sorted, infinity as None, or raise ``ValueError``."""
    values = sort_numbers(prior_shifts, "prior_shifts")
    if not values:
        raise ValueError("prior_shifts is empty: pass at least one number of nats.")
    bounds = [None if shift == math.inf else shift for shift in values]
    for bound in bounds:
        check_prior_shift(bound)
    return bounds


def _hull_points(
    sources: SourceHeads,
    targets: PlausibleTargets,
    radii: Sequence[float],
    objective: Objective,
    ridge: float | None,
    on_progress: OnProgress,
) -> tuple[FrontierPoint, ...]:
    """Play one game for each radius, and measure its heads on the folds that they have not seen."""
    points: list[FrontierPoint] = []
    first: _JudgedHead | None = None
    for radius in radii:
        _, game = play_hull(
            sources, radius=radius, ridge=ridge, targets=targets, objective=objective
        )
        assert game.answers is not None  # this game has the heads without each fold
        held_out = judge_folds(sources, game.answers)
        error = 1 - held_out.correct
        worst = attack(targets.rows, error, radii[-1])
        judged = _JudgedHead(error, sources.weight, worst.weights, worst.value)
        first = first or judged
        risk = attack(targets.rows, held_out.loss, radii[-1]).value
        points.append(judged.point(first, radius=radius, worst_case_risk=risk))
        on_progress(f"fitted at radius {radius:g}")
    return tuple(points)


def _latent_frontier(
    sources: SourceHeads,
    shifts: Sequence[float | None],
    class_groups: bool,
    ridge: float | None,
    on_progress: OnProgress,
) -> Frontier:
    """Play one game for each bound, and measure its heads on the folds that they have not seen."""
    groups = find_groups(rows_of_sources(sources))
    has_factor = groups.n_groups > 1
    if not has_factor:
        shifts = shifts[-1:]  # the head is ERM's, however far a mix may move
    points: list[FrontierPoint] = []
    first: _JudgedHead | None = None
    for shift in shifts:
        outcome = play_latent(
            sources, groups, prior_shift=shift, class_groups=class_groups, ridge=ridge
        )
        targets = replace(outcome.targets, prior_shift=None)
        held_out = outcome.held_out
        if outcome.reason and outcome.answers and shift != 0:  # the robust head, as if it was taken
            held_out = judge_folds(sources, torch.stack([each.head for each in outcome.answers]))
        error = 1 - held_out.correct
        worst = targets.worst(error)[0]
        judged = _JudgedHead(error, sources.weight, worst, float(worst @ error))
        first = first or judged
        risk = float(targets.worst(held_out.loss)[0] @ held_out.loss)
        point = judged.point(
            first,
            radius=None,
            worst_case_risk=risk,
            prior_shift=shift,
            worst_case_bound=min(e.accuracy_bound for e in measure_targets(targets, held_out)),
            reason=outcome.reason,
            cost=outcome.price,
            gain=None if outcome.advantage is None else outcome.advantage.gain,
        )
        points.append(point)
        on_progress(f"fitted where the mix of groups may move by {point.label} nats")
    return Frontier(tuple(points), audit_radius=None, family="latent", has_factor=has_factor)


@dataclass(frozen=True)
class _JudgedHead:
    """Errors of heads on rows that they have not seen, and how these count."""

    error: Tensor  # (n,) 0 or 1
    base: Tensor  # (n,) weights of the rows as they are
    worst: Tensor  # (n,) in the worst domain
    worst_error: float  # there

    def point(self, first: _JudgedHead, **settings: Any) -> FrontierPoint:
        """Return the point of the head, compared to the ``first`` head on the same rows."""
        return FrontierPoint(
            source_accuracy=1 - float(self.base @ self.error),
            worst_case_accuracy=1 - self.worst_error,
            source_rows=float(1 / self.base.square().sum()),
            worst_case_rows=float(1 / self.worst.square().sum()),
            source_change_error=_paired_error(first, self, "base"),
            worst_case_change_error=_paired_error(first, self, "worst"),
            **settings,
        )


def _paired_error(first: _JudgedHead, other: _JudgedHead, weights: str) -> float:
    """Return the standard error of the difference of two heads' accuracies."""
    cases = (WorstCase(getattr(each, weights), each.error) for each in (first, other))
    return compare_worst_cases(*cases).standard_error


def _clear_change(first: MeasuredShare, last: MeasuredShare, error: float | None) -> float:
    """Return by how much an accuracy changes, 0 where chance explains it."""
    change = last.value - first.value
    return change if abs(change) > _CLEAR * (error or 0.0) else 0.0


def _tell_change(first: MeasuredShare, last: MeasuredShare, error: float | None) -> str:
    """Say how an accuracy changes, or that it does not by more than chance explains."""
    if error is not None and first.value == last.value:
        return f"does not change: {last}"
    if error is not None and not _clear_change(first, last, error):
        return f"does not change by more than chance explains ({first} before, {last} after)"
    return f"goes from {first} to {last}"


def _cell(accuracy: MeasuredShare) -> Number:
    return Number(accuracy.value, (accuracy.high - accuracy.low) / 2, ".1%")
