"""Tables from real files: what is read, and one sentence for what cannot be."""

import warnings
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import CROClassifier, TableFeatures, write_bank
from regraft.data import table_columns
from regraft.data.columns import ColumnChoice, is_missing
from regraft.data.labelled import read_labelled
from regraft.data.scoring import score
from regraft.data.table_columns import read_columns
from regraft.data.tables import TableError, align, read_table
from tests.helpers.errors import one_sentence, refused
from tests.helpers.mixed_table import features_of, mixed_columns
from tests.helpers.tables import write_columns

X = np.array([[0.1, 2.0], [1 / 3, -1e-300], [5.0, 6.0], [7.0, 1e22]])
Y = np.array([1, 0, 1, 0])
DOMAIN = np.array(["a", "a", "b", "b"])
GROUP = [7, 7, 8, 9]


def write(
    path: Path, features: Any = X, y: Any = Y, domain: Any = DOMAIN, group: Any = None
) -> Path:
    """The same rows in the format that the suffix names; a group is the column "place"."""
    others = {} if group is None else {"place": group}
    others |= {"label": y, "domain": domain}
    if path.suffix == ".npz":
        return write_columns(path, {"X": features, **others})
    named = {f"f{i}": column for i, column in enumerate(np.asarray(features).T)}
    return write_columns(path, named | others)


def matrix(table: Any) -> Any:
    """The features as numbers, also of named columns."""
    return align(table, (), len(table.features) or table.X.shape[1])


suffixes = pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])


@suffixes
@pytest.mark.parametrize(("group", "kind"), [(None, ""), (GROUP, "i"), (["s", "t", "s", "7"], "U")])
def test_every_format_gives_the_same_table(
    tmp_path: Path, suffix: str, group: list[Any] | None, kind: str
) -> None:
    path = write(tmp_path / f"data{suffix}", group=group)
    table = read_table(path, group="place" if group else None)
    np.testing.assert_array_equal(matrix(table), X)
    assert matrix(table).dtype == np.float64
    np.testing.assert_array_equal(table.y, Y)
    assert table.y.dtype.kind == "i"
    np.testing.assert_array_equal(table.domain, DOMAIN)
    assert table.features == (() if suffix == ".npz" else ("f0", "f1"))
    read = None if table.group is None else (table.group.tolist(), table.group.dtype.kind)
    assert read == (group and (group, kind))


def test_every_format_gives_the_same_fit_and_small_floats(tmp_path: Path, problem: Any) -> None:
    heads = []
    for suffix in (".npz", ".csv", ".parquet"):
        table = read_table(write(tmp_path / f"d{suffix}", problem.X, problem.y, problem.domain))
        heads.append(CROClassifier().fit(matrix(table), table.y, table.domain).coef_)
    np.testing.assert_array_equal(heads[0], heads[1])
    np.testing.assert_array_equal(heads[0], heads[2])
    assert read_table(write(tmp_path / "a.npz", X.astype(np.float32))).X.dtype == np.float32
    assert read_table(write(tmp_path / "b.npz", np.eye(4, dtype=int))).X.dtype == np.float64
    table = read_table(write(tmp_path / "c.parquet", np.eye(4, dtype=bool)))
    np.testing.assert_array_equal(matrix(table), np.eye(4))


def test_a_bank_is_a_table_whose_features_stay_on_disk(tmp_path: Path, problem: Any) -> None:
    features = X[:, :1].astype(np.float32)
    write_bank(tmp_path / "bank", features, Y, DOMAIN)
    table = read_table(tmp_path / "bank")
    assert isinstance(table.X, np.memmap)
    np.testing.assert_array_equal(table.X, features)
    np.testing.assert_array_equal(table.y, Y)
    np.testing.assert_array_equal(table.domain, DOMAIN)
    assert table.features == ()
    assert read_table(tmp_path / "bank", label="domain", domain="label").y is not None
    without = read_table(tmp_path / "bank", label="none", need_label=False)
    assert without.y is None and without.domain is not None
    with pytest.raises(TableError, match=r"no label column 'none' \(it has 'label', 'domain'\)"):
        read_table(tmp_path / "bank", label="none")
    features = problem.X.astype(np.float32)
    write_bank(tmp_path / "bank", features, problem.y, problem.domain)
    table = read_table(tmp_path / "bank")
    head = CROClassifier().fit(table.X, table.y, table.domain)
    expected = CROClassifier().fit(features, problem.y, problem.domain)
    np.testing.assert_array_equal(head.coef_, expected.coef_)
    np.testing.assert_array_equal(head.predict(table.X), expected.predict(features))


