"""Banks of features on disk: what is written, what is read back, and what is refused."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft import Bank, open_bank, write_bank
from regraft.data.bank_writer import DATA_START, BankWriter, Input, Origin, Skipped, header
from regraft.data.banks import check_place, is_bank, is_unfinished, verify
from regraft.support.files import claim
from tests.helpers.errors import refused
from tests.helpers.toy_encoders import contents

X = np.arange(15, dtype=np.float32).reshape(5, 3) / 7
LABELS = np.array(["dog", "cat", "dog", "cat", "emu"])
DOMAIN = np.array(["b", "a", "b", "b", "a"])
ORIGIN = Origin("images", "net", "0f", {"size": 4}, "11")
NAMES = ("cat", "dog"), ("a",)


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return write_bank(tmp_path / "bank", X, LABELS, DOMAIN, encoder="net", fingerprint="0f")


def test_arrays_come_back_and_anything_that_reads_safetensors_reads_them(bank: Bank) -> None:
    assert isinstance(bank.X, np.memmap) and not bank.X.flags.writeable
    assert bank.X.dtype == np.float32
    np.testing.assert_array_equal(bank.X, X)
    np.testing.assert_array_equal(bank.labels, LABELS)
    np.testing.assert_array_equal(bank.domain_names, DOMAIN)
    assert (bank.classes, bank.domains) == (("cat", "dog", "emu"), ("a", "b"))
    assert bank.y.tolist() == [1, 0, 1, 0, 2]
    assert bank.domain.tolist() == [1, 0, 1, 1, 0]
    assert (bank.kind, bank.encoder, bank.fingerprint) == ("arrays", "net", "0f")
    verify(bank)
    path = bank.folder / "features.safetensors"
    arrays = safetensors.numpy.load(path.read_bytes())
    assert sorted(arrays) == ["domain", "features", "label"]
    np.testing.assert_array_equal(arrays["features"], X)
    np.testing.assert_array_equal(arrays["domain"], [1, 0, 1, 1, 0])
    with safetensors.safe_open(path, "pt") as file:
        assert torch.equal(file.get_tensor("label"), torch.tensor([1, 0, 1, 0, 2]))
        assert file.get_tensor("features").dtype == torch.float32


def test_checksums_are_of_data_and_inputs_and_files_repeat(bank: Bank, tmp_path: Path) -> None:
    y, domain = (np.array(v, "<i8").tobytes() for v in ([1, 0, 1, 0, 2], [1, 0, 1, 1, 0]))
    assert bank.checksum == hashlib.sha256(X.tobytes() + y + domain).hexdigest()
    rows = [hashlib.sha256(row.tobytes()) for row in X]
    digests = b"".join(row.digest() for row in rows)
    assert bank.inputs_checksum == hashlib.sha256(digests).hexdigest()
    lines = (bank.folder / "inputs.jsonl").read_text().splitlines()
    expected = [{"row": i, "sha256": row.hexdigest()} for i, row in enumerate(rows, 1)]
    assert [json.loads(line) for line in lines] == expected
    other = write_bank(tmp_path / "o", X, LABELS, DOMAIN, encoder="net", fingerprint="0f")
    assert contents(other.folder) == contents(bank.folder)
    assert sorted(contents(bank.folder)) == ["bank.json", "features.safetensors", "inputs.jsonl"]
    assert str(tmp_path).encode() not in b"".join(contents(bank.folder).values())


@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 5),
    seed=st.integers(0, 99),
    dtype=st.sampled_from(["f2", "f4", "f8", "i4"]),
)
def test_any_arrays_survive(
    rows: int, columns: int, seed: int, dtype: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = np.random.default_rng(seed)
    features = (9 * rng.standard_normal((rows, columns))).astype(dtype)
    y, domain = rng.integers(-2, 3, rows), rng.choice(["é", "b c", ""], rows)
    folder = tmp_path_factory.mktemp("banks") / "bank"
    bank = write_bank(folder, features, y, domain)
    np.testing.assert_array_equal(bank.X, features.astype(np.float32))
    np.testing.assert_array_equal(bank.labels, y)
    np.testing.assert_array_equal(bank.domain_names, domain)
    assert bank.labels.dtype.kind == "i"
    verify(bank)


def test_many_rows_are_written_in_chunks_and_opened_without_their_features(tmp_path: Path) -> None:
    n = 20_000
    features = np.arange(2 * n, dtype=np.float64).reshape(n, 2)
    bank = write_bank(tmp_path / "bank", features, np.arange(n) % 3, np.arange(n) // 15_000)
    np.testing.assert_array_equal(bank.X, features)
    np.testing.assert_array_equal(bank.labels, np.arange(n) % 3)
    assert bank.domain.sum() == 5_000
    last = (tmp_path / "bank" / "inputs.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["row"] == n
    # A file with a hole of 3 GB, which takes no space on the disk.
    n, d = 1_000_000, 768
    folder = write_bank(tmp_path / "bank", np.ones((2, d)), [0, 1], ["a", "b"]).folder
    with (folder / "features.safetensors").open("r+b") as file:
        file.write(header(n, d))
        file.truncate(DATA_START + n * d * 4 + 2 * n * 8)
    told = unseal((folder / "bank.json").read_bytes())
    (folder / "bank.json").write_text(json.dumps(told | {"rows": n}))
    bank = open_bank(folder)
    assert bank.X.shape == (n, d)
    assert bank.X[0, 0] == 1 and bank.X[-1].sum() == 0 and bank.y.shape == (n,)


def test_banks_are_replaced_in_the_end_or_refused(tmp_path: Path, bank: Bank) -> None:
    bad = np.vstack([X, np.full((9000, 3), np.nan, np.float32)])
    with refused(r"row 1 of X .* no finite numbers"):
        write_bank(bank.folder, bad, np.zeros(9005, int), np.zeros(9005, int))
    np.testing.assert_array_equal(open_bank(bank.folder).X, X)
    new = write_bank(bank.folder, X[:2], LABELS[:2], DOMAIN[:2])
    np.testing.assert_array_equal(new.X, X[:2])
    assert open_bank(bank.folder).classes == ("cat", "dog")
    (tmp_path / "file").touch()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").touch()
    for name, message in (("file", "is a file"), ("thesis", "other files (chapter.tex)")):
        with refused(re.escape(message)):
            write_bank(tmp_path / name, X, LABELS, DOMAIN)
    with claim(bank.folder), refused("another process is writing"):
        write_bank(bank.folder, X, LABELS, DOMAIN)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": X[0]}, "shape (3,)"),
        ({"X": np.array([["a"]] * 5)}, "type <U1"),
        ({"X": X[:, :0]}, "shape (5, 0)"),
        ({"X": np.full((5, 1), 1e300)}, "no finite numbers of 32 bits"),
        ({"y": LABELS[:2]}, "y has shape (2,)"),
        ({"domain": np.arange(5) / 2}, "domain has type float64"),
    ],
)
def test_arrays_that_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    arrays = {"X": X, "y": LABELS, "domain": DOMAIN} | changes
    if arrays["X"].ndim == 1:
        arrays |= {"y": LABELS[:3], "domain": DOMAIN[:3]}
    with refused(re.escape(message)):
        write_bank(tmp_path / "bank", **arrays)
    assert not is_bank(tmp_path / "bank")


def edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / name).write_bytes(change((folder / name).read_bytes()))

    return apply


def unseal(old: bytes) -> dict[str, Any]:
    """Read a description without the checksums that tell of changes first."""
    return {k: v for k, v in json.loads(old).items() if k not in ("sha256", "files")}


def describe(**changes: Any) -> Callable[[Path], None]:
    return edit("bank.json", lambda old: json.dumps(unseal(old) | changes).encode())


def reheader(old: bytes, new: bytes) -> Callable[[Path], None]:
    assert len(old) == len(new)
    return edit("features.safetensors", lambda content: content.replace(old, new, 1))


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (lambda folder: (folder / "bank.json").unlink(), "is not a bank of features"),
    (lambda folder: (folder / "features.safetensors").unlink(), "lacks features.safetensors"),
    (edit("bank.json", lambda old: old[:50]), "bank.json is damaged"),
    (edit("bank.json", lambda old: b"[1]"), "does not describe a bank"),
    (describe(format=9), "has format 9"),
    (describe(encoder=None), "bank.json is damaged"),
    (describe(rows=4), "are not of one bank"),
    (describe(classes=["cat"]), "features.safetensors is damaged"),
    (edit("features.safetensors", lambda old: old[:-1]), "damaged or cut off"),
    (edit("features.safetensors", lambda old: old[:100]), "damaged or cut off"),
    (edit("features.safetensors", lambda old: b""), "damaged or cut off"),
    (edit("features.safetensors", lambda old: b"\xff" * 600), "damaged or cut off"),
    (reheader(b"[5,3]", b"[4,3]"), "damaged or cut off"),
    (reheader(b"[5,3]", b"[-5,3"), "damaged or cut off"),
    (reheader(b'"F32"', b'"F16"'), "damaged or cut off"),
    (
        lambda folder: (
            edit("features.safetensors", lambda old: safetensors.numpy.save({"weight": X}))(folder),
            describe()(folder),
        ),
        "has no array 'features'",
    ),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_damaged_banks_are_refused_in_one_sentence(
    bank: Bank, damage: Callable[[Path], None], message: str
) -> None:
    damage(bank.folder)
    with refused(message) as caught:
        open_bank(bank.folder)
    assert str(bank.folder) in str(caught.value)


# Another sign for the first feature, so that the bank still opens.
FLIP = edit(
    "features.safetensors", lambda old: old[: DATA_START + 3] + b"\x80" + old[DATA_START + 4 :]
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (FLIP, "features.safetensors was changed since"),
        (edit("inputs.jsonl", lambda old: old.replace(b'"row": 1', b'"row": 7')), "was changed"),
        (edit("inputs.jsonl", lambda old: old[: old.index(b"\n") + 1]), "damaged or cut off"),
        (edit("inputs.jsonl", lambda old: b"!" + old[1:]), "line 1 of .* is damaged"),
        (edit("bank.json", lambda old: old.replace(b"cat", b"rat")), "bank.json is damaged"),
        (lambda folder: (folder / "inputs.jsonl").unlink(), "lacks inputs.jsonl"),
    ],
)
def test_changes_are_noticed(bank: Bank, change: Callable[[Path], None], message: str) -> None:
    change(bank.folder)
    with refused(message):
        verify(open_bank(bank.folder))


def append(writer: BankWriter, *rows: int) -> None:
    features = X[list(rows)]
    y = np.array([row % 2 for row in rows], np.int64)
    inputs = [Input(f"p/{row}", f"{row:064}") for row in rows]
    writer.append(features, [y, 0 * y], inputs, [Skipped(f"q/{row}", "torn") for row in rows[:1]])


def write_in_two_goes(folder: Path, between: Callable[[Path], None]) -> bytes:
    """Rows 0 and 1, then something happens, then rows 2 to 4 by another writer."""
    with closing(BankWriter(folder, 3)) as writer:
        append(writer, 0, 1)
        assert is_unfinished(folder) and not is_bank(folder)
    between(folder / ".unfinished")
    with closing(BankWriter(folder, 3)) as writer:
        assert (writer.blocks, writer.rows, writer.n_skipped) == (1, 2, 1)
        append(writer, 2, 3, 4)
        writer.finish(ORIGIN, *NAMES)
    return b"".join(content for _, content in sorted(contents(folder).items()))


def lengthen(work: Path) -> None:
    """What a kill leaves between the writing of a block and its journal entry."""
    for path in work.iterdir():
        with path.open("ab") as file:
            file.write(b'{"rows": 2, "inp')


def test_a_writer_goes_on_after_the_last_whole_block(tmp_path: Path) -> None:
    whole = write_in_two_goes(tmp_path / "a", lambda work: None)
    assert write_in_two_goes(tmp_path / "b", lengthen) == whole
    bank = open_bank(tmp_path / "b")
    np.testing.assert_array_equal(bank.X, X)
    assert bank.y.tolist() == [0, 1, 0, 1, 0]
    assert (bank.n_skipped, bank.skipped) == (2, (Skipped("q/0", "torn"), Skipped("q/2", "torn")))
    assert (bank.preprocessing, bank.listing) == ({"size": 4}, "11")
    first = json.loads((bank.folder / "inputs.jsonl").read_text().splitlines()[0])
    assert first == {"path": "p/0", "sha256": f"{0:064}"}


@pytest.mark.parametrize("columns", [(), ("label",), ("domain",)])
def test_a_bank_may_lack_labels_and_domains(tmp_path: Path, columns: tuple[str, ...]) -> None:
    folder = tmp_path / "b"
    names = {"label": ["cat", "dog"], "domain": [3, 5]}
    index = np.array([0, 1, 1], np.int64)
    for rows in (slice(0, 2), slice(2, 3)):
        with closing(BankWriter(folder, 3, columns)) as writer:
            inputs = [Input(i + 1, f"{i:064}") for i in range(rows.start, rows.stop)]
            writer.append(X[rows], [index[rows]] * len(columns), inputs)
            if rows.start:
                given = (names[c] if c in columns else None for c in ("label", "domain"))
                writer.finish(ORIGIN, *given)
    bank = open_bank(folder)
    verify(bank)
    np.testing.assert_array_equal(bank.X, X[:3])
    arrays = safetensors.numpy.load((folder / "features.safetensors").read_bytes())
    assert set(arrays) == {"features", *columns}
    if "label" in columns:
        assert bank.labels is not None and bank.labels.tolist() == ["cat", "dog", "dog"]
    else:
        assert bank.y is bank.labels is bank.classes is None
    if "domain" in columns:
        assert bank.domain_names is not None and bank.domain_names.tolist() == [3, 5, 5]
    else:
        assert bank.domain is bank.domain_names is bank.domains is None
    told = unseal((folder / "bank.json").read_bytes())
    swapped = {name: None if told[name] else ["a", "b"] for name in ("classes", "domains")}
    (folder / "bank.json").write_text(json.dumps(told | swapped))
    with refused("are not of one bank"):
        open_bank(folder)


def test_a_bank_outlives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on the disk before the journal goes."""
    synced: list[tuple[int, bool]] = []
    folder, fsync = tmp_path / "b", os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        synced.append((os.fstat(descriptor).st_ino, (folder / "bank.json").exists()))
        assert (folder / ".unfinished" / "journal.jsonl").exists()

    with closing(BankWriter(folder, 3)) as writer:
        append(writer, 0, 1)
        monkeypatch.setattr(os, "fsync", note)
        writer.finish(ORIGIN, *NAMES)
    place, description = (path.stat().st_ino for path in (folder, folder / "bank.json"))
    assert synced[-3:] == [(place, False), (description, False), (place, True)]


