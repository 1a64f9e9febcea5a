"""Probabilities in files: their classes and rows are found by name, or the file is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import make_confounded_domains
from regraft.data.columns import TableError
from regraft.data.probabilities import read_probabilities
from tests.helpers.commands import Run
from tests.helpers.errors import refused
from tests.helpers.tables import write_columns

Y = np.array([0, 1])
P = np.array([[0.25, 0.75], [0.5, 0.5]])


def read(path: Path, labels: Any, ids: Any = None, id_column: str = "id") -> list[list[float]]:
    return read_probabilities(path, np.array(labels), ids, id_column).values.tolist()


def test_they_come_from_arrays_and_from_predictions(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", probabilities=P)
    assert read(tmp_path / "p.npz", Y) == P.tolist()
    (tmp_path / "p.csv").write_text("label,probability_0,probability_1\n1,0.25,0.75\n0,0.5,0.5\n")
    assert read(tmp_path / "p.csv", Y) == P.tolist()
    (tmp_path / "folder.csv").mkdir()
    with refused("is a folder", TableError, path=tmp_path / "folder.csv"):
        read(tmp_path / "folder.csv", Y)
    np.savez(tmp_path / "q.npz", other=P)
    with pytest.raises(TableError, match="no array 'probabilities'"):
        read(tmp_path / "q.npz", Y)


@pytest.mark.parametrize(
    "names",
    [
        ("well", "sick"),
        ("P(well)", "P(sick)"),
        ("PROBABILITY_WELL", "PROBABILITY_SICK"),
        ("prob well", "p_sick"),
    ],
)
def test_columns_named_by_class_are_taken_by_name(tmp_path: Path, names: tuple[str, str]) -> None:
    path = write_columns(tmp_path / "p.csv", dict(zip(names, P.T.tolist(), strict=True)))
    assert read(path, ["sick", "well"]) == P[:, ::-1].tolist()
    np.savez(tmp_path / "p.npz", probabilities=P, classes=np.array(names))
    assert read(tmp_path / "p.npz", ["sick", "well"]) == P[:, ::-1].tolist()


def test_columns_without_such_names_are_taken_in_order_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "unnamed.csv").write_text("second,first\n0.75,0.25\n0.5,0.5\n")
    with pytest.warns(
        UserWarning, match="'second', 'first' of .* for the classes '0', '1' in this"
    ):
        assert read(tmp_path / "unnamed.csv", Y) == [[0.75, 0.25], [0.5, 0.5]]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_named_probabilities_follow_the_order_of_the_labels(tmp_path: Path, suffix: str) -> None:
    columns = {"probability_10": [0.75], "probability_2": [0.25]}  # as text, "10" comes first
    label = {"label": [10]} if suffix == ".csv" else {}
    path = write_columns(tmp_path / f"p{suffix}", label | columns)
    assert read(path, [10, 2, 10]) == [[0.25, 0.75]]
    assert read(path, ["2", "10"]) == [[0.75, 0.25]]
    found = read_probabilities(path, np.array([10, 10]))  # no row is of class 2
    assert found.values.tolist() == [[0.75, 0.25]]
    assert found.classes_.tolist() == [10, "probability_2"]
    with refused("has no column 'probability_3'", TableError, path=path):
        read(path, [2, 3, 10])


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (("P(A)", "P(a)"), ("A", "a")),
        (("prob a (b)", "prob c"), ("a (b)", "c")),
        (("row", "col"), ("row", "col")),
        (("0.0", "1.0"), (0, 1)),
        (("probability_0", "probability_1"), (0.0, 1.0)),
        (("true", "FALSE"), (True, False)),
    ],
)
def test_names_of_classes_are_told_apart(tmp_path: Path, names: Any, classes: Any) -> None:
    path = write_columns(tmp_path / "p.csv", dict(zip(names, P.T.tolist(), strict=True)))
    order = np.argsort(np.array(classes))
    assert read(path, classes) == P[:, order].tolist()


@pytest.mark.parametrize(
    ("names", "classes", "told"),
    [
        (("Sick", "sick", "SICK", "well"), ("sIck", "well"), "do not tell the classes .* apart"),
        (("score_a", "score_b", "score_c"), "bc", "has the columns 'score_a'.* the classes 'b', "),
        (("well", "other"), ("well", "sick"), "has no column 'probability_sick'"),
    ],
)
def test_names_that_tell_too_little_are_refused(
    tmp_path: Path, names: Any, classes: Any, told: str
) -> None:
    columns = {name: [1 / len(names)] * 2 for name in names}
    path = write_columns(tmp_path / "p.csv", columns)
    with refused(told, TableError, path=path):
        read(path, list(classes))


@pytest.mark.parametrize("names", ["{}", "P({})", "probability_{}"])
def test_classes_that_no_row_has_are_kept(tmp_path: Path, names: str) -> None:
    values = [[0.5, 0.25, 0.25], [0.0, 0.75, 0.25]]
    columns = {names.format(c): list(v) for c, v in zip("cab", np.transpose(values), strict=True)}
    path = write_columns(tmp_path / "p.csv", columns | {"row": [1, 2]})
    assert read(path, ["a", "b"]) == [[0.25, 0.25, 0.5], [0.75, 0.25, 0.0]]
    np.savez(tmp_path / "p.npz", probabilities=values, classes=np.array(list("cab")))
    assert read(tmp_path / "p.npz", ["a", "b"]) == [[0.25, 0.25, 0.5], [0.75, 0.25, 0.0]]


def test_classes_of_arrays_are_checked(tmp_path: Path) -> None:
    for classes, told in (
        (np.array(["x", "z"]), "has the classes 'x', 'z', and the data '0', '1'"),
        (np.array(["0", "1"], object), "pickled objects are never loaded"),
        (np.array([0, 1, 2]), "has 3 classes and 2 columns"),
    ):
        np.savez(tmp_path / "p.npz", probabilities=P, classes=classes)
        with refused(told, TableError, path=tmp_path / "p.npz"):
            read(tmp_path / "p.npz", Y)
    np.savez(tmp_path / "p.npz", probabilities=P, classes=np.array([1, 0]))
    assert read(tmp_path / "p.npz", Y.astype(float)) == P[:, ::-1].tolist()


def test_rows_are_matched_by_ids_or_numbers(tmp_path: Path) -> None:
    columns = {"row": [2, 1], "pid": ["b", "a"], "probability_0": [0.5, 0.25]}
    columns["probability_1"] = [0.5, 0.75]
    path = write_columns(tmp_path / "p.csv", columns)
    assert read(path, Y, np.array(["a", "b"]), "pid") == P.tolist()
    assert read(path, Y, np.array(["b", "a"]), "pid") == P[::-1].tolist()
    assert read(path, Y) == P.tolist()
    one = read_probabilities(path, Y[1:], kept=np.array([False, True]))
    assert one.values.tolist() == P[1:].tolist()  # the first row is of a target
    for ids, told in (
        (["a", "c"], "has no row with 'c' as 'pid', which the data have"),
        (["a", "a"], "the data have some 'pid' twice"),
    ):
        with refused(told, TableError, path=path if "row" in told else None):
            read(path, Y, np.array(ids), "pid")
    for more, told in (
        ({"row": [2, 3]}, "has no row with '1' as 'row'"),
        ({"row": [1, 1]}, "has some 'row' twice or not at all"),
        ({"row": [1, None]}, "has some 'row' twice or not at all"),
    ):
        path = write_columns(tmp_path / "q.csv", columns | more)
        with refused(told, TableError, path=path):
            read(path, Y)
    path = write_columns(tmp_path / "n.csv", columns | {"pid": ["01", "2.0"]})
    assert read(path, Y, np.array([2, 1]), "pid") == [[0.25, 0.75], [0.5, 0.5]]
    del columns["row"]
    with pytest.warns(UserWarning, match="has a column 'pid', which the data lack or have gaps in"):
        read(write_columns(tmp_path / "p.csv", columns), Y, None, "pid")


def test_an_audit_of_predictions_does_not_depend_on_the_order_of_rows(
    run: Run, tmp_path: Path
) -> None:
    drawn = make_confounded_domains(200, strengths=(0.9, 0.7), n_features=4, random_state=0)
    columns = {f"x{i}": drawn.X[:, i] for i in range(4)} | {
        "pid": np.array([f"p{i}" for i in range(len(drawn.y))]),
        "label": np.where(drawn.y == 1, "well", "sick"),
        "domain": drawn.sample_domain,
    }
    table = write_columns(tmp_path / "table.csv", {k: v.tolist() for k, v in columns.items()})
    assert run("fit", table, "--id", "pid", "--out", tmp_path / "run").code == 0
    assert run("predict", tmp_path / "run", table, "--out", tmp_path / "p").code == 0
    order = np.random.default_rng(0).permutation(len(drawn.y))
    other = write_columns(
        tmp_path / "other.csv", {k: v[order].tolist() for k, v in columns.items()}
    )
    predictions = tmp_path / "p" / "predictions.csv"
    audits = [run("audit", predictions, each, "--id", "pid") for each in (table, other)]
    # So they are by a column "id" that nobody names.
    for path in (predictions, table, other):
        path.write_text(path.read_text().replace("pid", "id", 1))
    audits += [run("audit", predictions, each) for each in (table, other)]
    assert [done.code for done in audits] == [0] * 4, audits
    first, *rest = (done.out.splitlines()[-12:] for done in audits)
    assert rest == [first] * 3
