"""An environment with regraft and none of its extras: what works, and what each extra is for.

Runs with ``--minimal FOLDER``, which names the virtual environment; it is made if it is absent.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from regraft import __version__
from tests.helpers.commands import Once, Ran
from tests.helpers.paths import ROOT, SOURCE
from tests.helpers.problems import make_problem

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = sorted(
    PROJECT["optional-dependencies"].keys() - {"docs", "frames", "test"}
)  # frames has no command
COMMANDS = {
    "demo": "demo --out demo",
    "fit": "fit rows.csv --out run",
    "predict": "predict run rows.csv --out run",
}
# One command for each extra. Pictures are left out with a warning; all else is an error.
OF_EXTRAS = {
    "efficientnet": "embed images photos --out bank",
    "elicit": "moral elicit --out answers",
    "images": "embed images photos --encoder timm:resnet18 --out bank",
    "onnx": "export run --to onnx --out model.onnx",
    "parquet": "fit rows.parquet --out other",
    "plots": "audit run rows.csv --out audit",
    "ray": "sweep --datasets rows --data . --engine ray --out sweep",
    "report": "fit rows.csv --out other --html",
    "serve": "serve run",
    "slurm": "sweep --datasets rows --data . --engine slurm --out sweep",
    "text": "embed text texts.csv --out bank",
    "wilds": "train --dataset WILDSCamelyon --data . --out train",
}
# Runs commands one after the other, so that torch is imported once.
DRIVER = """
import contextlib, io, json, sys
from regraft.cli.app import app
ran = {}
for name, arguments in json.load(sys.stdin).items():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app(arguments, prog_name="regraft")
        except SystemExit as ended:
            code = ended.code or 0
    ran[name] = [code, out.getvalue(), err.getvalue()]
json.dump(ran, sys.stdout)
"""


def settings(folder: Path) -> dict[str, Any]:
    """Settings of a process that works in ``folder`` and imports nothing from this repository."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables["ANTHROPIC_API_KEY"] = "none"
    return {"cwd": folder, "env": variables, "capture_output": True, "text": True}


@pytest.fixture(scope="session")
def environment(request: pytest.FixtureRequest, once: Once) -> Path:
    """The folder with the executables of the minimal environment, regraft freshly installed."""
    named = request.config.getoption("minimal")
    if named is None:
        pytest.skip("asked for by --minimal FOLDER")
    folder = Path(named).resolve()
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")

    def install(_: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(binaries / "python"), "install"]
        arguments = [*pip, "--quiet", "--no-compile", str(ROOT)]
        if binaries.is_dir():  # it may hold an older regraft of the same version
            arguments += ["--no-deps", "--force-reinstall"]
        else:
            venv.create(folder, with_pip=False)
        subprocess.run(arguments, check=True)

    once("minimal-install", install)
    return binaries


@pytest.fixture(scope="session")
def folder(once: Once) -> Path:
    """A folder with a small table, texts, an image and a parquet file that cannot be read."""

    def write(path: Path) -> None:
        (path / "photos" / "a" / "b").mkdir(parents=True)
        (path / "photos" / "a" / "b" / "0.png").write_bytes(b"\x89PNG")
        (path / "rows.parquet").write_bytes(b"PAR1")
        (path / "camelyon17_v1.0").mkdir()
        (path / "camelyon17_v1.0" / "RELEASE_v1.0.txt").touch()
        (path / "texts.csv").write_text("text,label,domain\nword,0,a\nother,1,b\n")
        problem = make_problem(n=100, d=4)
        rows = zip(problem.X.round(4).tolist(), problem.y, problem.domain, strict=True)
        lines = [",".join(map(str, (*x, y, domain))) for x, y, domain in rows]
        (path / "rows.csv").write_text("\n".join(["f0,f1,f2,f3,label,domain", *lines]) + "\n")

    return once("minimal-folder", write)


@pytest.fixture(scope="session")
def ran(environment: Path, folder: Path, once: Once) -> Mapping[str, Ran]:
    """What each command does."""

    def run(path: Path) -> None:
        lines = {name: line.split() for name, line in (COMMANDS | OF_EXTRAS).items()}
        start = [environment / "python", "-c", DRIVER]
        done = subprocess.run(start, input=json.dumps(lines), check=True, **settings(folder))
        path.write_text(done.stdout)

    printed = json.loads(once("minimal-commands", run).read_text())
    return {name: Ran(*each) for name, each in printed.items()}


def test_the_wheel_holds_every_file_of_the_source(environment: Path) -> None:
    installed = next(environment.parent.rglob("site-packages/regraft"))
    missing = list_files(SOURCE / "regraft") ^ list_files(installed)
    assert missing == set()


def list_files(folder: Path) -> set[str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in paths if path.suffix != ".pyc"}


def test_version_and_help(environment: Path, folder: Path) -> None:
    for option, words in (("--version", f"regraft {__version__}\n"), ("--help", "Commands:")):
        done = subprocess.run([environment / "regraft", option], **settings(folder))
        assert done.returncode == 0 and words in done.stdout and not done.stderr


def test_the_demo_runs(ran: Mapping[str, Ran], folder: Path) -> None:
    assert ran["demo"].code == 0 and "CRO" in ran["demo"].out
    assert json.loads((folder / "demo" / "demo.json").read_text())["rows"][-1]["name"] == "CRO"


def test_a_head_is_fitted_and_predicts(ran: Mapping[str, Ran], folder: Path) -> None:
    for name in ("fit", "predict"):
        assert (ran[name].code, ran[name].err) == (0, ""), ran[name]
    assert len((folder / "run" / "predictions.csv").read_text().splitlines()) == 201


def test_every_extra_has_its_command() -> None:
    assert sorted(OF_EXTRAS) == EXTRAS


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_missing_extra_is_one_sentence(ran: Mapping[str, Ran], extra: str, folder: Path) -> None:
    """Told before anything is computed or written, but for pictures."""
    found = ran[extra]
    sentence = rf'\w+ is not installed: run pip install "regraft\[{extra}\]"\.\n'
    if extra == "plots":
        assert found.code == 0
        assert re.search(
            rf"^warning: audit\.png is not drawn: {sentence}\Z", found.err, re.MULTILINE
        )
        assert list_files(folder / "audit") == {"audit.json", "provenance.json"}
    else:
        assert found.code == 2
        assert re.fullmatch(f"regraft: {sentence}", found.err)
        assert not (folder / "other").exists()