def test_banks_that_cannot_be_read(tmp_path: Path) -> None:
    write_bank(tmp_path / "bank", X[:, :1], Y, DOMAIN)
    with refused(r"only labels and domains.*'place'.*\.npz or", TableError):
        read_table(tmp_path / "bank", group="place")
    with pytest.raises(TableError, match="only labels and domains"):
        read_table(tmp_path / "bank", label="none", need_label=False, group="label")
    (tmp_path / "bank" / "features.safetensors").write_bytes(b"")
    with refused("damaged or cut off", TableError):
        read_table(tmp_path / "bank")
    (tmp_path / "begun" / ".unfinished").mkdir(parents=True)
    with refused("not finished", TableError):
        read_table(tmp_path / "begun")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "-2", "3", "1"], [1, -2, 3, 1]),
        (["007", "7", "7", "007"], ["007", "7", "7", "007"]),
        (["a, b", "c", 'say "d"', "c"], ["a, b", "c", 'say "d"', "c"]),
        (["0.0", "1.0", "1.0", "0.0"], ["0.0", "1.0", "1.0", "0.0"]),
    ],
)
def test_csv_labels_keep_their_type(tmp_path: Path, cells: list[str], expected: list[Any]) -> None:
    table = read_table(write(tmp_path / "d.csv", y=cells))
    assert table.y.tolist() == expected


