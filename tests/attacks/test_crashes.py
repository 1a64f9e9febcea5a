"""Commands killed at every file operation: results are wholly old or new, and a rerun mends all.

CI kills at a few points of two commands; ``make attack N=…`` at N points of every command, or all.
"""

import multiprocessing
import random
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.bench.datasets import mnist
from regraft.bench.engines.base import OutcomeStream, run_assignment
from regraft.bench.engines.local import LocalEngine
from regraft.bench.paper import experiment
from regraft.bench.paper.pretraining import PRESETS, Preset
from regraft.bench.protocol import worker
from regraft.bench.protocol.training import Training
from regraft.bench.protocol.worker import Assignment
from regraft.data.banks import write_bank
from tests.helpers import crashes
from tests.helpers.commands import call
from tests.helpers.fake_api import FakeApi, message
from tests.helpers.idx_files import write_mnist
from tests.helpers.problems import draw_blobs
from tests.helpers.small_library import small_library, write_scenarios
from tests.helpers.tables import write_columns
from tests.helpers.toy_sweep import write_bank as write_toy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and forks")

SMALL = 2  # points of a command in CI
IMPORTED = (
    "sklearn.pipeline",
    "regraft.data.labelled",
    "regraft.encoders.embedding",
    "regraft.encoders.text_models",
    "regraft.estimators.saving",
    "regraft.report.provenance",
)
HULL = ("--family", "hull", "--radius", "1")


@dataclass(frozen=True)
class Case:
    """A command on the files in a folder; ``before`` leaves what it finds in out.

    A command that ``resumes`` may also leave part of its work. What is to be ``deleted`` before a
    rerun is a log of something that may not come back. Killed is the command, or with ``in_worker``
    its first worker.
    """

    name: str
    words: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    resumes: bool = False
    deleted: str = ""
    in_worker: bool = False
    small: bool = False  # part of CI


def _fit(ridge: str, *more: str) -> tuple[str, ...]:
    return ("fit", "data.csv", "--out", "out", *HULL, "--ridge", ridge, *more)


