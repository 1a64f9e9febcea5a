"""The paper's tables of section 5.4, with its numbers beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from regraft.moral.experiment import MoralResult
from regraft.moral.published import ANGLES, BASIS, CLOSURE, TEXT
from regraft.moral.transfer import Transfer
from regraft.support.table import Table


def paper_tables(result: MoralResult) -> list[Table]:
    """Lay out what the paper shows of its run, its numbers beside ours."""
    return [_examples(result), _closure(result), _angles(result), _text(result), _basis(result)]


def published_spread() -> float:
    """Return how far apart the mean predictions of the paper's panels are."""
    means = [float(kinds["factorized"][0]) for kinds in CLOSURE.values()]
    return max(means) - min(means)


def transfer_table(transfer: Transfer) -> Table:
    """Show the heads on the panels they know and on the one they do not."""
    columns = {
        "head": "{.name}",
        "accuracy, known panels": "{.source_accuracy:.1%}",
        transfer.target: "{.target_accuracy:.1%}",
        "risk, known": "{.source_risk:.3f}",
        "risk there": "{.target_risk:.3f}",
    }
    title = f"Without the {transfer.target} panel, new records"
    return Table.from_objects(title, columns, transfer.heads)


def targets_table(transfer: Transfer) -> Table:
    """Show where unseen panels lie, and CRO's true risks there beside the bounds."""
    columns = {
        "panel": "{.panel}",
        "among heads": "{.placement.distance:.2f}",
        "misfit": "{.placement.misfit:.3f}",
        "among abductions": "{.abduction.along:.2f}",
        "off their hull": "{.abduction.off:.2f}",
        **{f"risk of {name}": f"{{.risks[{name}].risk:.3f}}" for name in transfer.bounded},
    }
    title = f"Unseen panels, in nats; hulls within {transfer.radius:.3g} nats"
    table = Table.from_objects(title, columns, transfer.targets)
    bounds = [head.bounds() for head in transfer.bounded.values()]
    below = tuple(
        (f"bound: {name}", "", "", "", "", *(f"{each[name]:.3f}" for each in bounds))
        for name in bounds[0]
    )
    return replace(table, rows=table.rows + below)


def _examples(result: MoralResult) -> Table:
    columns = {
        "panel": "{.panel}",
        "values": "{.profile}",
        "scenario": "{.scenario}",
        "P(B)": "{.action2_probability:.2f}",
        "choice (paper)": "{.published}",
    }
    return Table.from_objects("One record of each panel", columns, result.examples)


def _text(result: MoralResult) -> Table:
    """Show what the paper says in its text, by panel."""
    diagnosis = result.diagnosis
    ranks = diagnosis.angles.stable_ranks
    cosines = {
        panel: [c.cosine_alone for c in diagnosis.invariance.cells if c.domain == panel]
        for panel in ranks
    }
    parts = {part.domain: part for part in diagnosis.closure.domains}
    rows = {
        "correlation": ("correlation with direct regression", "{:.2f}"),
        "agreement": ("same class as direct regression", "{:.0%}"),
        "stable_rank": ("stable rank of A", "{:.0f}"),
        "cosine": ("median cosine of D's columns, fitted to the panel alone", "{:.2f}"),
    }
    ours = {
        "correlation": [parts[panel].correlation for panel in ranks],
        "agreement": [parts[panel].agreement for panel in ranks],
        "stable_rank": list(ranks.values()),
        "cosine": [median(cosines[panel] or [float("nan")]) for panel in ranks],
    }
    cells = tuple(
        (name, *map(form.format, ours[key]), "–".join(map(form.format, TEXT[key])))
        for key, (name, form) in rows.items()
    )
    return Table("Numbers of the text", ("number", *ranks, "paper"), cells)


def _closure(result: MoralResult) -> Table:
    rows = []
    for part in result.diagnosis.closure.domains:
        for name, ours in (("factorized", part.factorized), ("direct", part.direct)):
            # The paper's y_1 is to act, which is action 2 and the class 0 here.
            numbers = ours.mean[0], ours.brier, ours.accuracy, ours.log_loss
            cells = _beside("{:.3f} ({:.3f})", numbers, CLOSURE[part.domain][name])
            rows.append((part.domain, name, f"{part.frequencies[0]:.3f}", *cells))
    means = "observed P(B)", "mean P(B)"
    columns = "panel", "prediction", *means, "Brier", "accuracy", "log-loss"
    return Table("Factorization closure: held-out rows (paper)", columns, tuple(rows))


def _angles(result: MoralResult) -> Table:
    rows = []
    for pair in result.diagnosis.angles.pairs:
        numbers, paper = (pair.smallest, pair.median, pair.largest), {pair.first, pair.second}
        cells = _beside("{:.0f} ({})", numbers, ANGLES[frozenset(paper)])
        rows.append((f"{pair.first} vs. {pair.second}", *cells))
    columns = "pair", "min", "median", "max"
    return Table("Principal angles in degrees: ours (paper)", columns, tuple(rows))


def _basis(result: MoralResult) -> Table:
    rows = []
    for point in result.diagnosis.basis.points:
        numbers = point.residual_identity, point.basis_norm, point.hausdorff
        cells = _beside("{:.3g} ({:g})", numbers, BASIS[point.weight])
        own = f"{point.weight:g}", f"{point.residual:.2g}", f"{point.deduction_norm:.0e}"
        rows.append((*own, *cells))
    first = "lambda_H", "residual to P / A", "norm of D^T L"
    columns = *first, "residual to I / A", "norm of L", "Hausdorff"
    return Table("Transplant basis: ours (paper)", columns, tuple(rows))


def _beside(cell: str, ours: Sequence[float], paper: Sequence[float]) -> list[str]:
    return [cell.format(a, b) for a, b in zip(ours, paper, strict=True)]