def test_csv_allows_a_byte_order_mark_blank_lines_and_spaces(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("\ufeffplace, f0 ,target,f1\n\nx,1, yes,2\ny, 3,no,4\n\n", encoding="utf-8")
    table = read_table(path, label="target", domain="place")
    np.testing.assert_array_equal(matrix(table), [[1, 2], [3, 4]])
    assert table.features == ("f0", "f1")
    np.testing.assert_array_equal(table.y, ["yes", "no"])
    np.testing.assert_array_equal(table.domain, ["x", "y"])


@suffixes
def test_optional_columns_may_be_absent_or_have_gaps(tmp_path: Path, suffix: str) -> None:
    gaps = np.array([1.0, np.nan, 0.0, 1.0]) if suffix == ".npz" else [1, None, 0, 1]
    path = write(tmp_path / f"d{suffix}", y=gaps)
    table = read_table(path, need_label=False)
    assert table.y is None
    with_gaps = read_table(path, label_gaps=True).y
    assert with_gaps is not None
    assert [is_missing(label) for label in with_gaps.tolist()] == [False, True, False, False]
    assert table.domain is not None
    with refused(r"row 2 .*has no label", TableError):
        read_table(path)
    if suffix == ".npz":
        np.savez(path, X=X)
    else:
        path = tmp_path / "x.csv"
        path.write_text("f0,f1\n1,2\n")
    table = read_table(path, need_label=False, need_domain=False)
    assert table.y is None and table.domain is None


@suffixes
def test_unknown_columns_are_answered_with_those_that_exist(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"d{suffix}", np.ones((4, 12)))
    with pytest.raises(TableError, match="--label") as caught:
        read_table(path, label="target")
    message = one_sentence(caught.value)
    assert "'target'" in message
    if suffix != ".npz":
        assert "'f3', 6 more, 'f10', 'f11', 'label', 'domain'" in message and "'f8'" not in message
        with pytest.raises(TableError, match="did you mean 'label'"):
            read_table(path, label="lable")
    with pytest.raises(TableError, match=r"'place'.*--domain"):
        read_table(path, domain="place")


def damaged(path: Path) -> None:
    write(path)
    path.write_bytes(path.read_bytes()[:-20])


def foreign(path: Path) -> None:
    path.write_bytes(b"\x80\x04\x95 this is neither a zip nor a parquet file")


def corrupted(path: Path) -> None:
    np.savez_compressed(path, X=np.zeros((500, 2)), label=np.zeros(500), domain=np.zeros(500))
    content = bytearray(path.read_bytes())
    content[60:70] = b"\xff" * 10
    path.write_bytes(content)


def zipped_text(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X", "text")


BROKEN: list[tuple[str, Callable[[Path], object], str]] = [
    ("d.npz", lambda p: None, "does not exist"),
    ("d.npz", Path.mkdir, "is a folder"),
    ("d.json", lambda p: p.write_text("{}"), r"\.npz, \.csv, \.tsv, \.jsonl, \.parquet"),
    ("d.npz", Path.touch, "damaged or not"),
    ("d.npz", damaged, "damaged or not"),
    ("d.npz", foreign, r"damaged or not a \.npz file: write it again with np\.savez"),
    ("d.npz", corrupted, "damaged or not"),
    ("d.npz", zipped_text, "not an array"),
    ("d.npz", lambda p: np.savez(p, label=Y, domain=DOMAIN), "no array 'X' or 'features'"),
    ("d.npz", lambda p: np.savez(p, X=X[:, 0], label=Y, domain=DOMAIN), r"shape \(4,\)"),
    ("d.npz", lambda p: np.savez(p, X=X.astype(str), label=Y, domain=DOMAIN), "type <U"),
    ("d.npz", lambda p: np.savez(p, X=X, label=Y[:3], domain=DOMAIN), r"4 rows.*label.*\(3,\)"),
    ("d.npz", lambda p: np.savez(p, X=X, label=Y, domain=DOMAIN[:2]), r"domain array of.*\(2,\)"),
    ("d.npz", lambda p: np.savez(p, X=X, label=np.eye(4), domain=DOMAIN), r"\(4, 4\)"),
    ("d.npz", lambda p: np.savez(p, X=X[:0], label=Y[:0], domain=DOMAIN[:0]), "no rows"),
    ("d.csv", Path.touch, "is empty"),
    ("d.csv", lambda p: p.write_text("f0,label,domain\n"), "no rows"),
    ("d.csv", lambda p: p.write_text("label,domain\n1,a\n"), "no feature columns"),
    ("d.csv", lambda p: p.write_text("f0,label,domain\n1,1\n"), r"row 1 \(line 2\).*2 cells.*3"),
    ("d.csv", lambda p: p.write_text("f0,label,domain\n1,1,a,b\n"), "4 cells"),
    ("d.csv", lambda p: p.write_text("f0,f0,label,domain\n1,2,1,a\n"), "more than one.*'f0'"),
    ("d.csv", lambda p: p.write_bytes(b"f0,label,domain\n1,\xff\xfe,a\n"), "UTF-8"),
    ("d.csv", lambda p: p.write_text(f"f0,label,domain\n1,{'x' * 200_000},a\n"), "not CSV"),
    ("d.parquet", Path.touch, "damaged or not"),
    ("d.parquet", damaged, "damaged or not"),
    ("d.parquet", foreign, "damaged or not a Parquet file: write it again"),
]


@pytest.mark.parametrize(("name", "make", "message"), BROKEN)
def test_broken_files_are_told_in_one_sentence(
    tmp_path: Path, name: str, make: Callable[[Path], object], message: str
) -> None:
    path = tmp_path / name
    make(path)
    with refused(message, TableError, path=path):
        read_table(path)


class Bomb:
    """Pickled, it would make a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["X", "label", "domain"])
def test_objects_are_never_unpickled(tmp_path: Path, name: str) -> None:
    trace = tmp_path / "exploded"
    arrays = {"X": X, "label": Y, "domain": DOMAIN, name: np.array([Bomb(trace)] * 4, object)}
    np.savez(tmp_path / "d.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(TableError, match=f"'{name}'.*never loaded"):
        read_table(tmp_path / "d.npz")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [("label", "domain", "label"), ("label", "group", "label"), ("domain", "group", "domain")],
)
def test_a_column_has_one_role(tmp_path: Path, one: str, other: str, name: str) -> None:
    with refused(f"{one} and {other} are both '{name}'", TableError):
        read_table(write(tmp_path / "d.csv"), **{other: name})  # type: ignore[arg-type]


def test_features_are_matched_by_name_and_scores_compare_numbers_with_text(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "d.csv"))
    np.testing.assert_array_equal(align(table, ["f1", "f0"], 2), X[:, ::-1])
    np.testing.assert_array_equal(align(table, [], 2), X)
    unnamed = read_table(write(tmp_path / "d.npz"))
    np.testing.assert_array_equal(align(unnamed, ["f1", "f0"], 2), X)
    for rows, names, n, sentence in (
        (table, ["f0", "g"], 2, "lacks 'g'"),
        (unnamed, [], 3, r"2 feature\(s\).*fitted on 3"),
    ):
        with pytest.raises(TableError, match=sentence):
            align(rows, names, n)
    assert align(table, ["f0"], 1).tolist() == X[:, :1].tolist()
    for cells, sentence in (
        ("1,2\n3,x\n", "row 2 holds 'x' in column 'b'"),
        ("1,\n", "row 1 is empty in column 'b'"),
    ):
        (tmp_path / "e.csv").write_text(f"a,b\n{cells}")
        rows = read_table(tmp_path / "e.csv", need_label=False, need_domain=False)
        with refused(sentence, TableError):
            align(rows, (), 2)


def test_scores_compare_labels_as_files_write_them() -> None:
    classes = np.array([0, 1])
    for truth in (["1", "0", "0", "0"], ["1.0", "0", 0, False], [True, "FALSE", 0.0, "0"]):
        scored = score(Y, truth, DOMAIN, classes)
        assert (scored.accuracy, scored.by_domain) == (0.75, {"a": 1.0, "b": 0.5})
        assert scored.n_labelled == 4
    gaps = score(Y, ["1", "NaN", None, "1"], DOMAIN, classes)
    assert (gaps.accuracy, gaps.by_domain, gaps.n_labelled) == (0.5, {"a": 1.0, "b": 0.0}, 2)
    assert "over the 2 of 4 rows with labels: 50.0%" in gaps.sentences(4)[0]
    assert score(Y, ["", None, "?", np.nan], None, classes).accuracy is None
    assert score(Y, None, DOMAIN, classes).sentences(4) == []
    words = np.array(["none", "some"])
    assert score(words[Y], ["some", "none", "some", "none"], None, words).accuracy == 1
    with refused("2 of 4 rows have a label that is no class of the model \\('5', 'x' instead of"):
        score(Y, ["1", "5", "x", "0"], None, classes)


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "d.jsonl", "d.jsonl.gz", "d.parquet"])
def test_every_format_gives_the_same_features(tmp_path: Path, name: str) -> None:
    columns = mixed_columns()
    columns |= {"dose": [None if cell == "NA" else float(cell) for cell in columns["dose"]]}
    if name == "d.parquet":  # numbers may be texts or decimals there
        columns |= {"age": [Decimal(cell) for cell in columns["age"]]}
    path = write_columns(tmp_path / name, columns)
    with pytest.warns(UserWarning, match="columns left out"):
        table = read_labelled(path, "ill", "place")
        expected = TableFeatures().fit_transform(features_of(mixed_columns()))
    np.testing.assert_array_equal(table.X, expected)
    assert table.columns is not None and list(table.columns)[:2] == ["patient", "age"]
    np.testing.assert_allclose(table.unscaled()[:, 0], np.array(columns["age"], float))


def test_labels_of_npz_files_may_be_bytes(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, X=np.zeros((2, 1)), label=np.array([b"no", b"yes"]), domain=["a", "b"])
    table = read_table(path)
    assert table.y is not None and table.y.tolist() == ["no", "yes"]


def test_semicolons_separate_too_with_decimal_commas(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("label;domain;f0;f1\n1;a;0,5;x, y\n0;b;-2;z\n")
    table = read_table(tmp_path / "d.csv")
    assert isinstance(table.X, dict)
    assert table.X["f0"].tolist() == [0.5, -2] and table.X["f1"].tolist() == ["x, y", "z"]


def test_dots_between_thousands_are_told_where_commas_are_decimal(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("label;domain;f0;f1\n1;a;399;1\n0;b;2.964;1\n1;b;1;0,5\n")
    with pytest.warns(UserWarning, match=r"row 2 \(line 3\) of .* has 2\.964, whose dot"):
        read_table(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ("label;domain;f0\n1;a;2.964\n", "label,domain,f0\n1,a,2.964\n0,b,7\n"):
            path.write_text(text)
            read_table(path)
        path.write_text("label;domain;f0;f1\n1;a;0.964;0,5\n0;b;12.5;1\n")
        read_table(path)


def test_blocks_of_a_long_table_are_one_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_columns._read_cells, "__defaults__", (2,))
    lines = ['{"a": 1}', '{"a": 2, "b": true}', '{"a": "x", "b": "maybe"}', '{"c": [1]}']
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    columns = read_columns(tmp_path / "d.jsonl", plain={"b"})
    assert columns["a"].tolist() == [1, 2, "x", None]
    assert columns["b"] == [None, True, "maybe", None]
    assert columns["c"].tolist()[2:] == [None, [1]]


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    columns = {name: cells.copy() for name, cells in mixed_columns().items()}
    columns["age"][3], columns["dose"][5], columns["ill"][7] = "old", "inf", ""
    path = write_columns(tmp_path / "d.csv", columns)
    with refused("d.csv has 4 problems", TableError, path=path) as caught:
        read_labelled(path, "ill", "clinic")
    for part in (
        "row 8 of",
        "no domain column 'clinic'",
        "'age' holds numbers, but not in row 4",
        "'dose' holds an infinite number in row 6",
    ):
        assert part in str(caught.value)
    columns["ill"][7] = "yes"
    path = write_columns(tmp_path / "d.csv", columns)
    with refused("d.csv has 2 problems", TableError, path=path):
        read_labelled(path, "ill", "place")
    for option in ("features", "drop", "categorical"):
        with refused(f"{option} names 'nothing'", TableError, path=path):
            read_labelled(path, "ill", "place", choice=ColumnChoice(**{option: ("nothing",)}))
        np.savez(tmp_path / "d.npz", X=X, y=Y, domain=DOMAIN)
        with refused(f"no names: leave out --{option}", TableError, path=tmp_path / "d.npz"):
            read_labelled(tmp_path / "d.npz", choice=ColumnChoice(**{option: ("f0",)}))


@pytest.mark.filterwarnings("ignore:columns left out")
def test_rows_of_targets_are_left_out_with_a_warning(tmp_path: Path) -> None:
    columns = mixed_columns()
    target = columns["place"] == "clinic 1"
    columns["place"] = np.where(target, -1, 0)
    columns["age"] = np.where(target, "900", columns["age"])
    path, n = write_columns(tmp_path / "d.csv", columns), int((~target).sum())
    with pytest.warns(UserWarning, match=r"150 rows of negative domains \(-1\) are of targets"):
        table = read_labelled(path, "ill", "place", choice=ColumnChoice(id="patient"))
    assert len(table.X) == len(table.y) == len(table.domain) == n and set(table.domain) == {0}
    assert table.id is not None and table.id.tolist() == columns["patient"][~target].tolist()
    assert abs(table.X[:, 0].mean()) < 1e-9  # no row of the target has a part in the scale
    labels = columns["ill"].astype(str)
    np.savez(tmp_path / "d.npz", X=np.ones((300, 2)), y=labels, domain=columns["place"])
    with pytest.warns(UserWarning, match="are of targets, and left out"):
        assert read_labelled(tmp_path / "d.npz").X.shape == (n, 2)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_group_that_is_not_asked_for_stays_a_feature(tmp_path: Path, suffix: str) -> None:
    table = read_table(write(tmp_path / f"d{suffix}", group=GROUP))
    assert table.group is None
    assert table.features == ("f0", "f1", "place")
    np.testing.assert_array_equal(matrix(table), np.column_stack([X, GROUP]))


@suffixes
def test_a_group_must_be_there_without_gaps(tmp_path: Path, suffix: str) -> None:
    optional: dict[str, Any] = {"need_label": False, "need_domain": False}
    gaps = np.array([7.0, 7.0, np.nan, 9.0]) if suffix == ".npz" else [7, 7, None, 9]
    path = write(tmp_path / f"d{suffix}", group=gaps)
    with refused(r"row 3 .*no group \(column 'place'\).*--group", TableError, path=path):
        read_table(path, group="place", **optional)
    with refused(r"no group column 'town'.*'place'.*--group", TableError, path=path):
        read_table(path, group="town", **optional)


def test_npz_understands_the_names_of_fit_but_for_the_group(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"4 rows.*group array of shape \(3,\)"):
        read_table(write(tmp_path / "short.npz", group=GROUP[:3]), group="place")
    np.savez(tmp_path / "d.npz", features=X, y=Y, sample_domain=DOMAIN)
    table = read_table(tmp_path / "d.npz")
    np.testing.assert_array_equal(table.y, Y)
    np.testing.assert_array_equal(table.domain, DOMAIN)
    with pytest.raises(TableError, match="no group column 'label'"):  # "y" is no other name of it
        read_table(tmp_path / "d.npz", label="y", group="label")
