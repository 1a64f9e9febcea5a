"""The gallery's scripts are notebooks in the percent format, and show what they say they show."""

import csv
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import load, write_bank
from tests.helpers.paths import ROOT

SCRIPTS = sorted((ROOT / "gallery").glob("*.py"))
PACS = ROOT.parent / "shared" / "data" / "pacs" / "efficientnet_lite0.npz"
PNG = b"\x89PNG"


@pytest.fixture
def perform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run a script on few rows in an empty folder; what it prints."""

    def run(name: str, **environment: Any) -> str:
        for variable in ("REGRAFT_PACS", "REGRAFT_REVIEWS"):
            monkeypatch.delenv(variable, raising=False)
        for variable, value in environment.items():
            monkeypatch.setenv(variable, str(value))
        monkeypatch.setenv("REGRAFT_SMALL", "1")
        monkeypatch.chdir(tmp_path)
        runpy.run_path(str(ROOT / "gallery" / f"{name}.py"))
        return capsys.readouterr().out

    return run


def numbers(printed: str, row: str, table: int = 0) -> list[float]:
    """The numbers in the row of this name, in the table so numbered of those that have one."""
    found = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", printed, re.MULTILINE)
    return [float(cell.split("(")[0]) for cell in found[table].split("|")]


def test_there_are_three() -> None:
    assert [script.stem for script in SCRIPTS] == ["colored_mnist", "pacs", "text"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_format_and_the_links(script: Path) -> None:
    head, *parts = re.split(r"^# %%(.*)\n", script.read_text("utf-8"), flags=re.MULTILINE)
    assert head == ""
    # The kind ("" or "[markdown]") and the text of each cell.
    found = [(kind.strip(), text) for kind, text in zip(parts[::2], parts[1::2], strict=True)]
    assert found[0][0] == "[markdown]" and re.match(r"# # \S.*\n#\n# \w", found[0][1])
    assert {kind for kind, _ in found} == {"", "[markdown]"}
    for kind, text in found:
        assert text.strip()
        if kind:
            assert all(line.startswith("#") for line in text.strip().splitlines())
            assert not re.search(r"<\w|\$|^# ?%", text, re.MULTILINE)  # plain Markdown
        else:
            compile(text, script.name, "exec")
    titles = [text for kind, text in found if kind and re.search(r"^# # ", text, re.MULTILINE)]
    assert len(titles) == 1
    assert len(script.read_text("utf-8").splitlines()) <= 120
    for link in re.findall(r"\]\(([^)]+)\)", script.read_text("utf-8")):
        assert (script.parent / link).is_file(), link


def test_colored_mnist(perform: Callable[..., str], tmp_path: Path) -> None:
    printed = perform("colored_mnist")
    accuracy = {name: numbers(printed, name) for name in ("ERM", "GroupDRO", "CRO")}
    assert accuracy["CRO"][1] > accuracy["ERM"][1] + 20
    assert accuracy["CRO"][0] < accuracy["ERM"][0]  # the price
    told = re.search(
        r"CRO has ([\d.]+) % in", (ROOT / "gallery/colored_mnist.py").read_text("utf-8")
    )
    assert told and float(told[1]) == pytest.approx(accuracy["CRO"][1], abs=0.5)
    erm, _, cro = numbers(printed, "8")
    assert cro > erm + 20
    source, worst = numbers(printed, "8", table=1)
    assert source < numbers(printed, "0", table=1)[0] and worst > numbers(printed, "0", table=1)[1]
    for name in ("+80%", "+90%"):
        assert len(numbers(printed, name)) == 4 and max(numbers(printed, name)) < 1e-9
    assert "Certified: in every domain made of the sources' rows" in printed
    pictures = sorted(tmp_path.glob("*"))
    assert [p.name for p in pictures] == ["colored_mnist_frontier.png", "colored_mnist_stress.png"]
    assert all(picture.read_bytes().startswith(PNG) for picture in pictures)


def test_text(perform: Callable[..., str], tmp_path: Path) -> None:
    printed = perform("text")
    erm, cro = numbers(printed, "ERM"), numbers(printed, "CRO")
    assert cro[1] > erm[1] + 20 and cro[1] > 70 and cro[0] > 70
    review = "my second radio, poor quality, wicked"
    assert numbers(printed, review)[0] > 0.5 > numbers(printed, review)[1]
    assert (tmp_path / "text_stress.png").read_bytes().startswith(PNG)
    assert load(tmp_path / "text-model").classes_.tolist() == ["bad", "good"]
    assert (tmp_path / "text-model" / "README.md").is_file()


def test_text_of_ones_own(perform: Callable[..., str], tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    path = tmp_path / "reviews.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "label", "domain"])
        for i in range(180):
            label = ("no", "yes")[random.integers(2)]
            said = label if random.random() < 0.9 else "maybe"
            filler = random.choice(["well,", "hm,", "so:"])
            table.writerow([f"{filler} {said} indeed", label, "abc"[i // 60]])
    printed = perform("text", REGRAFT_REVIEWS=path)
    assert "fitted on ['a' 'b']" in printed and "unseen: c" in printed
    assert "P(good)" not in printed and numbers(printed, "CRO")[1] > 80


def test_pacs_has_a_stand_in_or_a_bank(perform: Callable[..., str], tmp_path: Path) -> None:
    printed = perform("pacs")
    assert printed.startswith("REGRAFT_PACS is not set") and "numbers mean nothing" in printed
    assert numbers(printed, "average") == [1.0, 0.0]
    assert (tmp_path / "pacs_comparison.png").read_bytes().startswith(PNG)
    random = np.random.default_rng(0)
    y, domain = np.arange(240) % 2, np.arange(240) // 2 % 4
    X = random.normal(size=(240, 8)) + 4 * y[:, None] * (np.arange(8) == 0)
    names = np.array(["art_painting", "cartoon", "photo", "sketch"])[domain]
    write_bank(tmp_path / "bank", X, np.array(["dog", "house"])[y], names)
    printed = perform("pacs", REGRAFT_PACS=tmp_path / "bank")
    assert printed.startswith("160 rows of 8 features, 2 classes")
    assert numbers(printed, "CRO (defaults)")[4] > 90


@pytest.mark.filterwarnings("ignore:X has more features")
@pytest.mark.skipif(not PACS.is_file(), reason="the features of PACS are not in ../shared/data")
@pytest.mark.slow
def test_on_pacs_the_head_stays_near_erm(perform: Callable[..., str]) -> None:
    printed = perform("pacs", REGRAFT_PACS=PACS)
    assert "560 rows of 1280 features, 7 classes" in printed
    diversity, correlation = numbers(printed, "average")
    assert diversity > 0.5 and correlation < 0.1
    erm, cro = numbers(printed, "ERM"), numbers(printed, "CRO (defaults)")
    assert cro == pytest.approx(erm, abs=1.5)
    told = re.search(r"advantage over ERM: (\S+) ± (\S+) nats", printed)
    assert told
    kept = "the one that won" if float(told[1]) > 2 * float(told[2]) else "ERM's"
    assert f"The head is {kept}" in printed
