"""A reproduction as one document, for the report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from regraft.bench.paper.figures import RankCurves
from regraft.bench.paper.report import accuracy_table

if TYPE_CHECKING:
    from regraft.bench.paper.experiment import Reproduction


def reproduction_document(result: Reproduction, curves: RankCurves, data: str) -> dict[str, Any]:
    """Return the numbers of ``result`` and of its figures by the name of the held-out domain.

    ``data`` is the fingerprint of what it was made from. Checkpoints are [share of the game,
    source risk, target risk], of ``curves`` [rank, risk].
    """
    names = result.benchmark.environments
    table = accuracy_table(
        result.baselines | {result.label: result.selection}, benchmark=result.benchmark
    )
    return result.to_dict() | {
        "benchmark": result.benchmark.title,
        "data": data,
        "tables": [table.to_dict()],
        "checkpoints": {names[env]: points for env, points in _by_domain(result.records).items()},
        "rounds": {
            names[env]: [run["rounds"] for run in result.records if _held_out(run) == [env]]
            for env in result.selection.cells
        },
        "ranks": {names[env]: [list(point) for point in curve] for env, curve in curves.items()},
    }


def _by_domain(records: Iterable[Mapping[str, Any]]) -> dict[int, list[list[float]]]:
    found = defaultdict(list)
    for record in records:
        last = max(point["step"] for point in record["checkpoints"])
        for point in record["checkpoints"]:
            share = point["step"] / last if last else 0
            found[_held_out(record)[0]].append([share, point["source_risk"], point["target_risk"]])
    return dict(found)


def _held_out(record: Mapping[str, Any]) -> list[int]:
    return list(record["args"]["test_envs"])
