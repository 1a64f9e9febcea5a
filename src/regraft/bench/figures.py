"""Pictures of a sweep. Needs matplotlib (the extra ``plots``)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.bench.colored_mnist import ENVIRONMENTS
from regraft.plots import COLOURS, new_axes, write_picture

Runs = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class _Kind:
    """How a kind of checkpoint is drawn."""

    label: str
    area: int
    edge: float
    hollow: bool = False

    def draw(
        self, axes: Any, points: Sequence[Mapping[str, Any]], colour: str, **more: Any
    ) -> None:
        axes.scatter(
            [point["source_risk"] for point in points],
            [point["target_risk"] for point in points],
            s=self.area,
            linewidths=self.edge,
            edgecolors=colour,
            facecolors="none" if self.hollow else colour,
            **more,
        )


_FIRST = _Kind("ERM head (step 0)", area=26, edge=1.0, hollow=True)
_BETWEEN = _Kind("head in between", area=6, edge=0.0)
_LAST = _Kind("last head", area=26, edge=1.0)
_LINE_STYLES = ("-", "--", ":", "-.")
_RANKS = (1, 2, 4, 8, 16, 32, 64, 113, 128)  # beyond 113 the paper's CRO fails in -90%


def plot_checkpoints(
    records: Runs, path: str | Path, environments: Sequence[str] = ENVIRONMENTS
) -> None:
    """Write the target risk of every checkpoint against its source risk, both error rates.

    ``environments`` are their names, by number.
    """
    runs = _by_environment(records)
    figure, axes = new_axes()
    axes.axline((0, 0), slope=1, color="grey", linestyle="--", linewidth=1, label="equal risks")
    for env in runs:
        axes.scatter([], [], color=_colour(env), label=_held_out(env, environments))
    for kind in (_FIRST, _BETWEEN, _LAST):
        kind.draw(axes, [], "grey", label=kind.label)
    for kind in (_BETWEEN, _FIRST, _LAST):  # the small points lie below the others
        for env in runs:
            points = [point for run in runs[env] for point in _of_kind(kind, run["checkpoints"])]
            kind.draw(axes, points, _colour(env), alpha=0.7)
    axes.set_xlabel("source risk (error rate)")
    axes.set_ylabel("target risk (error rate)")
    axes.set_title("Source risk and target risk", loc="left")
    _legend(figure)
    write_picture(figure, path)


def plot_rank(
    curves: Mapping[str, Mapping[int, Sequence[tuple[int, float]]]], path: str | Path
) -> None:
    """Write the target risk, an error rate, over the transplant dimension r.

    ``curves`` holds pairs (r, risk), by reading of the method and by held-out environment.
    """
    if not curves or not all(curve for by_env in curves.values() for curve in by_env.values()):
        raise ValueError("there is nothing to draw: give every curve at least one point.")
    figure, axes = new_axes()
    for env in sorted({env for by_env in curves.values() for env in by_env}):
        axes.plot([], [], color=_colour(env), marker="o", markersize=4, label=_held_out(env))
    for i, (reading, by_env) in enumerate(curves.items()):
        style = _LINE_STYLES[i % len(_LINE_STYLES)]
        axes.plot([], [], color="grey", linestyle=style, label=reading)
        for env, curve in by_env.items():
            ranks, risks = zip(*sorted(curve), strict=True)
            colour = _colour(env)
            axes.plot(ranks, risks, color=colour, linestyle=style, marker="o", markersize=4)
    axes.set_xscale("log", base=2)
    axes.minorticks_off()
    axes.set_xticks(_RANKS, [str(rank) for rank in _RANKS])
    # Centred, the last two labels would touch.
    *_, before_last, last = axes.get_xticklabels()
    before_last.set_horizontalalignment("right")
    last.set_horizontalalignment("left")
    axes.set_xlabel("transplant dimension r")
    axes.set_ylabel("target risk (error rate)")
    axes.set_ylim(0, 1)
    axes.set_title("Target risk by transplant dimension", loc="left")
    _legend(figure)
    write_picture(figure, path)


def plot_rounds(records: Runs, path: str | Path) -> None:
    """Write how many rounds the runs took, as shares of the runs of each held-out environment."""
    runs = _by_environment(records)
    figure, axes = new_axes()
    width = 0.8 / len(runs)
    for i, env in enumerate(runs):
        counts = Counter(run["rounds"] for run in runs[env])
        axes.bar(
            [rounds + (i - (len(runs) - 1) / 2) * width for rounds in counts],
            [100 * count / counts.total() for count in counts.values()],
            width,
            color=_colour(env),
            label=_held_out(env),
        )
    seen = [run["rounds"] for group in runs.values() for run in group]
    axes.set_xticks(range(min(seen), max(seen) + 1))
    axes.set_axisbelow(True)
    axes.set_xlabel("rounds until the game ended")
    axes.set_ylabel("share of runs (%)")
    axes.set_title("How long the game lasts", loc="left")
    _legend(figure)
    write_picture(figure, path)


def _by_environment(records: Runs) -> dict[int, list[Mapping[str, Any]]]:
    """The runs by their one held-out environment; ``ValueError`` if there are none."""
    runs: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        if len(record["args"]["test_envs"]) == 1:
            runs[record["args"]["test_envs"][0]].append(record)
    if not runs:
        raise ValueError("there are no runs to draw: finish some with one test environment each.")
    return dict(sorted(runs.items()))


def _of_kind(kind: _Kind, checkpoints: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    last = max(checkpoint["step"] for checkpoint in checkpoints)
    kinds = {last: _LAST, 0: _FIRST}  # a run that ends at step 0 has the ERM head only
    return [point for point in checkpoints if kinds.get(point["step"], _BETWEEN) is kind]


def _colour(env: int) -> str:
    return COLOURS[env % len(COLOURS)]


def _held_out(env: int, environments: Sequence[str] = ENVIRONMENTS) -> str:
    return f"{environments[env]} held out"


def _legend(figure: Any) -> None:
    # Beside the axes, where it hides no point.
    figure.legend(loc="outside right upper", frameon=False)
