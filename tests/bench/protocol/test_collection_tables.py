"""The tables of a collection: which numbers they show, and that LaTeX would take them."""

from dataclasses import replace
from pathlib import Path

from regraft.bench.protocol.collection import Collection
from regraft.bench.protocol.collection_tables import latex, markdown, remarks, tables
from regraft.bench.protocol.results import Damage
from regraft.bench.protocol.selection import Cell, Selection


def cell(mean: float, error: float) -> Cell:
    return Cell(mean, error, (mean, mean), (0, 0), (0.0, 1.0), (0, 1), (100, 100))


ERM = Selection({0: cell(0.7166, 0.001), 1: cell(0.5, 0.0204)}, 0.6083, 0.0123)
CRO = Selection({0: cell(0.7171, 0.01), 1: cell(0.4, 0.02)}, 0.55, 0.004)
PARTIAL = Selection({1: cell(0.25, 0.0)}, None)
ONE = Collection(
    {"training-domain": {"Toy": {"ERM": ERM, "odd|_%": PARTIAL, "CRO": CRO}}},
    {"Toy": ("+90%", "art_1")},
    hparams={},
    args={},
    runs=5,
    unfinished=0,
    records=10,
    damaged=[],
    uneven=[],
    open_runs=frozenset(),
    folders={},
)
TWO = replace(
    ONE,
    selections={
        "training-domain": {
            "A": {"ERM": ERM, "CRO": CRO},
            "B": {"CRO": replace(CRO, average=0.45, average_error=0.1)},
        },
        "oracle": {"A": {"ERM": Selection({}, None)}, "B": {"CRO": PARTIAL}},
    },
    environments={"A": ("0", "1"), "B": ("0", "1")},
)


def test_markdown_shows_means_errors_dashes_and_what_is_missing() -> None:
    lines = markdown(ONE).splitlines()
    assert lines[2:] == [
        "## Toy, training-domain validation",
        "",
        "| Algorithm | +90% | art_1 | Avg |",
        "|---|---:|---:|---:|",
        "| ERM | 71.7 ± 0.1 | 50.0 ± 2.0 | 60.8 |",
        r"| odd\|_% | – | 25.0 ± 0.0 | – |",
        "| CRO | 71.7 ± 1.0 | 40.0 ± 2.0 | 55.0 |",
        "",
        "## Averages, training-domain validation",
        "",
        "| Algorithm | Toy | Avg |",
        "|---|---:|---:|",
        "| ERM | 60.8 ± 1.2 | 60.8 |",
        r"| odd\|_% | – | – |",
        "| CRO | 55.0 ± 0.4 | 55.0 |",
    ]
    assert remarks(ONE) == []
    damage = Damage(Path("jobs/x_1/results.jsonl"), 7, "not JSON")
    empty = {"leave-one-domain-out": {"Toy": {"ERM": Selection({}, None)}}}
    poorer = replace(ONE, damaged=[damage], selections=ONE.selections | empty)
    skipped = "skipped jobs/x_1/results.jsonl line 7: not JSON"
    needs = (
        "no table by leave-one-domain-out validation (selection rule): it needs runs with every "
        "pair of test environments beside those with one"
    )
    assert remarks(poorer) == [skipped, needs]
    assert markdown(poorer) == f"{markdown(ONE)}\n- {skipped}\n- {needs}\n"
    assert latex(poorer) == f"% {skipped}\n% {needs}\n{latex(ONE)}"


def test_several_datasets_have_a_table_of_averages_and_floats() -> None:
    titles = ["Toy, training-domain validation", "Averages, training-domain validation"]
    assert [table.title for table in tables(ONE)] == titles
    found = {table.title: table for table in tables(TWO)}
    assert list(found) == [
        "A, training-domain validation",
        "B, training-domain validation",
        "Averages, training-domain validation",
        "B, test-domain validation (oracle)",  # the others would be empty
    ]
    averages = found["Averages, training-domain validation"]
    assert averages.columns == ("Algorithm", "A", "B", "Avg")
    assert averages.texts() == [
        ("ERM", "60.8 ± 1.2", "–", "–"),
        ("CRO", "55.0 ± 0.4", "45.0 ± 10.0", "50.0"),
    ]
    text = latex(TWO)
    for environment in ("table", "tabular"):
        opened = [text.count(rf"\{what}{{{environment}}}") for what in ("begin", "end")]
        assert opened == [4, 4]
    caption = r"\caption{A, training-domain validation: test accuracy (\%) $\pm$ standard error"
    assert f"{caption} over trials}}" in text
    assert [text.count(table.latex()) for table in tables(TWO)] == [1] * 4
