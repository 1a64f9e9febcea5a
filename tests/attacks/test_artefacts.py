"""Damaged artefacts: what is read is refused in a sentence, told of, or the same as before.

CI draws a few mutations of every format; ``make attack N=…`` draws N of each.
"""

import random
import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from regraft import load, open_bank, save, write_bank
from regraft.bench.datasets import open_dataset
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.launch import check_folder, check_plugins
from regraft.bench.protocol.results import last_record, read_results
from regraft.bench.protocol.run_times import estimate_seconds
from regraft.bench.protocol.worker import Assignment, perform
from regraft.data.banks import verify
from regraft.data.tables import read_table
from regraft.estimators.comparison_records import CellRecords
from regraft.estimators.cro import CROClassifier
from regraft.moral.answers import ANSWERS, check_answer, question_args, read_answers
from regraft.moral.library import make_library
from regraft.moral.prompts import Question
from regraft.moral.scenarios import Library
from regraft.moral.values import PROFILES
from regraft.report.writing import read_report
from regraft.support.records import Records
from tests.helpers.commands import call
from tests.helpers.mutations import mutate
from tests.helpers.problems import make_problem, write_npz
from tests.helpers.toy_sweep import write_bank as write_toy

OUTCOMES = ("refused", "told", "same", "fewer")
SILENT = "silently changed"
SMALL = 25  # mutations of each format in CI
SEED = 21
STEPS = 3
JOBS = tuple(Job("toy", "ERM", (env,), steps=STEPS, checkpoint_freq=1) for env in range(2))
Reader = Callable[[Path], Any]


def _read_model(folder: Path) -> Any:
    model: Any = load(folder / "model")
    rows = np.random.default_rng(1).normal(size=(20, model.n_features_in_))
    shown = repr(model.certificate_), model.classes_.tolist(), model.domains_.tolist()
    reference = getattr(model, "reference_", None)
    kept = None if reference is None else [t.numpy().tobytes() for t in vars(reference).values()]
    return model.predict_proba(rows).tobytes(), shown, kept


def _read_bank(folder: Path) -> Any:
    table = read_table(folder / "bank")
    bank = open_bank(folder / "bank")
    verify(bank)
    told = vars(bank) | {"X": None, "y": None, "domain": None}
    places = (folder / "bank" / "inputs.jsonl").read_bytes()
    return np.asarray(table.X).tobytes(), list(table.y), list(table.domain), repr(told), places


def _read_npz(folder: Path) -> Any:
    table = read_table(folder / "data.npz")
    return table.X.tobytes(), list(table.y), list(table.domain)


@cache
def _library() -> Library:
    return make_library()


def _read_cells(folder: Path) -> Any:
    cells = CellRecords(folder / "cells").cells
    return [(key, repr(cell.to_dict())) for key, cell in cells.items()]


def _read_answers(folder: Path) -> Any:
    read_answers(folder / ANSWERS, _library())
    return [repr(record) for record in Records(folder / ANSWERS, check_answer).read()]


def _read_run(folder: Path) -> Any:
    return repr(read_report(folder / "run"))


def _read_sweep(folder: Path) -> Any:
    """Read what commands read of a sweep to collect it, to go on with it and to show a run."""
    out = folder / "sweep"
    check_plugins(out, [replace(job, origin="a plugin", steps=STEPS + 1) for job in JOBS])
    check_folder(out, JOBS)
    estimate_seconds(JOBS, out)
    results = read_results(out)
    for damage in results.damaged:  # of which the commands tell
        warnings.warn(str(damage), stacklevel=1)
    records = list(results.records)
    with TemporaryDirectory() as copy:  # for what is damaged is dropped
        shutil.copytree(out, copy, dirs_exist_ok=True)
        for job in JOBS:
            run = Assignment((job,), Path(copy)).folder(job)
            last_record(run)
            run.resume()
            records += run.records()
    return [repr(record) for record in records]


def _make_model(folder: Path) -> None:
    save(CROClassifier().fit(*make_problem(seed=3, n=150, d=4).data), folder / "model")


