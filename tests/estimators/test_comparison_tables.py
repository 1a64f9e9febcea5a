"""The tables and the picture of a comparison whose numbers are known."""

import csv
from pathlib import Path

import pytest

from regraft.estimators.compared_heads import CRO_DEFAULTS, ERM
from regraft.estimators.comparison import Comparison, ComparisonCell, ComparisonRow
from regraft.estimators.comparison_metrics import METRICS, Estimate
from regraft.estimators.comparison_tables import (
    accuracy_table,
    latex,
    markdown,
    means_table,
    metric_table,
    narrow,
    write_tables,
)
from regraft.estimators.plots import plot_comparison


def estimates(value: float, **missing: None) -> dict[str, Estimate | None]:
    """The same for all metrics."""
    return dict.fromkeys(METRICS, Estimate(value, value - 0.01, value + 0.03)) | missing


def row(head: str, radius: float | None, a: float, b: float, source: float) -> ComparisonRow:
    """Against an ERM of 0.8 in ``a|1`` and 0.5 in ``b_2``."""
    average, worst = (a + b) / 2, min(a, b)
    return ComparisonRow(
        head, radius, {"a|1": a, "b_2": b}, average, worst, "a|1" if a < b else "b_2", source,
        average - 0.65, worst - 0.5, 1.234, estimates(average, log_loss=None),
        estimates(average - 0.65) if head != ERM else dict.fromkeys(METRICS),
    )  # fmt: skip


COMPARISON = Comparison(
    targets=("a|1", "b_2"),
    rows=(
        row(ERM, None, 0.8, 0.5, 0.9),
        row(CRO_DEFAULTS, None, 0.7, 0.5004, 0.85),
        row("CRO (radius 0)", 0.0, 0.8, 0.5, 0.9),
        row("CRO (radius 4)", 4.0, 0.6, 0.75, 0.8),
    ),
    cells=(ComparisonCell("b_2", ERM, 0.5, 0.9, 0.5, 40, estimates(0.5, auc=None)),),
)


def test_markdown() -> None:
    lines = markdown(COMPARISON).splitlines()
    assert "points above ERM" in lines[0]
    assert lines[2:8] == [
        r"| Head | a\|1 | b_2 | Average | Worst | Sources |",
        "|---|---:|---:|---:|---:|---:|",
        "| ERM | 80.0 | 50.0 | 65.0 | 50.0 | 90.0 |",
        "| CRO (defaults) | 70.0 | 50.0 | 60.0 (-5.0) | 50.0 (+0.0) | 85.0 |",
        "| CRO (radius 0) | 80.0 | 50.0 | 65.0 (+0.0) | 50.0 (+0.0) | 90.0 |",
        "| CRO (radius 4) | 60.0 | 75.0 | 67.5 (+2.5) | 60.0 (+10.0) | 80.0 |",
    ]


def test_metrics_have_intervals_and_dashes() -> None:
    lines = markdown(COMPARISON).splitlines()
    start = lines.index("On average over the unseen domains.")
    assert lines[start + 2] == "| head | accuracy (%) | above ERM | AUC (%) | log-loss | ECE (%) |"
    assert lines[start + 4 : start + 6] == [
        "| ERM | 65.0 ± 2.0 | – | 65.0 ± 2.0 | – | 65.0 ± 2.0 |",
        "| CRO (defaults) | 60.0 ± 2.0 | -5.0 ± 2.0 | 60.0 ± 2.0 | – | 60.0 ± 2.0 |",
    ]
    assert "by a bootstrap over the rows" in lines[-1]
    assert metric_table(COMPARISON, "log_loss").texts()[0] == (ERM, "–", "0.500 ± 0.020")
    assert metric_table(COMPARISON, "auc").texts()[0] == (ERM, "–", "–")


def test_the_tables_of_the_terminal_fit() -> None:
    rich = pytest.importorskip("rich.console")
    for table in (accuracy_table(COMPARISON), narrow(means_table(COMPARISON))):
        assert rich.Console(width=1000).measure(table.terminal()).maximum <= 80
        assert table.sections == {2}
    assert narrow(means_table(COMPARISON)).texts()[1][2] == "-5.0±2.0"


def test_frames_and_pages() -> None:
    frame = COMPARISON.to_frame()
    assert frame.shape[0] == 1 and frame["head"].tolist() == [ERM]
    assert frame["log loss"].tolist() == [0.5] and frame["log loss, high"].tolist() == [0.53]
    assert frame["auc"].isna().all() and frame["rows"].tolist() == [40]
    page = COMPARISON._repr_html_()
    assert "<table>" in page and "CRO (radius 4)" in page and "5.0 points below ERM" in page
    assert repr(COMPARISON).startswith("Comparison\n  ERM has 65.0%")


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
    assert float(rows[3]["auc minus ERM, high"]) == pytest.approx(0.055)
    assert rows[0]["accuracy minus ERM"] == "" and rows[0]["log loss"] == ""


def test_the_picture_has_the_sweep_and_the_other_heads(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.svg"
    plot_comparison(COMPARISON, path)
    text = path.read_text()
    for label in ("ERM", "CRO (defaults)", "CRO over the radius", "Worst unseen domain"):
        assert f">{label}</text>" in text
    assert [entry.name for entry in path.parent.iterdir()] == ["x.svg"]
