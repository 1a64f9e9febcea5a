"""The numbers of a diagnosis as tables of text, and as files: JSON and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regraft.premises.abduction_angles import AbductionAngles
from regraft.premises.deduction_invariance import WELL_SAMPLED, DeductionInvariance
from regraft.premises.diagnose import Diagnosis
from regraft.premises.factorization_closure import FactorizationClosure
from regraft.premises.hidden_factor import HiddenFactor
from regraft.premises.sample_size import SampleSize
from regraft.premises.shifts import Shifts
from regraft.premises.transplant_basis import TransplantBasis
from regraft.support.files import write_text
from regraft.support.json_files import dumps
from regraft.support.table import Table, percent

_MOST_CELLS = 30
_MOST_CLASSES = 10
PREMISES_NOTE = (
    "The premises speak of groups that you observed (--group), or else of groups fitted as the "
    "paper fits them. These need not be the groups of the hidden factor in the answers."
)
_PAIR = "{0.first} vs. {0.second}"


def answers(diagnosis: Diagnosis) -> Table:
    """List the questions with their answers, and the numbers behind these."""
    rows = tuple((each.question, each.answer, each.number) for each in diagnosis.answers)
    return Table("Answers", ("question", "answer", "number"), rows, align="lll")


def verdicts(diagnosis: Diagnosis) -> Table:
    """List the premises and what the data say about them."""
    rows = tuple((name, check.verdict) for name, check in diagnosis.checks.items())
    return Table("Premises", ("premise", "verdict"), rows, note=PREMISES_NOTE)


def details(diagnosis: Diagnosis) -> list[Table]:
    """Show the numbers behind the answers and verdicts; nothing is said of what has no numbers."""
    tables = [
        size_table(diagnosis.size),
        factor_table(diagnosis.factor),
        closure_table(diagnosis.closure),
        angles_table(diagnosis.angles),
        cells_table(diagnosis.invariance),
        basis_table(diagnosis.basis),
        shifts_table(diagnosis.shifts),
    ]
    return [table for table in tables if table.rows]


def write_diagnosis(folder: Path, diagnosis: Diagnosis) -> list[Path]:
    """Write diagnosis.json and diagnosis.md into ``folder``; returns the files."""
    files = [folder / "diagnosis.json", folder / "diagnosis.md"]
    write_text(files[0], dumps(diagnosis_document(diagnosis)))
    words = "\n".join(f"- {sentence}" for sentence in diagnosis.paragraphs())
    text = markdown([answers(diagnosis), verdicts(diagnosis), *details(diagnosis)])
    write_text(files[1], f"# Diagnosis\n\n{words}\n\n{text}")
    return files


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return all numbers, and the tables in which they are shown."""
    return diagnosis.to_dict() | {"tables": [table.to_dict() for table in details(diagnosis)]}


def size_table(size: SampleSize) -> Table:
    """List the rows of each source and class, and how well accuracies are known."""
    classes = next(iter(size.rows.values()))
    shown = tuple(classes) if len(classes) <= _MOST_CLASSES else ()
    rows = tuple(
        (
            source,
            *(str(row[label]) for label in shown),
            str(size.n_rows(source)),
            f"{percent(size.accuracies[source])} ± {100 * size.margins[source]:.1f}",
        )
        for source, row in size.rows.items()
    )
    columns = ("source", *(f"class {label}" for label in shown), "all rows", "accuracy of ERM")
    return Table(
        "Rows, and accuracy on rows not seen (±: two standard errors, about a 95 % interval)",
        columns,
        rows,
    )


def factor_table(factor: HiddenFactor) -> Table:
    """List the shares of the groups in each source; no rows if there is one group."""
    columns = ("source", *(f"group {u}" for u in range(factor.n_groups)))
    rows = tuple((name, *map(percent, shares)) for name, shares in factor.shares.items())
    return Table("Shares of the hidden groups", columns, rows if factor.found else ())


def closure_table(closure: FactorizationClosure) -> Table:
    """Lay out the paper's `tab:factorization-closure`; two classes show the second one's mean."""
    rows = []
    for part in closure.domains:
        agreement = f"{part.correlation:.2f}", f"{100 * part.agreement:.0f}%"
        for name, prediction, last in (
            ("factorized", part.factorized, agreement),
            ("direct", part.direct, ("", "")),
        ):
            scores = (prediction.brier, prediction.accuracy, prediction.log_loss)
            means = map(_mean, (prediction.mean, part.frequencies))
            rows.append((part.domain, name, *means, *(f"{score:.3f}" for score in scores), *last))
    columns = "domain", "prediction", "mean", "observed", "Brier", "accuracy", "log-loss"
    title = "Factorization closure, held-out rows"
    return Table(title, (*columns, "correlation", "agreement"), tuple(rows))


def angles_table(angles: AbductionAngles) -> Table:
    """Lay out the paper's `tab:principal-angles`, in degrees."""
    columns = {"min": "{.smallest:.0f}", "median": "{.median:.0f}", "max": "{.largest:.0f}"}
    title = "Principal angles between col(A_s), degrees"
    return Table.from_objects(title, {"pair": _PAIR} | columns, angles.pairs)


def cells_table(invariance: DeductionInvariance) -> Table:
    """List the columns of D by cell, the well-sampled ones or else the largest."""
    large = [cell for cell in invariance.cells if cell.records >= WELL_SAMPLED]
    columns = {
        "domain": "{.domain}",
        "group": "{.group}",
        "records": "{.records}",
        "cosine to pooled D": "{.cosine:.4f}",
        "fitted alone": "{.cosine_alone:.3f}",
        "p": "{.p_value:.3f}",
    }
    cells = (large or list(invariance.cells))[:_MOST_CELLS]
    return Table.from_objects("Deduction columns", columns, cells)


def basis_table(basis: TransplantBasis) -> Table:
    """Lay out the paper's `tab:L-feasibility`."""
    residuals = {"residual / A": "{.residual:.2g}", "residual to I / A": "{.residual_identity:.2f}"}
    norms = {"norm of L": "{.basis_norm:.3g}", "norm of D^T L": "{.deduction_norm:.0e}"}
    columns = {"lambda_H": "{.weight:g}"} | residuals | norms | {"Hausdorff": "{.hausdorff:.3g}"}
    return Table.from_objects("Transplant basis", columns, basis.points)


def shifts_table(shifts: Shifts) -> Table:
    """List the diversity and the correlation shift of every pair."""
    columns = {"pair": _PAIR, "diversity": "{.diversity:.2f}", "correlation": "{.correlation:.2f}"}
    return Table.from_objects("Shifts", columns, shifts.pairs)


def markdown(tables: Sequence[Table]) -> str:
    """Write the tables under their titles."""
    return "\n\n".join(f"## {table.title}\n\n{table.markdown()}" for table in tables) + "\n"


def _mean(shares: tuple[float, ...]) -> str:
    """Write the share of the second of two classes, else of all."""
    if len(shares) == 2:
        return f"{shares[1]:.3f}"
    return " ".join(f"{share:.2f}" for share in shares)