def _make_bank(folder: Path) -> None:
    problem = make_problem(seed=3, n=20, d=4)
    write_bank(folder / "bank", problem.X, problem.y, problem.domain, encoder="some")


def _make_npz(folder: Path) -> None:
    write_npz(folder / "data.npz", make_problem(seed=3, n=20, d=4))


def _make_cells(folder: Path) -> None:
    for seed in range(3):
        metrics = {"auc": {"value": 0.5, "draws": [0.25, None, 0.75]}, "log_loss": None}
        cell = {"accuracy": 0.5, "source_accuracy": 0.75, "seconds": 1.5, "rows": 10}
        Records(folder / "cells").append({"args": {"seed": seed}, **cell, "metrics": metrics})


def _make_answers(folder: Path) -> None:
    scenario = _library().scenarios[0]
    for profile in PROFILES[:3]:
        question = Question(scenario, profile, False)
        answer = {"answer": "A", "text": "A", "input_tokens": 5, "output_tokens": 1}
        Records(folder / ANSWERS).append({"args": question_args("m", question), **answer})


def _make_run(folder: Path) -> None:
    _make_npz(folder)
    options = ("--family", "hull", "--radius", "1", "--ridge", "0.1", "--quiet")
    call(["fit", folder / "data.npz", "--out", folder / "run", *options])
    shutil.rmtree(folder / "run" / "model")  # a format of its own
    (folder / "run" / "certificate.json").unlink()  # for people: nothing reads it
    (folder / "data.npz").unlink()


def _make_sweep(folder: Path) -> None:
    """Make runs whose last file, the mark that they are done, is still to come."""
    toy = open_dataset("toy", write_toy(folder))
    assignment = Assignment(JOBS, folder / "sweep")
    perform(assignment, dataset=toy)
    for job in JOBS:
        run = assignment.folder(job)
        run.save(STEPS - 1, {"weights": torch.arange(3.0)})
        (run.path / "done").unlink()
    (folder / "toy.npz").unlink()


FORMATS: dict[str, tuple[Callable[[Path], None], Reader]] = {
    "model": (_make_model, _read_model),
    "bank": (_make_bank, _read_bank),
    "npz table": (_make_npz, _read_npz),
    "cells": (_make_cells, _read_cells),
    "answers": (_make_answers, _read_answers),
    "run": (_make_run, _read_run),
    "sweep": (_make_sweep, _read_sweep),
}


def _judge(read: Reader, folder: Path, before: Any) -> str:
    """Read what was damaged; return refused, told, same, fewer, or what is wrong."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            after = read(folder)
        except (ValueError, RuntimeError, OSError, MemoryError) as error:
            message = str(error)
            is_sentence = bool(message) and "\n" not in message
            return "refused" if is_sentence else f"not a sentence: {message!r}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    if after == before:
        return "same"
    if isinstance(after, list) and all(record in before for record in after):
        return "fewer"  # as after a kill: what is missing is made again
    return "told" if told else SILENT


@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_refused_or_told_or_changes_nothing(
    name: str, tmp_path: Path, attack_cases: Callable[..., range]
) -> None:
    cases = attack_cases(SMALL)
    make, read = FORMATS[name]
    whole = tmp_path / "whole"
    whole.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(whole)
    before = read(whole)
    files = sorted(
        path for path in whole.rglob("*") if path.is_file() and path.suffix not in (".lock", ".md")
    )
    files = [path for path in files if path.stat().st_size]
    outcomes: Counter[str] = Counter()
    failures = []
    for i in cases:
        draw = random.Random(f"{SEED} {name} {i}")
        path = draw.choice(files)
        content = path.read_bytes()
        path.write_bytes(mutate(content, draw, content[:1] in b"{["))
        outcome = _judge(read, whole, before)
        if outcome in OUTCOMES:
            outcomes[outcome] += 1
        else:
            failures.append(f"case {i}, {path.relative_to(whole)}: {outcome}")
        path.write_bytes(content)
    print(f"{name}: {len(cases)} mutations, {dict(outcomes)}, {len(failures)} failures")
    assert not failures, "\n".join(failures[:30])
