"""What newcomers get wrong about their tables is told by name, with what to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import ERMClassifier
from regraft.data.labelled import read_labelled
from regraft.data.tables import read_table
from regraft.estimators.table_features import TableFeatures, describe_left_out
from tests.helpers.commands import Run
from tests.helpers.mixed_table import features_of, mixed_columns
from tests.helpers.problems import Problem, make_problem
from tests.helpers.tables import write_columns

COLUMNS = ("--label", "ill", "--domain", "place")
WHERE = "as ids have: take a column that says where rows come from"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--label", "age", "--domain", "place"), "different values in 60 rows, as measurements"),
        (("--label", "ill", "--domain", "patient"), f"60 different values in 60 rows, {WHERE}"),
        ((*COLUMNS, "--drop", "doze"), "(did you mean 'dose'? It has 'patient', 'age', 'dose' and"),
        (
            (*COLUMNS, "--features", "Age"),
            "features names 'Age', which the table does not have (did",
        ),
        ((*COLUMNS, "--drop", "ill"), "--drop names 'ill', which is the label column and no"),
        (("--label", "ILL", "--domain", "place"), "did you mean 'ill'?"),
        ((*COLUMNS, "--id", "patent"), "did you mean 'patient'?"),
    ],
)
def test_columns_of_the_wrong_kind_or_name(
    tmp_path: Path, run: Run, options: tuple[str, ...], sentence: str
) -> None:
    path = write_columns(tmp_path / "data.csv", mixed_columns(n=30))
    ran = run("fit", path, *options, "--out", tmp_path / "out")
    said = " ".join(ran.err.split())
    assert ran.code == 2 and sentence in said and str(path) in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("column", ["ill", "place"])
@pytest.mark.parametrize("cell", [[1, 2], {"a": 1}], ids=["list", "object"])
def test_a_label_or_domain_is_one_value(
    tmp_path: Path, run: Run, column: str, cell: object
) -> None:
    columns = {name: list(values) for name, values in mixed_columns(n=30).items()}
    columns[column][3] = cell
    path = write_columns(tmp_path / "data.jsonl", columns)
    ran = run("abduct", path, *COLUMNS)
    assert ran.code == 2 and f"row 4 of {path} has several values for its" in ran.err


def test_all_gaps_of_a_column_are_counted(tmp_path: Path, run: Run) -> None:
    columns = mixed_columns(n=30)
    columns["ill"][[4, 9, 20]], columns["place"][7] = "", ""
    ran = run("fit", write_columns(tmp_path / "d.csv", columns), *COLUMNS, "--out", tmp_path / "o")
    assert (
        ran.code == 2 and "3 rows of" in ran.err and "the first of them row 5, have no" in ran.err
    )
    assert "fill them in or drop the rows" in ran.err
    assert "has no domain (column 'place'): fill it in or drop the row" in ran.err


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_folder_of_images_is_embedded_first(tmp_path: Path, run: Run, depth: int) -> None:
    folder = tmp_path.joinpath("photos", *("a", "b")[:depth])
    folder.mkdir(parents=True)
    (folder / "cat.jpg").touch()
    ran = run("fit", tmp_path / "photos", "--out", tmp_path / "out")
    assert ran.code == 2 and "is a folder of images" in ran.err
    assert f"regraft embed images {tmp_path / 'photos'} --out BANK" in ran.err


@pytest.mark.filterwarnings("ignore:columns left out")
@pytest.mark.parametrize("name", ["d.tsv", "d.csv", "d.tsv.gz"])
def test_tabs_separate_too(tmp_path: Path, name: str) -> None:
    columns = mixed_columns(n=30)
    columns["stage"][3] = "low, or not; who knows"
    path = write_columns(tmp_path / name, columns, delimiter="\t")
    table = read_labelled(path, "ill", "place")
    expected = read_labelled(write_columns(tmp_path / "commas.csv", columns), "ill", "place")
    np.testing.assert_array_equal(table.X, expected.X)
    assert table.y.tolist() == expected.y.tolist() and table.features == expected.features


def test_a_header_with_names_that_hold_a_comma_is_separated_by_semicolons(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text('label;domain;"f, g"\n1;a;0,5\n')
    assert read_table(tmp_path / "d.csv").features == ("f, g",)


@pytest.mark.filterwarnings("ignore:columns left out")
def test_a_word_where_the_model_reads_numbers(tmp_path: Path) -> None:
    columns = features_of(mixed_columns(n=30))
    features = TableFeatures().fit(columns)
    columns["age"][[2, 5]] = "high"
    with pytest.raises(
        ValueError, match=r"'age' holds numbers for the model, but not in row 3 "
    ) as e:
        features.transform(columns)
    assert "row 3 ('high'), row 6 ('high'): repair or empty the cell." in str(e.value)


def test_reasons_follow_the_number_of_columns() -> None:
    reasons = {"a": "is constant", "b": "is constant", "c": "is empty", "d": "numbers the rows"}
    dates = {"from": "looks like a date", "to": "looks like a date"}
    assert "'from', 'to' look like a date" in describe_left_out(dates)
    unnamed = describe_left_out({"": "numbers the rows"})
    assert unnamed.startswith("columns left out: the column without a name numbers the rows (")
    said = describe_left_out(reasons | {"e": "numbers the rows"})
    assert "'a', 'b' are constant; 'c' is empty; 'd', 'e' number the rows (" in said
    texts = {"review": np.array([f"{i} is a long text about a book, and more" for i in range(40)])}
    with pytest.raises(ValueError, match="make features of the texts with regraft embed text"):
        TableFeatures().fit(texts)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (
            lambda y: np.where(y == y[0], np.nan, y),
            r"y is missing, NaN .* rows, the first .* row 0",
        ),
        (lambda y: np.r_[[None], y[1:]], r"in 1 row, the first of them row 0: drop that row"),
        (lambda y: np.arange(len(y)), r"y has 60 different values in 60 rows, as measurements"),
    ],
)
def test_labels_in_python(spoil: Callable[[Any], Any], sentence: str) -> None:
    problem = make_problem(0, 30)
    with pytest.raises(ValueError, match=sentence):
        ERMClassifier().fit(problem.X, spoil(problem.y), problem.domain)


def test_an_id_is_no_domain_in_python() -> None:
    problem = make_problem(0, 30)
    with pytest.raises(ValueError, match=f"sample_domain has 60 .*{WHERE}"):
        ERMClassifier().fit(problem.X, problem.y, np.arange(60))


def test_a_model_that_is_replaced_is_announced(tmp_path: Path, run: Run, problem: Problem) -> None:
    np.savez(tmp_path / "d.npz", X=problem.X, y=problem.y, domain=problem.domain)
    words = (
        "fit",
        tmp_path / "d.npz",
        "--family",
        "hull",
        "--radius",
        "1",
        "--out",
        tmp_path / "o",
    )
    assert "holds a model already" not in run(*words).out
    assert "holds a model already, which the new one will replace" in run(*words).out
