"""Pictures of a sweep. Needs matplotlib (the extra ``plots``)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regraft.bench.paper.benchmark import COLORED_MNIST, Benchmark
from regraft.support.drawing import MUTED, WIDE, Look, legend_below, look, new_figure, style

Runs = Iterable[Mapping[str, Any]]
RankCurves = Mapping[int, Sequence[tuple[int, float]]]  # pairs (r, risk) by held-out environment


@dataclass(frozen=True)
class _Kind:
    """How a kind of checkpoint is drawn."""

    label: str
    area: int
    edge: float
    hollow: bool = False

    def draw(
        self, axes: Any, points: Sequence[Mapping[str, Any]], own: Look, label: str | None = None
    ) -> None:
        axes.scatter(
            [point["source_risk"] for point in points],
            [point["target_risk"] for point in points],
            s=self.area,
            linewidths=self.edge,
            edgecolors=own.colour,
            facecolors="none" if self.hollow else own.colour,
            marker=own.marker,
            alpha=0.75,
            label=label,
        )


_FIRST = _Kind("ERM head (step 0)", area=34, edge=1.2, hollow=True)
_BETWEEN = _Kind("head in between", area=12, edge=0.0)
_LAST = _Kind("last head", area=34, edge=1.2)
_ANY = replace(look(0), colour=MUTED)  # whichever environment is held out


def sweep_figures(
    benchmark: Benchmark, records: Sequence[Mapping[str, Any]], curves: Mapping[str, RankCurves]
) -> dict[str, Any]:
    """The figures that the paper has of a benchmark, by their names.

    ``records`` are its games. ``curves`` are those of :func:`draw_ranks`; a reading without any,
    as where no run varied the transplant dimension, is left out.
    """
    figures = {"checkpoints": draw_checkpoints(records, benchmark)}
    if benchmark.sweeps_ranks:
        drawn = {reading: by_env for reading, by_env in curves.items() if by_env}
        figures |= {"ranks": draw_ranks(drawn, benchmark)} if drawn else {}
        figures |= {"rounds": draw_rounds(records, benchmark)}
    return figures


@style()
def draw_checkpoints(records: Runs, benchmark: Benchmark = COLORED_MNIST) -> Any:
    """The target risk of every checkpoint against its source risk, both error rates.

    The second panel has the last head of every run alone.
    """
    runs = _by_environment(records)
    figure = new_figure(WIDE)
    every, last = figure.subplots(1, 2, width_ratios=(1, 1.4))
    for kind in (_BETWEEN, _FIRST, _LAST):  # the small points lie below the others
        for env, group in runs.items():
            lists = [run["checkpoints"] for run in group]
            kind.draw(every, [p for points in lists for p in _of_kind(kind, points)], look(env))
            ends = [max(points, key=lambda point: point["step"]) for points in lists]
            kind.draw(last, [p for end in ends for p in _of_kind(kind, [end])], look(env))
    high = max(*every.dataLim.max, 1e-3)
    every.set(xlim=(-0.03 * high, 1.05 * high), ylim=(-0.03 * high, 1.05 * high), aspect="equal")
    last.margins(0.12)
    every.set_title(f"{benchmark.title}: source risk and target risk")
    last.set_title("The last heads, enlarged")
    for env in runs:
        _LAST.draw(every, [], look(env), label=_held_out(env, benchmark))
    for axes in (every, last):
        _draw_diagonal(axes)
        axes.set_xlabel("source risk (error rate)")
        axes.set_ylabel("target risk (error rate)")
    for kind in (_FIRST, _BETWEEN, _LAST):
        kind.draw(every, [], _ANY, label=kind.label)
    legend_below(figure, every, columns=4)
    return figure


@style()
def draw_ranks(curves: Mapping[str, RankCurves], benchmark: Benchmark = COLORED_MNIST) -> Any:
    """The target risk, an error rate, over the transplant dimension r.

    ``curves`` holds the risks by reading of the method. The dimensions that occur are evenly
    spaced: what happens to the paper's CRO happens among the last few.
    """
    if not curves or not all(by_env and all(by_env.values()) for by_env in curves.values()):
        raise ValueError("there is nothing to draw: give every curve at least one point.")
    figure = new_figure()
    axes = figure.subplots()
    all_curves = [curve for by_env in curves.values() for curve in by_env.values()]
    ranks = sorted({rank for curve in all_curves for rank, _ in curve})
    for env in sorted({env for by_env in curves.values() for env in by_env}):
        axes.plot(
            [],
            [],
            look(env).marker,
            ls="-",
            color=look(env).colour,
            label=_held_out(env, benchmark),
        )
    for i, by_env in enumerate(curves.values()):
        for env, curve in by_env.items():
            axes.plot(
                [ranks.index(rank) for rank, _ in sorted(curve)],
                [risk for _, risk in sorted(curve)],
                look(env).marker,
                ls=look(i).dashes,
                color=look(env).colour,
            )
    axes.set_xticks(range(len(ranks)), [str(rank) for rank in ranks])
    axes.set_xlabel("transplant dimension r (evenly spaced, not to scale)")
    axes.set_ylabel("target risk (error rate)")
    axes.set_ylim(0, 1 / (1 - 0.08 * len(curves)))  # room for the readings above all curves
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    legend_below(figure, axes)
    axes.set_title(f"{benchmark.title}: target risk by transplant dimension")
    readings = [
        axes.plot([], [], color=MUTED, ls=look(i).dashes, label=reading)[0]
        for i, reading in enumerate(curves)
    ]
    axes.legend(handles=readings, loc="upper left", borderaxespad=0.1)
    return figure


@style()
def draw_rounds(records: Runs, benchmark: Benchmark = COLORED_MNIST) -> Any:
    """How many rounds the runs took, as shares of the runs of each held-out environment."""
    runs = _by_environment(records)
    figure = new_figure()
    axes = figure.subplots()
    width = 0.8 / len(runs)
    for i, env in enumerate(runs):
        counts = Counter(run["rounds"] for run in runs[env])
        axes.bar(
            [rounds + (i - (len(runs) - 1) / 2) * width for rounds in counts],
            [100 * count / counts.total() for count in counts.values()],
            width,
            color=look(env).colour,
            hatch=look(env).hatch,
            edgecolor="white",
            label=_held_out(env, benchmark),
        )
    seen = [run["rounds"] for group in runs.values() for run in group]
    axes.set_xticks(range(min(seen), max(seen) + 1))
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("rounds until the game ended")
    axes.set_ylabel("share of runs (%)")
    axes.set_title(f"{benchmark.title}: how long the game lasts")
    legend_below(figure, axes)
    return figure


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


def _draw_diagonal(axes: Any) -> None:
    limits = {"xlim": axes.get_xlim(), "ylim": axes.get_ylim()}
    axes.axline((0, 0), slope=1, color=MUTED, ls="--", lw=1, label="equal risks")
    axes.set(**limits)


def _held_out(env: int, benchmark: Benchmark) -> str:
    return f"{benchmark.environments[env]} held out"
