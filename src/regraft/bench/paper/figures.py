"""The paper's figures of a sweep."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regraft.bench.paper.benchmark import COLORED_MNIST, Benchmark
from regraft.support.chart_parts import Spec
from regraft.support.charts import (
    BETWEEN,
    ERM_HEAD,
    LAST_HEAD,
    lengths_chart,
    ranks_chart,
    risks_chart,
)
from regraft.support.looks import Look, look
from regraft.support.pictures import panels, picture

Runs = Iterable[Mapping[str, Any]]
RankCurves = Mapping[int, Sequence[tuple[int, float]]]  # pairs (r, risk) by held-out environment


def sweep_figures(
    benchmark: Benchmark, records: Sequence[Mapping[str, Any]], curves: Mapping[str, RankCurves]
) -> dict[str, Spec]:
    """Draw the figures that the paper has of a benchmark, by their names.

    ``records`` are its games. ``curves`` are those of :func:`draw_ranks`; a reading without any,
    as where no run varied the transplant dimension, is left out.
    """
    figures = {"checkpoints": draw_checkpoints(records, benchmark)}
    if benchmark.sweeps_ranks:
        drawn = {reading: by_env for reading, by_env in curves.items() if by_env}
        figures |= {"ranks": draw_ranks(drawn, benchmark)} if drawn else {}
        figures |= {"rounds": draw_rounds(records, benchmark)}
    return figures


def draw_checkpoints(records: Runs, benchmark: Benchmark = COLORED_MNIST) -> Spec:
    """Draw target risk against source risk of every checkpoint, and of the last heads alone."""
    runs = group_runs(records)
    looks = {_held_out(env, benchmark): look(env) for env in runs}
    games = [
        list(_points(run["checkpoints"], _held_out(env, benchmark)))
        for env, group in runs.items()
        for run in group
    ]
    every = [point for game in games for point in game]
    high = max(1e-3, *(point[key] for point in every for key in ("source", "target")))
    shown = {
        "Every head on the way": risks_chart(every, looks, ends=(-0.03 * high, 1.05 * high)),
        "The last heads, enlarged": risks_chart([game[-1] for game in games], looks),
    }
    title = f"{benchmark.title}: source risk and target risk"
    return panels(shown, (300, 480), title, "dashed: equal risks")


def draw_ranks(curves: Mapping[str, RankCurves], benchmark: Benchmark = COLORED_MNIST) -> Spec:
    """Draw the target risk, an error rate, over the transplant dimension r.

    ``curves`` holds the risks by reading of the method. One reading is named under the title, of
    several each has its own marks.
    """
    if not curves or not all(by_env and all(by_env.values()) for by_env in curves.values()):
        raise ValueError("there is nothing to draw: give every curve at least one point.")
    series: dict[str, Sequence[tuple[int, float]]] = {}
    looks: dict[str, Look] = {}
    for i, (reading, by_env) in enumerate(curves.items()):
        for env, curve in by_env.items():
            name = _held_out(env, benchmark) + (f", {reading}" if len(curves) > 1 else "")
            series[name] = curve
            looks[name] = replace(look((env + 3 * i) % 6), colour=look(env).colour)
    title = f"{benchmark.title}: target risk by transplant dimension"
    return picture(ranks_chart(series, looks), title, reading if len(curves) == 1 else "")


def draw_rounds(records: Runs, benchmark: Benchmark = COLORED_MNIST) -> Spec:
    """Draw how many rounds the runs took, as shares of the runs of each held-out environment."""
    runs = group_runs(records)
    counts = {env: Counter(run["rounds"] for run in group) for env, group in runs.items()}
    shares = {
        _held_out(env, benchmark): {rounds: n / found.total() for rounds, n in found.items()}
        for env, found in counts.items()
    }
    looks = {_held_out(env, benchmark): look(env) for env in runs}
    return picture(lengths_chart(shares, looks), f"{benchmark.title}: how long the game lasts")


def group_runs(records: Runs) -> dict[int, list[Mapping[str, Any]]]:
    """Group the runs by their one held-out environment; ``ValueError`` if there are none."""
    runs: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        if len(record["args"]["test_envs"]) == 1:
            runs[record["args"]["test_envs"][0]].append(record)
    if not runs:
        raise ValueError("there are no runs to draw: finish some with one test environment each.")
    return dict(sorted(runs.items()))


def _points(checkpoints: Sequence[Mapping[str, Any]], domain: str) -> Iterator[dict[str, Any]]:
    """Yield the marks of one game in the order of its steps."""
    ordered = sorted(checkpoints, key=lambda checkpoint: checkpoint["step"])
    # A run that ends at step 0 has the ERM head only.
    stages = {ordered[-1]["step"]: LAST_HEAD, 0: ERM_HEAD}
    for point in ordered:
        stage = stages.get(point["step"], BETWEEN)
        yield {
            "domain": domain, "stage": stage,
            "source": point["source_risk"], "target": point["target_risk"],
        }  # fmt: skip


def _held_out(env: int, benchmark: Benchmark) -> str:
    return f"{benchmark.environments[env]} held out"
