"""Records survive a kill at any byte, and nothing else is taken for them."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.support.records import Records
from regraft.support.schema import OBJECT, SHARE, check_fields
from tests.helpers.errors import one_sentence, refused


def record(hparams_seed: int, **more: Any) -> dict[str, Any]:
    args = {"algorithm": "CRO", "test_envs": [2], "hparams_seed": hparams_seed, "trial_seed": 0}
    return {"args": args, "hparams": {"lr": 1e-3, "name": "é\n"}, "env0_in_acc": 0.5, **more}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "records.jsonl"


def test_records_come_back_in_order(path: Path) -> None:
    assert Records(path).read() == []
    assert not path.parent.exists()
    records = Records(path)
    for i in range(3):
        records.append(record(i))
    assert records.read() == Records(path).read() == [record(i) for i in range(3)]
    assert len(path.read_bytes().splitlines()) == 3
    assert [entry.name for entry in path.parent.iterdir()] == ["records.jsonl"]


def test_a_cut_at_any_byte_loses_only_the_torn_record(path: Path) -> None:
    for i in range(3):
        Records(path).append(record(i))
    content = path.read_bytes()
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        whole = content[:cut].count(b"\n")
        expected = [record(i) for i in range(whole)]
        records = Records(path)
        assert records.read() == expected
        assert path.read_bytes() == content[:cut]  # reading changes nothing
        assert [records.done(record(i)["args"]) for i in range(3)] == [i < whole for i in range(3)]
        records.append(record(7))
        records.append(record(8))
        assert Records(path).read() == [*expected, record(7), record(8)]
        assert all(json.loads(line) for line in path.read_bytes().splitlines())


def test_a_torn_line_is_cut_by_append_alone(path: Path) -> None:
    Records(path).append(record(0))
    path.write_bytes(path.read_bytes() * 2)
    os.truncate(path, path.stat().st_size - 1)
    records = Records(path)
    records.append(record(1))
    assert records.read() == [record(0), record(1)]
    assert len(path.read_bytes().splitlines()) == 2


def test_a_write_cut_short_is_told_and_mended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records(path)
    records.append(record(0))
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:10]))
        with pytest.raises(OSError, match="only part of a record") as caught:
            records.append(record(1))
    one_sentence(caught.value)
    assert not records.done(record(1)["args"])
    records.append(record(1))
    assert records.read() == [record(0), record(1)]


def test_records_are_on_the_disk_in_one_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    write, sync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda fd, line: (calls.append("write"), write(fd, line))[1])
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), sync(fd))[1])
    Records(path).append(record(0, checkpoints=[{"step": i} for i in range(10_000)]))
    assert calls == ["write", "fsync"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{"args": {}}\n{"args": {"a"\n{"args": {"b": 1}}\n', 2),
        (b'{"args": {}}\n\n', 2),
        (b'\xff\xfe\n{"args": {}}\n', 1),
        (b'{"args": {}}\n[1]\n', 2),
        (b'{"hparams": {}}\n', 1),
        (b'{"args": 3}\n', 1),
        (b'{"args": {}}\n\x00\x00', 2),
        (b"years of work", 1),
    ],
)
def test_damage_is_told_by_line_and_never_touched(path: Path, content: bytes, line: int) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    for act in (
        Records(path).read,
        lambda: Records(path).done({}),
        lambda: Records(path).append(record(0)),
    ):
        with refused(rf"line {line} of .*records\.jsonl"):
            act()
    assert path.read_bytes() == content


def test_the_first_of_two_records_counts_and_the_file_is_read_once(path: Path) -> None:
    first, second = record(0, value=1.0), record(0, value=2.0)
    second["args"] = dict(reversed(second["args"].items()))
    records = Records(path)
    for each in (first, second, record(1)):
        records.append(each)
    assert records.read() == [first, record(1)]
    Records(path).append(record(0))
    records = Records(path)
    assert records.done(record(0)["args"])
    path.unlink()
    assert records.done(record(0)["args"])


def test_done_knows_runs_by_all_their_args(path: Path) -> None:
    records = Records(path)
    args = record(0)["args"]
    assert not records.done(args)
    records.append(record(0))
    for known in (records, Records(path)):
        assert known.done(args)
        assert known.done(dict(reversed(args.items())))
        assert known.done(args | {"test_envs": (2,)})
        assert not known.done(args | {"hparams_seed": 1})
        assert not known.done(args | {"preset": "paper"})
        assert not known.done({key: args[key] for key in args if key != "algorithm"})


@pytest.mark.parametrize("value", [np.int64(3), np.float32(0.5), np.bool_(True), np.zeros(2), {1}])
def test_what_is_not_plain_is_refused_by_name(path: Path, value: Any) -> None:
    for bad in (record(0, rounds=value), record(0, hparams={"rounds": [value]})):
        with refused(r"(rounds|hparams) cannot be written", TypeError):
            Records(path).append(bad)
    with pytest.raises(TypeError, match="args cannot be written"):
        Records(path).done({"seed": value})
    assert not path.exists()


def test_what_json_lacks_becomes_null_and_a_record_needs_args(path: Path) -> None:
    for bad in ({"step": 1}, {"args": [1]}):
        with refused("no args"):
            Records(path).append(bad)
    assert not path.exists()
    Records(path).append(record(0, gap=float("nan"), value=float("inf")))
    (read,) = Records(path).read()
    assert read["gap"] is None and read["value"] is None


def test_a_changed_value_and_an_impossible_one_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    for seed in range(2):
        Records(path).append({"args": {"seed": seed}, "accuracy": 0.25})
    content = path.read_text()
    path.write_text(content.replace("0.25", "0.75"))
    with refused("line 1 of .* is not a record .it was changed since it was written"):
        Records(path).read()
    first, second = content.splitlines(True)
    path.write_text(first + second.replace(', "sha256"', ', "sha"'))
    with refused("line 2 of .* .it or a line before it was changed"):
        Records(path).read()
    path.write_text('{"args": {}, "accuracy": 7}\n')  # as older versions wrote lines

    def check(record: dict[str, Any]) -> None:
        check_fields(record, {"args": OBJECT, "accuracy": SHARE})

    assert len(Records(path).read()) == 1
    with refused("line 1 of .* is not a record .'accuracy' is not a number from 0 to 1"):
        Records(path, check).read()