@pytest.mark.parametrize("renamed", [1, 2])
def test_a_kill_while_files_are_renamed(
    tmp_path: Path, renamed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write_in_two_goes(tmp_path / "a", lambda work: None)
    replace, done = Path.replace, []

    def replace_some(self: Path, target: Path) -> Path:
        if len(done) == renamed:
            raise KeyboardInterrupt
        done.append(target)
        return replace(self, target)

    with (
        closing(BankWriter(tmp_path / "b", 3)) as writer,
        pytest.raises(KeyboardInterrupt),
        monkeypatch.context() as patch,
    ):
        append(writer, 0, 1)
        append(writer, 2, 3, 4)
        patch.setattr(Path, "replace", replace_some)
        writer.finish(ORIGIN, *NAMES)
    with pytest.raises(ValueError, match="not finished"):
        open_bank(tmp_path / "b")
    (tmp_path / "b" / ".bank.json.0123abcd~").write_text("{")  # a kill leaves it, an error does not
    check_place(tmp_path / "b")
    with closing(BankWriter(tmp_path / "b", 3)) as writer:
        assert (writer.blocks, writer.rows) == (2, 5)
        writer.finish(ORIGIN, *NAMES)
    assert b"".join(content for _, content in sorted(contents(tmp_path / "b").items())) == whole


@pytest.mark.parametrize(
    "damage",
    [
        lambda work: (work / "features.part").write_bytes(b"short"),
        lambda work: (work / "inputs.part").unlink(),
        lambda work: (work / "journal.jsonl").write_bytes(b"{}\n"),
        edit("features.part", lambda old: old[:-1] + b"!"),
    ],
)
def test_what_is_lost_is_told(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    with refused("is damaged: delete"):
        write_in_two_goes(tmp_path / "bank", damage)


def test_no_rows_are_no_bank_and_only_the_first_skipped_inputs_are_named(tmp_path: Path) -> None:
    with (
        closing(BankWriter(tmp_path / "bank", 3)) as writer,
        refused("all 2 inputs were skipped"),
    ):
        empty = np.empty(0, np.int64)
        writer.append(X[:0], [empty, empty], [], [Skipped("a", "torn"), Skipped("b", "torn")])
        writer.finish(ORIGIN, *NAMES)
    zero = np.zeros(1, np.int64)
    with closing(BankWriter(tmp_path / "some", 3)) as writer:
        for i in range(60):
            skipped = [Skipped(f"{i}a", "torn"), Skipped(f"{i}b", "torn")]
            writer.append(X[:1], [zero, zero], [Input(i, "00")], skipped)
        writer.finish(ORIGIN, *NAMES)
    bank = open_bank(tmp_path / "some")
    assert (bank.n_skipped, len(bank.skipped)) == (120, 100)
    assert bank.skipped[-1] == Skipped("49b", "torn")