TRAIN = ("train", "--dataset", "toy", "--data", ".", "--steps", "3", "--checkpoint-freq", "1")
SWEEP = "sweep --datasets toy --data . --algorithms ERM --n-hparams 1 --n-trials 1 --steps 3"
CASES = [
    Case("fit over a run", _fit("0.01"), (_fit("0.1"),), small=True),
    Case("fit", _fit("0.01")),
    Case("fit with a page", _fit("0.01", "--html"), (_fit("0.1", "--html"),)),
    Case("predict", ("predict", "model", "data.csv", "--out", "out"), (_fit("0.1"),)),
    Case("abduct", ("abduct", "data.csv", "--out", "out"), (_fit("0.1"),)),
    Case("place", ("place", "model", "new.csv", "--out", "out")),
    Case(
        "adapt over a run",
        ("adapt", "model", "new.csv", "--out", "out", "--draws", "0"),
        (("adapt", "model", "new.csv", "--out", "out", "--draws", "0", "--no-labels"),),
    ),
    Case("audit", ("audit", "model", "data.csv", "--out", "out"), (_fit("0.1"),)),
    Case("frontier", ("frontier", "data.csv", *HULL[:2], "--radii", "1", "--out", "out")),
    Case("diagnose", ("diagnose", "data.csv", "--out", "out"), (_fit("0.1"),)),
    Case("compare", ("compare", "data.csv", "--radii", "1", "--out", "out"), resumes=True),
    Case("report", ("report", "out"), (_fit("0.1"),)),
    Case(
        "drift",
        ("drift", "model", "new.csv", "--batch", "40", "--out", "out"),
        resumes=True,
        deleted="drift.jsonl",
    ),
    Case("export", ("export", "model", "--to", "json", "--out", "out/model.json")),
    Case("export to ONNX", ("export", "model", "--to", "onnx", "--out", "out/model.onnx")),
    Case("export to torch", ("export", "model", "--to", "torchscript", "--out", "out/model.pt")),
    Case("train", (*TRAIN, "--out", "out"), resumes=True),
    Case("sweep", (*SWEEP.split(), "--out", "out"), resumes=True),
    Case(
        "sweep, its worker",
        (*SWEEP.split(), "--workers", "1", "--out", "out"),
        resumes=True,
        in_worker=True,
    ),
    Case("collect", ("collect", "runs", "--out", "out"), ((*TRAIN, "--out", "runs"),)),
    Case(
        "reproduce", ("reproduce", "cmnist", "--quick", "--data", ".", "--out", "out"), resumes=True
    ),
    Case("moral run", ("moral", "run", "--records", "40", "--out", "out")),
    Case(
        "moral elicit",
        ("moral", "elicit", "--scenarios", "scenarios.csv", "--out", "out", "--yes"),
        resumes=True,
    ),
    Case(
        "fit in parts",
        ("fit", "bank", "--engine", "local", "--out", "out"),
        (_fit("0.1"),),
    ),
    Case(
        "embed text",
        ("embed", "text", "texts.csv", "--out", "out", "--encoder", "hashed"),
        resumes=True,
        small=True,
    ),
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table and a table of texts; what commands import is imported, so that forks need not."""
    for name in IMPORTED:
        import_module(name)
    folder = tmp_path_factory.mktemp("inputs")
    draw = np.random.default_rng(0)
    n = 120
    y = np.arange(n) % 2
    domain = np.where(np.arange(n) < n // 2, "a", "b")
    X = draw.normal(size=(n, 3)) + y[:, None] * [1, 0.5, 0]
    columns = {f"x{i}": X[:, i] for i in range(3)} | {"label": y, "domain": domain}
    write_columns(folder / "data.csv", columns)
    moved = {f"x{i}": X[:, i] + 0.1 * draw.normal(size=n) for i in range(3)}
    write_columns(folder / "new.csv", moved | {"label": y})
    texts = [f"text {i} {'good' if label else 'bad'}" for i, label in enumerate(y)]
    write_columns(folder / "texts.csv", {"text": texts, "label": y, "domain": domain})
    write_bank(folder / "bank", X, y, domain)
    write_toy(folder)
    write_scenarios(folder / "scenarios.csv", small_library(1))
    return folder


@pytest.fixture(scope="module")
def with_model(inputs: Path) -> Path:
    call(["fit", inputs / "data.csv", "--out", inputs / "model", "--quiet"])
    return inputs


def _save_always(*arguments: Any, save_every: float, **options: Any) -> Training:
    """Make a training that keeps its state at every step, as a long one does every minute."""
    return Training(*arguments, save_every=0.0, **options)


def _run_here(engine: LocalEngine, assignments: Sequence[Assignment]) -> OutcomeStream:
    for assignment in assignments:
        yield run_assignment(assignment)


@pytest.fixture
def small_experiments(monkeypatch: pytest.MonkeyPatch, inputs: Path, api: FakeApi) -> None:
    """Tiny digits pass for MNIST, and training takes seconds and is kept at every step."""
    for name, checksum in write_mnist(inputs, *draw_blobs()).items():
        monkeypatch.setitem(mnist.CHECKSUMS, name, checksum)
    monkeypatch.setitem(PRESETS, "paper", Preset("paper", steps=4, batch=8))
    monkeypatch.setattr(experiment, "RANKS", (1, 128))
    monkeypatch.setattr(worker, "Training", _save_always)
    api.answer = lambda request: message("A")


def _points(operations: list[str]) -> list[tuple[int, bool]]:
    """List all points, those that flush to disk also with a torn write."""
    return [
        (point, torn)
        for point, operation in enumerate(operations)
        for torn in ((False, True) if operation.startswith("fsync") else (False,))
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kill_leaves_old_or_new_results_and_a_rerun_mends(
    case: Case,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    inputs: Path,
    tmp_path: Path,
) -> None:
    # The option is there only if this folder is named on the command line.
    number = request.config.getoption("--attack-number", default=None)
    if not (number or case.small):
        pytest.skip("make attack runs this")
    request.getfixturevalue("small_experiments")
    if case.in_worker:  # forked, so that its operations can be counted
        fork = multiprocessing.get_context("fork")
        monkeypatch.setattr(multiprocessing, "get_context", lambda method: fork)
    else:
        monkeypatch.setattr(LocalEngine, "run", _run_here)
    if "model" in case.words:
        request.getfixturevalue("with_model")
    start = crashes.copy(inputs, tmp_path / "start")
    for words in case.before:
        assert crashes.run_forked(start, words)[0] == 0
    work = crashes.copy(start, tmp_path / "work")
    code, operations = crashes.run_forked(work, case.words, in_worker=case.in_worker)
    assert code == 0, (tmp_path / "work.log.err").read_text()
    old, new = crashes.read_tree(start / "out"), crashes.read_tree(work / "out")
    assert old != new and not crashes.list_temporaries(work)
    failures = []
    every = _points(operations)
    points = sorted(random.Random(1).sample(every, min(number or SMALL, len(every))))
    for point, torn in points:
        where = f"{operations[point]} ({point}{', torn' if torn else ''})"
        work = crashes.copy(start, tmp_path / "work")
        code, seen = crashes.run_forked(work, case.words, point, torn, case.in_worker)
        # A command whose worker is killed goes on, and tells of it if that cost something.
        if len(seen) != point or code not in ((0, 2) if case.in_worker else (crashes.KILLED,)):
            failures.append(f"not killed at {where}")
            continue
        crashes.recover(work / "out")
        if not case.resumes and crashes.read_tree(work / "out") not in (old, new):
            failures.append(f"mixed after a kill at {where}")
        if case.deleted:
            (work / "out" / case.deleted).unlink(missing_ok=True)
        code, _ = crashes.run_forked(work, case.words)
        if code:
            error = (tmp_path / "work.log.err").read_text().splitlines()[-1:]
            failures.append(f"refused after a kill at {where}: {error}")
        elif (tree := crashes.read_tree(work / "out")) != new:
            names = sorted(n for n in tree.keys() | new.keys() if tree.get(n) != new.get(n))
            failures.append(f"other {names} after a kill at {where}")
        elif left := crashes.list_temporaries(work):
            failures.append(f"{left} left after a kill at {where}")
    print(
        f"{case.name}: {len(operations)} file operations, killed at {len(points)} of "
        f"{len(every)} points, {len(failures)} failures"
    )
    assert not failures, "\n".join(failures)


def test_archives_whose_arrays_differ_are_not_the_same(tmp_path: Path) -> None:
    trees = []
    for value in (b"1", b"2"):
        with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
            archive.writestr("model/data/0", value)
            archive.writestr("model/code/__torch__.py", "code")
        trees.append(crashes.read_tree(tmp_path))
    assert trees[0] != trees[1]
