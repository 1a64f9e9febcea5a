"""Run folders: claims, records and checkpoints, whatever a kill or a full disk left of them."""

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.bench.protocol.run_folder import RunFolder
from regraft.support.files import write_text
from tests.helpers.commands import apart

HOLDER = """
import sys
from pathlib import Path
from regraft.bench.protocol.run_folder import RunFolder
with RunFolder(Path(sys.argv[1]), "run").claim() as is_ours:
    print(is_ours, flush=True)
    sys.stdin.read()
"""
STATE = {"weights": torch.arange(3.0)}


def record(step: int) -> dict[str, Any]:
    return {"step": step, "loss": step / 2}


def started(path: Path, *steps: int) -> RunFolder:
    """A folder of a run that has been begun and has written ``steps``."""
    folder = RunFolder(path, "run")
    with folder.claim():
        folder.resume()
    for step in steps:
        folder.append(record(step))
    return folder


def test_a_new_run_starts_at_its_beginning_without_leftovers(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "new", "run")
    assert not folder.is_done
    with folder.claim() as is_ours:
        assert is_ours
        assert folder.resume() is None
    assert folder.records() == []
    folder.append(record(0))
    (folder.path / ".checkpoint.safetensors.0123abcd~").write_bytes(b"half")
    folder.resume()
    assert {path.name for path in folder.path.iterdir()} == {".lock", "results.jsonl"}


def test_records_after_the_checkpoint_are_made_again(tmp_path: Path) -> None:
    folder = started(tmp_path, 0, 100)
    folder.save(100, STATE)
    folder.append(record(200))
    resumed = folder.resume()
    assert resumed is not None
    last, state = resumed
    assert last == 100
    assert state.keys() == STATE.keys()
    assert torch.equal(state["weights"], STATE["weights"])
    assert folder.records() == [record(0), record(100)]
    with pytest.raises(TypeError):  # no plain data, and so not written
        folder.append({"step": 1, "loss": torch.zeros(1)})
    assert folder.records() == [record(0), record(100)]


@pytest.mark.parametrize("kept", ["nothing", "another run's", "damaged"])
def test_without_its_checkpoint_a_run_starts_again(tmp_path: Path, kept: str) -> None:
    folder = started(tmp_path, 0, 100)
    if kept == "another run's":
        RunFolder(tmp_path, "another").save(100, STATE)
        assert folder.resume() is None
    elif kept == "damaged":
        folder.save(100, STATE)
        path = tmp_path / "checkpoint.safetensors"
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        with pytest.warns(UserWarning, match="is damaged"):
            assert folder.resume() is None
    else:
        assert folder.resume() is None
    assert folder.records() == []


@pytest.mark.parametrize(
    "line",
    [b"{?}\n", b'{"loss": 1}\n', b'{"step": "1"}\n', b"[]\n", b'{"step": 100, "loss": 49.0}\n'],
)
def test_with_a_damaged_line_a_run_starts_again(tmp_path: Path, line: bytes) -> None:
    folder = started(tmp_path, 0, 100, 200)
    folder.save(100, STATE)
    path = tmp_path / "results.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + line + lines[2])
    assert folder.records() == [record(0), record(200)]
    with pytest.warns(UserWarning, match=r"results\.jsonl line 2 is damaged \(.+\), so"):
        assert folder.resume() is None
    assert folder.records() == []


def test_a_run_from_before_checksums_goes_on_and_gets_them(tmp_path: Path) -> None:
    folder = started(tmp_path, 0, 100)
    folder.save(100, STATE)
    write_text(tmp_path / "results.jsonl", "".join(f"{json.dumps(record(i))}\n" for i in (0, 100)))
    resumed = folder.resume()
    assert resumed is not None
    assert resumed[0] == 100
    folder.append(record(200))
    assert folder.records() == [record(0), record(100), record(200)]
    folder.save(200, STATE)
    assert folder.resume() is not None


@given(st.integers(0, 120))
def test_a_torn_file_loses_only_what_was_torn(length: int) -> None:
    with TemporaryDirectory() as place:
        folder = started(Path(place), 0, 100, 200)
        folder.save(200, STATE)
        path = Path(place) / "results.jsonl"
        content = path.read_bytes()[:length]
        path.write_bytes(content)
        whole = content.count(b"\n")
        folder.resume()
        assert folder.records() == [record(step) for step in (0, 100, 200)[:whole]]
        folder.append(record(300))
        assert folder.records()[-1] == record(300)
        assert len(folder.records()) == whole + 1


def test_a_checkpoint_left_beside_a_finished_run_is_removed(tmp_path: Path) -> None:
    folder = started(tmp_path, 0)
    folder.finish(None, {})
    folder.save(0, STATE)  # as if killed before it was removed
    folder.clear()
    assert not (tmp_path / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("model", [None, STATE], ids=["no model", "a model"])
def test_finishing_leaves_the_records_and_the_model_if_there_is_one(
    tmp_path: Path, model: dict[str, torch.Tensor] | None
) -> None:
    folder = started(tmp_path, 0)
    folder.save(0, STATE)
    folder.fail("the disk was full")
    assert (tmp_path / "err.txt").read_text() == "the disk was full\n"
    folder.finish(model, {"hparams": {"lr": 0.1}})
    assert folder.is_done and folder.has_model == (model is not None)
    names = {path.name for path in tmp_path.iterdir()} - {"model.safetensors"}
    assert names == {".lock", "results.jsonl", "done"}


def test_a_claim_keeps_others_out_until_its_end_even_by_a_kill(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "run")
    with folder.claim() as is_ours, RunFolder(tmp_path, "run").claim() as is_theirs:
        assert (is_ours, is_theirs) == (True, False)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(**apart(tmp_path, code=HOLDER), **pipes) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        with folder.claim() as is_ours:
            assert not is_ours
        holder.kill()
        holder.wait()
    with folder.claim() as is_ours:
        assert is_ours


def test_a_run_whose_records_are_gone_is_not_done(tmp_path: Path) -> None:
    folder = started(tmp_path, 0)
    folder.finish(None, {})
    assert folder.is_done
    (tmp_path / "results.jsonl").unlink()
    assert not folder.is_done
    folder.resume()
    assert not (tmp_path / "done").exists()
    folder.append(record(0))
    assert not folder.is_done
