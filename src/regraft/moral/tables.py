"""The paper's tables of section 5.4, with its numbers beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regraft.moral.experiment import MoralResult, Transfer
from regraft.moral.published import ANGLES, BASIS, CLOSURE
from regraft.support.table import Table


def paper_tables(result: MoralResult) -> list[Table]:
    """Lay out closure, angles and feasibility, each cell as "ours (the paper's)"."""
    return [_closure(result), _angles(result), _basis(result)]


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
    """Show where unseen panels lie, and CRO's true risk there beside the bounds."""
    columns = {
        "panel": "{.panel}",
        "among heads": "{.placement.distance:.2f}",
        "misfit": "{.placement.misfit:.3f}",
        "among abductions": "{.abduction.along:.2f}",
        "off their hull": "{.abduction.off:.2f}",
        "true risk": "{.risk:.3f}",
    }
    title = f"Unseen panels, in nats; bounds within {transfer.radius:g} nats"
    table = Table.from_objects(title, columns, transfer.targets)
    bounds = (
        ("bound: certificate, hull of heads", transfer.certificate.risk),
        ("bound: hull of abductions", transfer.audit.worst_case),
        (f"bound: any mix, worst {transfer.audit.worst_group}", transfer.audit.any_prior),
    )
    below = tuple((name, "", "", "", "", f"{bound:.3f}") for name, bound in bounds)
    return replace(table, rows=table.rows + below)


def _closure(result: MoralResult) -> Table:
    rows = []
    for part in result.diagnosis.closure.domains:
        for name, ours in (("factorized", part.factorized), ("direct", part.direct)):
            numbers = ours.mean[1], ours.brier, ours.accuracy, ours.log_loss
            cells = _beside("{:.3f} ({:.3f})", numbers, CLOSURE[part.domain][name])
            rows.append((part.domain, name, f"{part.frequencies[1]:.3f}", *cells))
    columns = "panel", "prediction", "observed", "mean", "Brier", "accuracy", "log-loss"
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
