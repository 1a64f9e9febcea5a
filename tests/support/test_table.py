"""One table in every form, by hand."""

import io
import json

import pytest

from regraft.support.table import Number, Table, escape_latex, percent, share, whole_percent

TABLE = Table.from_sections(
    "Accuracy (%)",
    ("Head", "Source", "-90%", "a|b"),
    [("ERM", "x, y", Number(71.24, 0.5), None)],
    [("CRO_1", "é", Number(71.16), Number(0.25, format=".2f")), ("Z", "", 3, 0.5)],
    align="ll",
    note="90% of it\nall",
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("art_painting", r"art\_painting"),
        ("90% & $5 #1 {a}", r"90\% \& \$5 \#1 \{a\}"),
        ("a\\b~c^d", r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"),
        ("V-REx", "V-REx"),
    ],
)
def test_signs_of_latex_are_escaped(text: str, written: str) -> None:
    assert escape_latex(text) == written


def test_every_form_by_hand() -> None:
    assert TABLE.texts() == [
        ("ERM", "x, y", "71.2 ± 0.5", "–"),
        ("CRO_1", "é", "71.2", "0.25"),
        ("Z", "", "3", "0.5"),
    ]
    assert percent(0.71249) == "71.2%"
    assert percent(-1e-9) == "0.0%"
    lines = ["Head,Source,-90%,a|b", 'ERM,"x, y",71.24,', "CRO_1,é,71.16,0.25", "Z,,3,0.5", ""]
    assert TABLE.csv() == "\n".join(lines)
    document = json.loads(json.dumps(TABLE.to_dict()))
    read = Table.from_dict(document)
    assert (read.title, read.columns, list(read.rows)) == (
        TABLE.title, TABLE.columns, TABLE.texts(),
    )  # fmt: skip
    assert TABLE.markdown().splitlines() == [
        r"| Head | Source | -90% | a\|b |",
        "|---|---|---:|---:|",
        "| ERM | x, y | 71.2 ± 0.5 | – |",
        "| CRO_1 | é | 71.2 | 0.25 |",
        "| Z |  | 3 | 0.5 |",
        "",
        "- 90% of it",
        "- all",
    ]
    assert Table("", ("a", "b", "c"), (), align="lrl").markdown().endswith("|---|---:|---|")
    assert TABLE.latex().splitlines() == [
        r"\begin{tabular}{llcc}",
        r"\toprule",
        r"Head & Source & $-$90\% & a|b \\",
        r"\midrule",
        r"ERM & x, y & \textbf{71.2} $\pm$ 0.5 & -- \\",
        r"\midrule",
        r"CRO\_1 & é & \textbf{71.2} & \textbf{0.25} \\",
        r"Z &  & 3 & 0.5 \\",
        r"\midrule",
        r"\multicolumn{4}{l}{\footnotesize 90\% of it} \\",
        r"\multicolumn{4}{l}{\footnotesize all} \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_the_terminal_parts_the_sections() -> None:
    rich = pytest.importorskip("rich.console")
    console = rich.Console(file=io.StringIO(), width=80)
    console.print(TABLE.terminal())
    lines = console.file.getvalue().rstrip().splitlines()[1:]
    assert [line.split()[0][0] if line.split() else "" for line in lines] == [*"H─E", "", *"CZ"]
    empty = Table.from_sections("", ("a",), [], [("x",)], [])
    assert empty.rows == (("x",),) and not empty.sections


def test_html_is_a_table_with_headings_and_all_signs_escaped() -> None:
    lines = Table.from_sections(
        "A & B",
        ("<i>", "n"),
        [("<script>", Number(1.25))],
        [("b", share(0.5)), ("c", None)],
        marked=frozenset({1}),
        note="x < y",
    ).html()
    assert lines.splitlines() == [
        "<table>",
        "<caption>A &amp; B</caption>",
        '<thead><tr><th scope="col" style="text-align: left">&lt;i&gt;</th>'
        '<th scope="col" style="text-align: right">n</th></tr></thead>',
        "<tbody>",
        '<tr><th scope="row" style="text-align: left">&lt;script&gt;</th>'
        '<td style="text-align: right">1.2</td></tr>',
        "</tbody>",
        "<tbody>",
        '<tr><th scope="row" style="text-align: left"><strong>b</strong></th>'
        '<td style="text-align: right"><strong>50.0%</strong></td></tr>',
        '<tr><th scope="row" style="text-align: left">c</th>'
        '<td style="text-align: right">–</td></tr>',
        "</tbody>",
        "</table>",
        "<p>x &lt; y</p>",
    ]


def test_a_frame_keeps_all_digits() -> None:
    frame = TABLE.frame()
    assert list(frame.columns) == list(TABLE.columns)
    assert frame["-90%"].tolist() == [71.24, 71.16, 3]
    assert Table("", ("a",), ((share(0.12345),),)).frame()["a"].tolist() == [0.12345]


def test_shares_in_latex() -> None:
    lines = Table("", ("a", "b"), (("x", share(0.1)), ("y", share(0.0912)))).latex().splitlines()
    assert lines[4:6] == [r"x & \textbf{10.0\%} \\", r"y & 9.1\% \\"]


def test_shares_that_differ_by_rounding_errors_look_alike() -> None:
    assert whole_percent(0.135 - 1e-9) == whole_percent(0.135 + 1e-9) == "14%"
    assert whole_percent(0.0) == "0%" and whole_percent(1.0) == "100%"
