"""Files of features as datasets: what is read, standardized, found and refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.bench.datasets import features, open_dataset
from regraft.bench.datasets.features import FeatureBank, Vectors, find_bank, list_banks
from regraft.data.banks import open_bank, write_bank
from tests.helpers.errors import refused
from tests.helpers.paths import SHARED

CPU = torch.device("cpu")
REAL = SHARED / "pacs" / "efficientnet_lite0.npz"

X = np.arange(14, dtype=np.float16).reshape(7, 2)
LABELS = np.array(["dog", "cat", "dog", "cat", "dog", "cat", "dog"])
DOMAIN = np.array(["b", "a", "b", "a", "b", "a", "a"])


def save(path: Path, **changes: Any) -> Path:
    np.savez(path, **({"X": X, "y": LABELS, "domain": DOMAIN} | changes))
    return path


def in_npz(path: Path) -> Path:
    return save(path.with_suffix(".npz"))


def in_npz_numbered(path: Path) -> Path:
    numbers, names = (DOMAIN == "a").astype(np.uint8), np.array(["b", "a"])
    labels = (LABELS == "dog").astype(np.uint8)
    return save(path.with_suffix(".npz"), y=labels, domain=numbers, domains=names)


def in_csv(path: Path) -> Path:
    rows = [f"{y},{x[0]},{d},{x[1]}" for x, y, d in zip(X, LABELS, DOMAIN, strict=True)]
    path.with_suffix(".csv").write_text("\n".join(["label,first,domain,second", *rows]))
    return path.with_suffix(".csv")


def in_parquet(path: Path) -> Path:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"one": X[:, 0], "two": X[:, 1], "label": LABELS, "domain": DOMAIN})
    frame.astype({"one": "float32", "two": "float32"}).to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def in_bank(path: Path) -> Path:
    return write_bank(path, X, LABELS, DOMAIN).folder


@pytest.mark.parametrize("write", [in_npz, in_npz_numbered, in_csv, in_parquet, in_bank])
def test_every_kind_of_file_holds_the_same(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    bank = FeatureBank(write(tmp_path / "animals"))
    assert (bank.name, bank.group, bank.env_names) == ("animals", "features", ("a", "b"))
    assert (bank.input_shape, bank.n_classes) == ((2,), 2)
    a, b = bank.environments(0, CPU)
    assert a.x.dtype == torch.float32
    assert a.x.tolist() == [[2, 3], [6, 7], [10, 11], [12, 13]]
    assert a.y.tolist() == [0, 0, 0, 1]
    assert b.x.tolist() == [[0, 1], [4, 5], [8, 9]]
    assert b.y.tolist() == [1, 1, 1]
    assert b.inputs(torch.tensor([2, 0]), augmentation=3).tolist() == [[8, 9], [0, 1]]


def test_numbers_keep_their_order_and_may_be_fewer_than_their_names(tmp_path: Path) -> None:
    domain, y = np.array([10, 10, 2, 2, 10, 9, 9]), np.array([5, 7, 7, 5, 9, 9, 9])
    bank = FeatureBank(save(tmp_path / "f.npz", domain=domain, y=y))
    assert bank.env_names == ("2", "9", "10")
    assert [e.y.tolist() for e in bank.environments(0, CPU)] == [[1, 0], [2, 2], [0, 1, 2]]
    numbers = np.where(DOMAIN == "a", 3, 1)
    names = np.array(["none", "zebra", "none", "ape"])
    bank = FeatureBank(save(tmp_path / "f.npz", domain=numbers, domains=names))
    assert bank.env_names == ("ape", "zebra")
    assert bank.environments(0, CPU)[0].x[:, 0].tolist() == [2, 6, 10, 12]


def test_rows_trained_on_decide_the_units_and_others_do_not_matter(tmp_path: Path) -> None:
    """Of column 0 the rows 2, 10 and 4 count: mean 16/3; the constant column is only moved."""
    features = np.column_stack([X[:, 0], np.full(7, 0.1)])
    bank = FeatureBank(save(tmp_path / "f.npz", X=features))
    environments = bank.environments(0, CPU)
    rows = {0: torch.tensor([0, 2]), 1: torch.tensor([1])}
    a, b = bank.prepare(environments, rows)
    mean, deviation = 16 / 3, np.sqrt((2**2 + 10**2 + 4**2) / 3 - (16 / 3) ** 2)
    for environment, column in ((a, [2, 6, 10, 12]), (b, [0, 4, 8])):
        expected = (torch.tensor(column) - mean) / deviation
        torch.testing.assert_close(seen(environment)[:, 0], expected.float())
    torch.testing.assert_close(seen(a)[:, 1], torch.zeros(4))
    assert torch.equal(a.y, environments[0].y)
    assert environments[0].x[0, 0] == 2  # what was passed stays as it was
    rows = {0: torch.tensor([0, 1, 2])}
    changed = X.astype(np.float64)
    changed[np.flatnonzero(changed[:, 0] == 12)] = 1e4  # the fourth row of the first domain
    first, second = (prepare(tmp_path, rows, X=features)[0] for features in (X, changed))
    assert torch.equal(seen(first)[:3], seen(second)[:3])
    assert not torch.equal(seen(first)[3], seen(second)[3])


def prepare(folder: Path, rows: dict[int, torch.Tensor], **changes: Any) -> list[Vectors]:
    bank = FeatureBank(save(folder / "f.npz", **changes))
    return bank.prepare(bank.environments(0, CPU), rows)


def seen(environment: Vectors) -> torch.Tensor:
    return environment.inputs(torch.arange(len(environment)))


@given(seed=st.integers(0, 2**16), unit=st.floats(1e-3, 1e3), origin=st.floats(-1e3, 1e3))
def test_units_and_origin_of_features_do_not_matter(
    seed: int, unit: float, origin: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("banks")
    features = np.random.default_rng(seed).standard_normal((7, 3))
    rows = {0: torch.arange(3), 1: torch.arange(2)}
    a, b = (prepare(folder, rows, X=x)[0] for x in (features, unit * (features + origin)))
    torch.testing.assert_close(seen(a), seen(b), rtol=1e-3, atol=1e-2)


def test_files_are_found_by_their_stem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npz, csv = in_npz(tmp_path / "one"), in_csv(tmp_path / "two")
    in_csv(tmp_path / "one")
    (tmp_path / "notes.txt").write_text("no bank")
    (tmp_path / "folder.npz").mkdir()
    assert list_banks(tmp_path) == ["one", "two"]
    assert find_bank("one", tmp_path) == npz
    assert find_bank("two", tmp_path) == find_bank("two", csv) == csv
    assert find_bank("one", csv) is None
    assert find_bank("notes", tmp_path) is None
    assert list_banks(tmp_path / "absent") == []

    monkeypatch.delenv("REGRAFT_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert list_banks() == ["one", "two"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("REGRAFT_DATA", str(tmp_path / "elsewhere"))
    assert list_banks() == []
    assert open_dataset("two", tmp_path).env_names == ("a", "b")
    with pytest.raises(ValueError, match=r"'three': choose from .*one, two, or name a file"):
        open_dataset("three", tmp_path)


def test_banks_are_found_by_their_names_and_known_by_their_checksums(tmp_path: Path) -> None:
    bank, other = in_bank(tmp_path / "one.v2"), in_bank(tmp_path / "two")
    in_npz(tmp_path / "two")
    (tmp_path / "begun" / ".unfinished").mkdir(parents=True)
    assert list_banks(tmp_path) == ["one.v2", "two"]
    assert find_bank("one.v2", tmp_path) == find_bank("one.v2", bank) == bank
    assert find_bank("two", tmp_path) == other
    assert open_dataset("one.v2", tmp_path).name == "one.v2"
    folder = in_bank(tmp_path / "bank")
    assert FeatureBank(folder).fingerprint == open_bank(folder).checksum[:12]
    write_bank(folder, X + 1, LABELS, DOMAIN)
    changed = FeatureBank(folder).fingerprint
    assert changed == open_bank(folder).checksum[:12]
    assert changed != FeatureBank(in_bank(tmp_path / "other")).fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"domain": np.full(7, "b")}, r"one domain only \(b\)"),
        ({"domain": np.array([*"abbbbbb"])}, "1 row of domain a"),
        ({"y": np.zeros(7)}, "one label only"),
        ({"X": np.where(X == 3, np.nan, X)}, "32 bits, in 1 row of 7: drop this row"),
        ({"X": np.where(X > 8, 1e300, X.astype(float))}, "in 3 rows of 7: drop these rows"),
        ({"X": np.where([False, True], np.inf, X)}, "in feature 2 of 2: drop this column"),
        ({"X": np.full((7, 3), np.nan)}, "in feature 1 of 3 and 2 more: drop these columns"),
        ({"domain": np.arange(7) % 3, "domains": np.array(["x", "y"])}, "numbered 0 to 2"),
        ({"domain": np.arange(7) % 2, "domains": np.array(["x", None])}, "plain strings"),
        ({"y": LABELS[:3]}, "one value per row"),
    ],
)
def test_refusals_are_one_sentence(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = save(tmp_path / "f.npz", **changes)
    with refused(message, path=path) as caught:
        FeatureBank(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("lacking", "role"), [("domain", "domain"), ("y", "label")])
def test_a_column_that_is_lacking_is_asked_for(tmp_path: Path, lacking: str, role: str) -> None:
    """No option of ``train`` and ``sweep`` names columns."""
    arrays = {"X": X, "y": LABELS, "domain": DOMAIN}
    del arrays[lacking]
    np.savez(tmp_path / "f.npz", **arrays)  # type: ignore[arg-type]
    expected = f"has no {role} column .*: write a {role} for each row, in a column called {role}"
    with refused(expected, path=tmp_path / "f.npz") as caught:
        FeatureBank(tmp_path / "f.npz")
    assert "--" not in str(caught.value)


@pytest.mark.skipif(not REAL.is_file(), reason="the features of PACS are not beside the project")
def test_the_real_features_of_pacs() -> None:
    bank = open_dataset("efficientnet_lite0", REAL.parent)
    assert bank.env_names == ("art_painting", "cartoon", "photo", "sketch")
    assert (bank.input_shape, bank.n_classes) == ((1280,), 7)
    environments = bank.environments(0, CPU)
    assert [len(environment) for environment in environments] == [2048, 2344, 1670, 3929]
    rows = {env: torch.arange(0, len(environments[env]), 2) for env in (0, 1, 3)}
    prepared = bank.prepare(environments, rows)
    training = torch.cat([prepared[env].inputs(kept) for env, kept in rows.items()])
    torch.testing.assert_close(training.mean(0), torch.zeros(1280), atol=1e-4, rtol=0)
    torch.testing.assert_close(training.std(0), torch.ones(1280), atol=1e-3, rtol=0)


def test_jobs_with_the_same_training_rows_share_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in their units are kept while there is room; without, the numbers are the same."""
    bank = FeatureBank(save(tmp_path / "b.npz"))
    environments = bank.environments(0, CPU)
    splits = [{0: torch.arange(n)} for n in (2, 3, 4)]
    monkeypatch.setattr(features, "_MOST_BYTES", 2 * bank._X.nbytes)
    first, second, third = (bank.prepare(environments, rows) for rows in splits)
    assert bank.prepare(environments, splits[1]) is second
    assert bank.prepare(environments, splits[2]) is third
    assert bank.prepare(environments, splits[0]) is not first  # which gave way
    monkeypatch.setattr(features, "_MOST_BYTES", 0)
    every = torch.arange(len(environments[1]))
    lazy = bank.prepare(environments, splits[1])
    assert torch.equal(lazy[1].inputs(every), second[1].inputs(every))


def test_units_are_found_where_the_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = FeatureBank(in_npz(tmp_path / "a"))
    asked = []

    def inputs(self: Vectors, rows: torch.Tensor) -> torch.Tensor:
        asked.append(rows.device)
        return torch.zeros(len(rows), 2)

    monkeypatch.setattr(Vectors, "inputs", inputs)
    elsewhere = torch.device("meta")
    bank.prepare(bank.environments(0, elsewhere), {0: torch.tensor([0]), 1: torch.tensor([1])})
    assert asked == [elsewhere, elsewhere]
