"""The commands of docs/domainbed.md: ours do what DomainBed's do, and both run."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from regraft.bench import engines, plugins
from regraft.bench.algorithms.base import ENTRIES
from regraft.cli.app import app
from regraft.domainbed import collect_results, sweep, train
from regraft.domainbed.flags import collect_arguments, sweep_arguments, train_arguments
from tests.helpers.commands import Run, call
from tests.helpers.paths import ROOT
from tests.helpers.toy_sweep import Here, write_bank

PAGE = (ROOT / "docs" / "domainbed.md").read_text(encoding="utf-8")
TRANSLATED = {
    "train": lambda words: train_arguments(words, "cuda"),
    "sweep": lambda words: sweep_arguments(words, "cuda"),
    "collect_results": collect_arguments,
}
SCRIPTS = {"train": train.main, "sweep": sweep.main, "collect_results": collect_results.main}


def rows() -> list[tuple[str, list[str], list[str]]]:
    """DomainBed's script and its words, and our words, of all rows that have both."""
    found = []
    for left, right in re.findall(r"^\| `python -m domainbed(.*?)` \| (.*?) \|$", PAGE, re.M):
        script, *words = shlex.split(left.removeprefix(".scripts."))
        ours = re.match(r"`regraft (.*?)`", right)
        if script in TRANSLATED and ours is not None:
            found.append((script, words, shlex.split(ours[1])))
    return found


def parse(words: list[str]) -> tuple[str, dict[str, Any]]:
    command: Any = typer.main.get_command(app)
    return words[0], command.commands[words[0]].make_context(words[0], list(words[1:])).params


@pytest.mark.parametrize(("script", "words", "ours"), rows())
def test_ours_is_what_theirs_is_translated_to(
    script: str, words: list[str], ours: list[str]
) -> None:
    assert parse(TRANSLATED[script](words)) == parse(ours)


def shortened(words: list[str], folder: Path) -> list[str]:
    """The same command on small data: the names of folders and datasets, and a few steps."""
    names = {"D": str(folder / "data"), "O": str(folder / "out"), "VLCS": "other", "PACS": "toy"}
    words = [names.get(word, word.replace("PACS,VLCS", "toy,other")) for word in words]
    if words[0] in ("train", "sweep", "launch") or "--dataset" in words:
        words += ["--steps", "3", "--device", "cpu"]
    if "launch" in words and "--n_hparams" not in words:
        words += ["--n_hparams", "1", "--n_trials", "1"]
    if words[0] == "sweep" and "--n-hparams" not in words:
        words += ["--n-hparams", "1", "--n-trials", "1"]
    return words


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two small datasets, and this process as the engine."""
    data = write_bank(tmp_path / "data")
    (data / "other.npz").write_bytes((data / "toy.npz").read_bytes())
    monkeypatch.setitem(engines.ENGINES, "local", engines._EngineEntry(lambda options: Here()))
    return tmp_path


@pytest.mark.parametrize(("script", "words", "ours"), rows())
def test_both_run(script: str, words: list[str], ours: list[str], folder: Path) -> None:
    if script == "collect_results":
        call(["train", *shortened(["--dataset", "PACS", "--data", "D", "--out", "O"], folder)])
        call(shortened(["collect", "O", "--compat", "--json"], folder))
    call(shortened(ours, folder))
    before = sorted((folder / "out").glob("*/results.jsonl"))
    with pytest.raises(SystemExit) as ended:
        SCRIPTS[script](shortened(words, folder))
    assert not ended.value.code
    # The second finds all runs of the first done: they are the same runs.
    assert sorted((folder / "out").glob("*/results.jsonl")) == before


def test_what_is_not_needed() -> None:
    (left,) = re.findall(r"`python -m domainbed.scripts.sweep (delete_incomplete .*?)`", PAGE)
    assert sweep_arguments(left.split(), "cpu") is None


def test_the_plugin(folder: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (block,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(folder)
    Path("my_algorithms.py").write_text(code, encoding="utf-8")
    Path("data/toy.npz").rename("data/mine.npz")
    lines = [shlex.split(line)[1:] for line in block.splitlines()]
    try:
        trained, swept = (run(*shortened(line, folder), "--json") for line in lines)
    finally:
        ENTRIES.pop("Squared", None)
        plugins._LOADED.clear()
    assert json.loads(trained.out)["args"]["plugin"].startswith("my_algorithms.py sha256 ")
    tables = json.loads(swept.out)["selections"]["training-domain"]["datasets"]["mine"]
    assert tables.keys() == {"ERM", "Squared"}
