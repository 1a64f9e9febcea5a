"""The paper's tables of section 5.4, with its numbers beside ours."""

from __future__ import annotations

from regraft.moral.experiment import MoralResult, Transfer
from regraft.moral.published import ANGLES, BASIS, CLOSURE
from regraft.support.table import Table, percent


def paper_tables(result: MoralResult) -> list[Table]:
    """Closure, angles and feasibility, each cell as "ours (the paper's)"."""
    return [_closure(result), _angles(result), _basis(result)]


def transfer_table(transfer: Transfer) -> Table:
    """The heads on the panels they know and on the one they do not."""
    columns = "head", "accuracy, known panels", f"{transfer.target}", "risk, known", "risk there"
    rows = tuple(
        (
            head.name,
            percent(head.source_accuracy),
            percent(head.target_accuracy),
            f"{head.source_risk:.3f}",
            f"{head.target_risk:.3f}",
        )
        for head in transfer.heads
    )
    return Table(f"Without the {transfer.target} panel, new records", columns, rows)


def targets_table(transfer: Transfer) -> Table:
    """Where unseen panels lie, and CRO's true risk there beside the bounds."""
    columns = "panel", "among heads", "misfit", "among abductions", "off their hull", "true risk"
    rows = [
        (
            row.panel,
            f"{row.placement.distance:.2f}",
            f"{row.placement.misfit:.3f}",
            f"{row.abduction.along:.2f}",
            f"{row.abduction.off:.2f}",
            f"{row.risk:.3f}",
        )
        for row in transfer.targets
    ]
    bounds = (
        ("bound: certificate, hull of heads", transfer.certificate.worst_case),
        ("bound: hull of abductions", transfer.audit.worst_case),
        (f"bound: any mix, worst {transfer.audit.worst_group}", transfer.audit.any_prior),
    )
    rows += [(name, "", "", "", "", f"{bound:.3f}") for name, bound in bounds]
    title = f"Unseen panels, in nats; bounds within {transfer.radius:g} nats"
    return Table(title, columns, tuple(rows))


def _closure(result: MoralResult) -> Table:
    rows = []
    for part in result.diagnosis.closure.domains:
        for name, ours in (("factorized", part.factorized), ("direct", part.direct)):
            numbers = ours.mean[1], ours.brier, ours.accuracy, ours.log_loss
            paper = CLOSURE[part.domain][name]
            cells = [f"{a:.3f} ({b:.3f})" for a, b in zip(numbers, paper, strict=True)]
            rows.append((part.domain, name, f"{part.frequencies[1]:.3f}", *cells))
    columns = "panel", "prediction", "observed", "mean", "Brier", "accuracy", "log-loss"
    return Table("Factorization closure: held-out rows (paper)", columns, tuple(rows))


def _angles(result: MoralResult) -> Table:
    rows = []
    for pair in result.diagnosis.angles.pairs:
        numbers = pair.smallest, pair.median, pair.largest
        paper = ANGLES[frozenset({pair.first, pair.second})]
        cells = [f"{a:.0f} ({b})" for a, b in zip(numbers, paper, strict=True)]
        rows.append((f"{pair.first} vs. {pair.second}", *cells))
    columns = "pair", "min", "median", "max"
    return Table("Principal angles in degrees: ours (paper)", columns, tuple(rows))


def _basis(result: MoralResult) -> Table:
    rows = []
    for point in result.diagnosis.basis.points:
        numbers = point.residual_identity, point.basis_norm, point.hausdorff
        cells = [f"{a:.3g} ({b:g})" for a, b in zip(numbers, BASIS[point.weight], strict=True)]
        rows.append(
            (f"{point.weight:g}", f"{point.residual:.2g}", f"{point.deduction_norm:.0e}", *cells)
        )
    columns = (
        "lambda_H",
        "residual to P / A",
        "norm of D^T L",
        "residual to I / A",
        "norm of L",
        "Hausdorff",
    )
    return Table("Transplant basis: ours (paper)", columns, tuple(rows))
