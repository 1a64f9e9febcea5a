"""The tables: which numbers they show, and that LaTeX would take them."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from regraft.bench.paper.benchmark import COLORED_MNIST, IMAGE_BENCHMARKS, published_rows
from regraft.bench.paper.report import accuracy_table, full_table, write_tables
from regraft.bench.protocol.selection import Cell, Selection

COLUMNS = full_table({}).columns
LABEL = "CRO (regraft, preset paper)"
FULL = Selection(
    {
        0: Cell(0.7214, 0.0021, (0.72, 0.7228), (3, 0), (0.5, 0.7312)),
        1: Cell(0.7246, 0.0003, (0.72, 0.7292), (1, 1), (0.6, 0.74)),
        2: Cell(0.70449, 0.0104, (0.7, 0.70898), (17, 4), (0.0987, 0.7601)),
    },
    0.716833,
)
PARTIAL = Selection({2: FULL.cells[2]}, None)


def test_markdown_and_csv_show_ours_beside_the_published() -> None:
    shown = accuracy_table({LABEL: FULL})
    lines = shown.markdown().splitlines()
    assert "| Algorithm | Source | +90% | +80% | -90% | Avg |" in lines
    assert "| ERM | DomainBed | 71.7 ± 0.1 | 72.9 ± 0.2 | 10.0 ± 0.1 | 51.5 |" in lines
    assert "| CRO | CRO paper | 72.1 ± 0.7 | 72.4 ± 0.3 | 76.0 ± 0.7 | 73.5 |" in lines
    assert f"| {LABEL} | this run | 72.1 ± 0.2 | 72.5 ± 0.0 | 70.4 ± 1.0 | 71.7 |" in lines
    assert shown.latex().count(r"\midrule") == 3  # theirs, the paper's and ours, the notes
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 14 + 1 + 1
    assert {line.count("|") for line in table} == {7}
    assert [line for line in lines if line.startswith("- ")] == [
        f"- {LABEL}, +90%: 50.0 to 73.1 over all configurations and trials; chosen by trial: 3, 0",
        f"- {LABEL}, +80%: 60.0 to 74.0 over all configurations and trials; chosen by trial: 1, 1",
        f"- {LABEL}, -90%: 9.9 to 76.0 over all configurations and trials; chosen by trial: 17, 4",
    ]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in full_table({LABEL: FULL}).rows]
    assert len(rows) == 16
    assert rows[0]["algorithm"] == "ERM" and rows[0]["-90% mean"] == 10.0
    assert rows[0]["-90% lowest"] is None
    ours = rows[-1]
    assert ours["algorithm"] == LABEL and ours["source"] == "this run"
    assert (ours["-90% mean"], ours["-90% error"]) == (70.449, 1.04)
    assert (ours["-90% lowest"], ours["-90% highest"]) == (9.87, 76.01)
    assert ours["average"] == 71.6833
    text = accuracy_table(
        {"x": FULL}, replace(COLORED_MNIST, published=published_rows("oracle"))
    ).markdown()
    assert "| IRM | DomainBed | 72.0 ± 0.1 | 72.5 ± 0.3 | 58.5 ± 3.3 | 67.7 |" in text
    assert "CRO paper" not in text


def test_absent_cells_are_dashes_and_one_trial_has_no_error() -> None:
    table = accuracy_table({"a|b": PARTIAL})
    assert "| a\\|b | this run | – | – | 70.4 ± 1.0 | – |" in table.markdown()
    assert r"a|b & this run & -- & -- & 70.4 $\pm$ 1.0 & -- \\" in table.latex()
    row = dict(zip(COLUMNS, full_table({"x": PARTIAL}).rows[-1], strict=True))
    assert row["+90% mean"] is row["+80% highest"] is row["average"] is None
    assert row["-90% mean"] == 70.449
    once = Selection({0: Cell(0.8, 0.0, (0.8,), (0,), (0.8, 0.8))}, None)
    text = accuracy_table({"CRO (x)": once}).markdown()
    assert "| CRO (x) | this run | 80.0 | – | – | – |" in text
    assert "± 0.0" not in text.split("CRO (x)", 1)[1]


@pytest.mark.parametrize("ours", [{}, {LABEL: FULL}, {"a": FULL, "b": PARTIAL}])
def test_all_three_files_are_written(tmp_path: Path, ours: dict[str, Selection]) -> None:
    files = write_tables(tmp_path / "new", ours)
    assert [file.name for file in files] == ["table.md", "table.csv", "table.tex"]
    assert sorted(tmp_path.joinpath("new").iterdir()) == sorted(files)
    assert files[0].read_text("utf-8").endswith(accuracy_table(ours).markdown() + "\n")
    assert files[2].read_text("utf-8") == accuracy_table(ours).latex()
    with files[1].open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 1 + 15 + len(ours)


def on_pacs(*means: float) -> Selection:
    cells = {env: Cell(m, 0.01, (m, m), (0, 0), (m, m)) for env, m in enumerate(means)}
    return Selection(cells, sum(means) / 4 if len(means) == 4 else None)


def test_images_have_a_column_for_the_worst_environment() -> None:
    pacs = IMAGE_BENCHMARKS["pacs"]
    ours = {"ERM (x)": on_pacs(0.8, 0.7, 0.95, 0.75), "CRO (x)": on_pacs(0.8, 0.7)}
    table = accuracy_table(ours, benchmark=pacs)
    lines = table.markdown().splitlines()
    assert table.title.startswith("PACS, test accuracy (%)")
    assert "| Algorithm | Source | A | C | P | S | Avg | Worst |" in lines
    assert (
        "| ERM (x) | this run | 80.0 ± 1.0 | 70.0 ± 1.0 | 95.0 ± 1.0 | 75.0 ± 1.0 | 80.0 | 70.0 |"
    ) in lines
    # Which environment is the worst is not known before all are.
    assert "| CRO (x) | this run | 80.0 ± 1.0 | 70.0 ± 1.0 | – | – | – | – |" in lines
    columns = full_table({}, benchmark=pacs).columns
    assert columns[-2:] == ("average", "worst") and len(columns) == 2 + 4 * 4 + 2
    rows = [dict(zip(columns, row, strict=True)) for row in full_table(ours, benchmark=pacs).rows]
    assert rows[0]["worst"] == 79.3 and rows[-2]["worst"] == 70.0 and rows[-1]["worst"] is None
