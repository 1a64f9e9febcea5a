"""What the README tells people to type works as it stands there."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.helpers.commands import call
from tests.helpers.paths import ROOT
from tests.helpers.problems import make_problem
from tests.helpers.small_pictures import write_photos

README = (ROOT / "README.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_python_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, with_target = _blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    accuracy, worst = map(float, capsys.readouterr().out.split())
    assert accuracy > 0.65 and worst > 0.65
    assert f"# {accuracy:.2f} where" in code
    assert (tmp_path / "groups.png").exists() and (tmp_path / "model" / "model.json").exists()
    exec(compile(with_target, "README.md", "exec"), {})
    adapted = float(capsys.readouterr().out.splitlines()[-1])
    assert f"# no labels: {adapted:.2f} where the model had {accuracy:.2f}" in with_target


def test_four_commands_lead_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = (block for block in _blocks("sh") if block.startswith("git clone"))
    clone, change, install, fit = (line.split("#")[0].split() for line in block.splitlines())
    assert clone[:2] == ["git", "clone"] and change == ["cd", Path(clone[-1]).name]
    makefile = (ROOT / "Makefile").read_text()
    assert install[0] == "make" and f"\n{install[1]}:" in makefile
    monkeypatch.chdir(tmp_path)
    _write_table(Path("PATH/TO/patients.csv"))
    assert fit[0] == ".venv/bin/regraft"
    call(fit[1:])
    assert "<title>A model for domains" in Path("run/report.html").read_text()


def _write_table(path: Path, **more: list[str]) -> None:
    problem = make_problem(n=80)
    columns = {"label": problem.y.tolist(), "hospital": problem.domain.tolist(), **more}
    columns |= {f"f{i}": x.round(4).tolist() for i, x in enumerate(problem.X.T)}
    rows = [
        ",".join(columns),
        *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")


@pytest.mark.slow
def test_shell_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.csv", "new.csv", "more.csv"):
        _write_table(Path(name))
    write_photos(Path("photos"), "abc", ("ill", "well"), n=4)
    shutil.copytree("photos/a/ill", "new_photos")
    commands = [
        line.split("#")[0] for block in _blocks("sh") for line in block.splitlines()
        if line.startswith("regraft ")
    ]  # fmt: skip
    # The paper's experiments take minutes, or need MNIST; their own tests run them on small data.
    of_paper = ("reproduce", "sweep", "collect", "moral")
    long = [command for command in commands if command.split()[1] in of_paper]
    commands = [command for command in commands if command not in long]
    assert (len(commands), len(long)) == (9, 4)
    commands += [f"{command} --help" for command in long]
    for command in commands:
        call(shlex.split(command)[1:])
    written = {entry.name for entry in Path("run").iterdir()}
    assert {"model", "certificate.json", "predictions.csv", "audit.png"} <= written
    assert {"comparison.md", "comparison.png"} <= {e.name for e in Path("comparison").iterdir()}
    assert {"diagnosis.json", "diagnosis.md"} <= {e.name for e in Path("premises").iterdir()}
    predicted = Path("predictions/predictions.csv").read_text().splitlines()
    assert predicted[0].startswith("path,label,") and len(predicted) == 5
