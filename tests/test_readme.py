"""What the README tells people to type works as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from conftest import make_problem
from PIL import Image

from regraft.cli import app

README = (Path(__file__).parent.parent / "README.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_python_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = _blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    accuracy, worst = map(float, capsys.readouterr().out.split())
    assert accuracy > 0.65 and worst > 0.65
    assert f"# {accuracy:.2f} where" in code
    assert (tmp_path / "stress.png").exists() and (tmp_path / "model" / "model.json").exists()


def _draw_photos(folder: Path) -> None:
    """Three hospitals, two classes: noise that is brighter in one of them."""
    rng = np.random.default_rng(0)
    for hospital in "abc":
        for name, light in (("ill", 60), ("well", 160)):
            (folder / hospital / name).mkdir(parents=True)
            for i in range(4):
                pixels = rng.integers(light, light + 80, size=(32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / hospital / name / f"{i}.png")


def test_shell_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    problem = make_problem(n=80)
    names = ["label", "hospital", *(f"f{i}" for i in range(problem.X.shape[1]))]
    rows = np.column_stack([problem.y, problem.domain, problem.X.round(4)])
    for name in ("train.csv", "new.csv"):
        lines = [",".join(names), *(",".join(row) for row in rows.tolist())]
        Path(name).write_text("\n".join(lines) + "\n")
    scanner = np.where(np.arange(len(rows)) % 3, "new", "old")
    lines = [
        ",".join([*names, "scanner"]),
        *(",".join(row) for row in np.column_stack([rows, scanner])),
    ]
    Path("scans.csv").write_text("\n".join(lines) + "\n")
    _draw_photos(Path("photos"))
    commands = [
        line.split("#")[0] for block in _blocks("sh") for line in block.splitlines()
        if line.startswith("regraft ")
    ]  # fmt: skip
    # The paper's experiments take minutes, or need MNIST; their own tests run them on small data.
    of_paper = ("reproduce", "sweep", "collect", "moral")
    long = [command for command in commands if command.split()[1] in of_paper]
    commands = [command for command in commands if command not in long]
    assert (len(commands), len(long)) == (9, 7)
    commands += [f"{command} --help" for command in long]
    for command in commands:
        with pytest.raises(SystemExit) as ended:
            app(shlex.split(command)[1:])
        assert not ended.value.code, command
    written = {entry.name for entry in Path("run").iterdir()}
    assert {"model", "certificate.json", "predictions.csv", "audit.png", "frontier.png"} <= written
    assert {"comparison.md", "comparison.png"} <= {e.name for e in Path("comparison").iterdir()}
    assert {"diagnosis.json", "diagnosis.md"} == {
        entry.name for entry in Path("premises").iterdir()
    }
    assert {"model", "audit.png"} <= {entry.name for entry in Path("model").iterdir()}
