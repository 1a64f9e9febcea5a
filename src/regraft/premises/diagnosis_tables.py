"""The numbers of a diagnosis as tables of text."""

from __future__ import annotations

from collections.abc import Sequence

from regraft.premises.abduction_angles import AbductionAngles
from regraft.premises.deduction_invariance import WELL_SAMPLED, DeductionInvariance
from regraft.premises.diagnose import Diagnosis
from regraft.premises.factorization_closure import FactorizationClosure
from regraft.premises.shifts import Shifts
from regraft.premises.transplant_basis import TransplantBasis
from regraft.support.table import Table

_MOST_CELLS = 30


def verdicts(diagnosis: Diagnosis) -> Table:
    """The premises and what the data say about them."""
    rows = tuple((name, check.verdict) for name, check in diagnosis.checks.items())
    return Table("Premises", ("premise", "verdict"), rows)


def details(diagnosis: Diagnosis) -> list[Table]:
    """The numbers behind the verdicts."""
    tables = [closure_table(diagnosis.closure), angles_table(diagnosis.angles)]
    if diagnosis.invariance.cells:
        tables.append(cells_table(diagnosis.invariance))
    return [*tables, basis_table(diagnosis.basis), shifts_table(diagnosis.shifts)]


def closure_table(closure: FactorizationClosure) -> Table:
    """As the paper's `tab:factorization-closure`; two classes show the second one's mean."""
    rows = []
    for part in closure.domains:
        for name, prediction in (("factorized", part.factorized), ("direct", part.direct)):
            rows.append(
                (
                    part.domain,
                    name,
                    _mean(prediction.mean),
                    _mean(part.frequencies),
                    f"{prediction.brier:.3f}",
                    f"{prediction.accuracy:.3f}",
                    f"{prediction.log_loss:.3f}",
                    f"{part.correlation:.2f}" if name == "factorized" else "",
                    f"{100 * part.agreement:.0f}%" if name == "factorized" else "",
                )
            )
    columns = "domain", "prediction", "mean", "observed", "Brier", "accuracy", "log-loss"
    return Table(
        "Factorization closure, held-out rows",
        (*columns, "correlation", "agreement"),
        tuple(rows),
    )


def angles_table(angles: AbductionAngles) -> Table:
    """As the paper's `tab:principal-angles`, in degrees."""
    rows = tuple(
        (f"{p.first} vs. {p.second}", f"{p.smallest:.0f}", f"{p.median:.0f}", f"{p.largest:.0f}")
        for p in angles.pairs
    )
    return Table(
        "Principal angles between col(A_s), degrees", ("pair", "min", "median", "max"), rows
    )


def cells_table(invariance: DeductionInvariance) -> Table:
    """The columns of D by cell, the well-sampled ones or else the largest."""
    large = [cell for cell in invariance.cells if cell.records >= WELL_SAMPLED]
    rows = tuple(
        (
            cell.domain,
            cell.group,
            str(cell.records),
            f"{cell.cosine:.4f}",
            f"{cell.cosine_alone:.3f}",
            f"{cell.p_value:.3f}",
        )
        for cell in (large or list(invariance.cells))[:_MOST_CELLS]
    )
    columns = "domain", "group", "records", "cosine to pooled D", "fitted alone", "p"
    return Table("Deduction columns", columns, rows)


def basis_table(basis: TransplantBasis) -> Table:
    """As the paper's `tab:L-feasibility`."""
    rows = tuple(
        (
            f"{p.weight:g}",
            f"{p.residual:.2g}",
            f"{p.residual_identity:.2f}",
            f"{p.basis_norm:.3g}",
            f"{p.deduction_norm:.0e}",
            f"{p.hausdorff:.3g}",
        )
        for p in basis.points
    )
    columns = (
        "lambda_H",
        "residual / A",
        "residual to I / A",
        "norm of L",
        "norm of D^T L",
        "Hausdorff",
    )
    return Table("Transplant basis", columns, rows)


def shifts_table(shifts: Shifts) -> Table:
    """Diversity and correlation shift of every pair."""
    rows = tuple(
        (f"{p.first} vs. {p.second}", f"{p.diversity:.2f}", f"{p.correlation:.2f}")
        for p in shifts.pairs
    )
    return Table("Shifts", ("pair", "diversity", "correlation"), rows)


def markdown(tables: Sequence[Table]) -> str:
    """The tables under their titles."""
    return "\n\n".join(f"## {table.title}\n\n{table.markdown()}" for table in tables) + "\n"


def _mean(shares: tuple[float, ...]) -> str:
    """Of the second of two classes, else of all."""
    if len(shares) == 2:
        return f"{shares[1]:.3f}"
    return " ".join(f"{share:.2f}" for share in shares)
