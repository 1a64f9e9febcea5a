"""The folder of one run: records that survive a kill, a checkpoint, and whether it is done.

Its layout is DomainBed's: ``results.jsonl`` with a line for every evaluation, which carries a
checksum here, and an empty file ``done``. Beside them lie ``checkpoint.safetensors`` while the run
is under way and ``model.safetensors`` afterwards, if it is to be kept.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regraft.bench.protocol.cache import read_cache, write_cache
from regraft.bench.protocol.run_lines import RunLine, read_run_lines
from regraft.support.files import claim, remove_unfinished, write_bytes, write_text
from regraft.support.json_files import append_json, make_line
from regraft.support.seals import seal

_STEP = "step"
RESULTS, DONE, ERROR = "results.jsonl", "done", "err.txt"


class RunFolder:
    """The folder ``path`` of the run with the identity ``run``; one process at a time writes."""

    def __init__(self, path: Path, run: str) -> None:
        self.path, self._run = path, run
        self._results = path / RESULTS
        self._checkpoint = path / "checkpoint.safetensors"
        self._model = path / "model.safetensors"

    @property
    def is_done(self) -> bool:
        """Whether the run is finished, and its records are there."""
        with suppress(OSError):  # ``done`` last, for who starts over removes it first
            return self._results.stat().st_size > 0 and (self.path / DONE).exists()
        return False

    @property
    def has_model(self) -> bool:
        """Whether the trained model is kept."""
        return self._model.exists()

    @contextmanager
    def claim(self) -> Iterator[bool]:
        """Lock the folder inside the context and yield True, or False if another process has it."""
        with claim(self.path) as is_ours:
            look_anew(self.path)
            yield is_ours

    def resume(self) -> tuple[int, dict[str, Tensor]] | None:
        """Return the last step and the state of the latest checkpoint, None if there is none.

        Records of later steps, whole or torn, are dropped, for they are made again. If one among
        them was damaged since, nobody knows of which step it is, and the run starts over.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        remove_unfinished(self.path)
        for mark in (ERROR, DONE):  # the latter of a run whose records were removed
            (self.path / mark).unlink(missing_ok=True)
        kept = read_cache(self._checkpoint, {"run": self._run})
        lines = list(self._whole_lines())
        wrong = [each for each in lines if each.record is None]
        if kept is not None and wrong:
            where = f"{self._results} line {wrong[0].line.number}"
            warnings.warn(
                f"{where} is damaged ({wrong[0].reason}), so that the run is made again.",
                stacklevel=2,
            )
            kept = None
        last = -1 if kept is None else int(kept.pop(_STEP))
        # A run that began before lines had checksums gets them now, or none would be believed.
        content = b"".join(
            make_line(seal(each.record))
            for each in lines
            if each.record and each.record[_STEP] <= last
        )
        if self._results.exists() and self._results.read_bytes() != content:
            write_bytes(self._results, content)
        return None if kept is None else (last, kept)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record of plain data to the disk before returning; ``OSError`` if it is full."""
        append_json(self._results, seal(record))

    def save(self, step: int, state: Mapping[str, Tensor]) -> None:
        """Keep the state after ``step``, from which ``resume`` goes on."""
        tensors = {**state, _STEP: torch.tensor(step)}
        write_cache(self._checkpoint, {"run": self._run}, tensors)

    def keep(self, model: Mapping[str, Tensor], description: Mapping[str, Any], step: int) -> None:
        """Keep the model after ``step`` beside the last one, with its ``description``."""
        write_cache(self.path / f"model_step{step}.safetensors", description, model)

    def finish(self, model: Mapping[str, Tensor] | None, description: Mapping[str, Any]) -> None:
        """Mark the run as done, keeping ``model`` if there is one, with its ``description``."""
        if model is not None:
            write_cache(self._model, description, model)
        (self.path / ERROR).unlink(missing_ok=True)
        (self.path / DONE).touch()  # lost in a power cut, it costs a repetition and no record
        self._checkpoint.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the checkpoint that a kill at the very end left beside a run that is done."""
        with suppress(OSError):  # it costs room only
            self._checkpoint.unlink(missing_ok=True)

    def fail(self, message: str) -> None:
        """Leave a note of why the run stopped."""
        write_text(self.path / ERROR, message + "\n")

    @property
    def failure(self) -> str:
        """The last line of the note of why the run stopped, empty if there is none."""
        path = self.path / ERROR
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
        return next((line for line in reversed(lines) if line.strip()), "")

    @property
    def ends_damaged(self) -> bool:
        """Whether the last whole line is no record, or is not as it was written."""
        return [each.record is None for each in self._whole_lines()][-1:] == [True]

    def records(self) -> list[dict[str, Any]]:
        """Return all whole records, in the order of their steps."""
        return [each.record for each in self._whole_lines() if each.record is not None]

    def _whole_lines(self) -> Iterator[RunLine]:
        """Yield the lines up to one that is torn; a record has its step."""
        for read in read_run_lines(self._results):
            if not read.line.is_whole:
                return
            if read.record is not None and type(read.record.get(_STEP)) is not int:
                yield RunLine(read.line, None, "it has no step")
            else:
                yield read


def look_anew(folder: Path) -> None:
    """Have files seen that other machines wrote: on a network, absence may be remembered."""
    with suppress(OSError):
        os.scandir(folder).close()
