"""The benchmark that a file's ``SCRIPT`` names, and what it prints."""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType

import pytest

from tests.helpers.paths import ROOT


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield import_module(request.module.SCRIPT)


@pytest.fixture
def run_script(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run the benchmark with these options; what it prints."""

    def run(*options: object) -> str:
        monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *map(str, options)])
        script.main()
        return capsys.readouterr().out

    return run
