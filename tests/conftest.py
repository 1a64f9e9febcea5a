"""Fixtures that every test may ask for."""

import gc
import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from hypothesis import settings

from regraft.cli.app import app
from regraft.support.extras import repair_torchvision
from tests.helpers.commands import Once, Ran, Run, RunOnce
from tests.helpers.fake_api import KEY, FakeApi
from tests.helpers.problems import Digits, Problem, draw_blobs, make_problem

settings.register_profile("regraft", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("regraft")
repair_torchvision()  # before tests ask whether timm can be imported


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "test an installation without extras in this virtual environment, made if absent"
    parser.addoption("--minimal", metavar="FOLDER", help=text)


@pytest.fixture(scope="session")
def problem() -> Problem:
    return make_problem()


@pytest.fixture(scope="session")
def three_sources() -> Problem:
    return make_problem(seed=1, classes=3, sources=3)


@pytest.fixture(scope="session")
def blobs() -> Digits:
    return draw_blobs()


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Make a folder by name, one time for all processes that run tests."""
    own = tmp_path_factory.getbasetemp()
    common = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def folder(name: str, make: Callable[[Path], None]) -> Path:
        done = common / f"{name}.done"
        with FileLock(common / f"{name}.lock"):
            if not done.exists():
                make(common / name)
                done.touch()
        return common / name

    return folder


@pytest.fixture(scope="session")
def run_once(once: Once) -> RunOnce:
    """Call ``regraft`` with these arguments and ``--out FOLDER``, one time for all processes."""

    def invoke(name: str, *arguments: object) -> tuple[Path, Ran]:
        def make(folder: Path) -> None:
            out, err = io.StringIO(), io.StringIO()
            with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
                app([*map(str, arguments), "--out", str(folder)], prog_name="regraft")
            printed = [int(ended.value.code or 0), out.getvalue(), err.getvalue()]
            folder.with_suffix(".ran").write_text(json.dumps(printed), encoding="utf-8")

        folder = once(name, make)
        return folder, Ran(*json.loads(folder.with_suffix(".ran").read_text(encoding="utf-8")))

    return invoke


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder of downloaded weights, on a machine that is offline."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A server that the elicitation of answers takes for the real one."""
    with FakeApi() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server


@pytest.fixture(autouse=True, scope="session")
def fast_processes() -> Iterator[None]:
    """Leave out what costs time in every test and that no test needs."""
    # Tests run in several processes; threads inside each would fight for the cores.
    torch.set_num_threads(1)
    # Only a power cut tells whether files were flushed; what a killed process wrote stays.
    flush = os.fsync
    os.fsync = lambda descriptor: None
    gc.freeze()  # the objects of all imported libraries need not be looked through again
    yield
    os.fsync = flush


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Call ``regraft`` with these arguments, in this process."""

    def invoke(*arguments: object) -> Ran:
        with pytest.raises(SystemExit) as ended:
            app([str(argument) for argument in arguments], prog_name="regraft")
        captured = capsys.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    return invoke
