"""The tables and the picture of a comparison whose numbers are known."""

import csv
from pathlib import Path

import pytest

from regraft.estimators.compared_heads import CRO_DEFAULTS, ERM
from regraft.estimators.comparison import Comparison, ComparisonRow
from regraft.estimators.comparison_tables import latex, markdown, write_tables
from regraft.estimators.plots import plot_comparison


def row(head: str, radius: float | None, a: float, b: float, source: float) -> ComparisonRow:
    """Against an ERM of 0.8 in ``a|1`` and 0.5 in ``b_2``."""
    average, worst = (a + b) / 2, min(a, b)
    return ComparisonRow(
        head, radius, {"a|1": a, "b_2": b}, average, worst, "a|1" if a < b else "b_2", source,
        average - 0.65, worst - 0.5, 1.234,
    )  # fmt: skip


COMPARISON = Comparison(
    targets=("a|1", "b_2"),
    rows=(
        row(ERM, None, 0.8, 0.5, 0.9),
        row(CRO_DEFAULTS, None, 0.7, 0.5004, 0.85),
        row("CRO (radius 0)", 0.0, 0.8, 0.5, 0.9),
        row("CRO (radius 4)", 4.0, 0.6, 0.75, 0.8),
    ),
    cells=(),
)


def test_markdown() -> None:
    lines = markdown(COMPARISON).splitlines()
    assert "points above ERM" in lines[0]
    assert lines[2:] == [
        r"| Head | a\|1 | b_2 | Average | Worst | Sources |",
        "|---|---:|---:|---:|---:|---:|",
        "| ERM | 80.0 | 50.0 | 65.0 | 50.0 | 90.0 |",
        "| CRO (defaults) | 70.0 | 50.0 | 60.0 (-5.0) | 50.0 (+0.0) | 85.0 |",
        "| CRO (radius 0) | 80.0 | 50.0 | 65.0 (+0.0) | 50.0 (+0.0) | 90.0 |",
        "| CRO (radius 4) | 60.0 | 75.0 | 67.5 (+2.5) | 60.0 (+10.0) | 80.0 |",
    ]


def test_latex_marks_the_best_as_printed() -> None:
    lines = latex(COMPARISON).splitlines()
    assert lines[1] == r"\begin{tabular}{lccccc}"
    assert lines[3] == r"Head & a|1 & b\_2 & Average & Worst & Sources \\"
    assert lines[5] == r"ERM & \textbf{80.0} & 50.0 & 65.0 & 50.0 & \textbf{90.0} \\"
    assert lines[7].startswith(r"CRO (radius 0) & \textbf{80.0} & 50.0")
    bold = r"\textbf{75.0} & \textbf{67.5} & \textbf{60.0}"
    assert lines[8] == rf"CRO (radius 4) & 60.0 & {bold} & 80.0 \\"
    assert lines[-1] == r"\end{tabular}"


def test_files(tmp_path: Path) -> None:
    files = write_tables(tmp_path / "new", COMPARISON)
    assert [file.name for file in files] == [f"comparison.{s}" for s in ("md", "csv", "tex")]
    assert files[0].read_text() == markdown(COMPARISON)
    assert files[2].read_text() == latex(COMPARISON)
    with files[1].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["radius"] == "" and rows[3]["radius"] == "4.0"
    assert rows[3]["worst domain"] == "a|1" and float(rows[3]["worst minus ERM"]) == 10.0
    assert float(rows[1]["average minus ERM"]) == pytest.approx(-4.98)
    assert [float(rows[3][name]) for name in ("a|1", "b_2", "average")] == [60.0, 75.0, 67.5]


def test_the_picture_has_the_sweep_and_the_other_heads(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.svg"
    plot_comparison(COMPARISON, path)
    text = path.read_text()
    for label in ("ERM", "CRO (defaults)", "CRO over the radius", "Worst unseen domain"):
        assert f">{label}</text>" in text
    assert [entry.name for entry in path.parent.iterdir()] == ["x.svg"]
