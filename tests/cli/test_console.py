"""What the commands show, and what a quiet one does not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regraft.cli.console import Console
from regraft.core.game import Round


def test_tables_are_whole_and_have_no_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    columns = ["head", *(f"unseen domain {i}" for i in range(9))]
    Console(False).table(columns, [["CRO", *(f"{i}2.34%" for i in range(9))]])
    shown = capsys.readouterr().out
    for text in (*columns, *(f"{i}2.34%" for i in range(9))):
        assert text in shown
    assert "…" not in shown
    Console(False).table(["class [/b]", "rows"], [["[red]", "regraft[plots]"]])
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("class [/b]", "[red]", "regraft[plots]"))
    Console(True).table(["a", "b"], [["1", "2"]])
    assert capsys.readouterr().out == ""
    console = Console(as_json=False)
    console.document("| a |")
    console.note("a note")
    console.finish({}, [Path("file")])
    assert capsys.readouterr() == ("| a |\n", "")


def test_both_numbers_of_a_round_are_of_one_kind(capsys: pytest.CaptureFixture[str]) -> None:
    played = Round(attack_value=1.25, value=0.9, gap=1e-9, risks=(0.5, 0.75), sample_size=9.0)
    console = Console(False)
    console.round(played)
    assert capsys.readouterr().out == (
        "  round 1: risk in the worst domain found 1.250 nats; after the model's answer, at most "
        "0.750 in all found so far\n"
    )
    console.round(played)  # in which no target was new
    assert capsys.readouterr().out.startswith("  round 2: ")


def show_everything(console: Console) -> None:
    with console.working("working") as step:
        step("a step")
    with console.live(lambda: "drawn"):
        pass
    console.note("a note")
    console.round(Round(attack_value=0.7, value=0.6, gap=1e-9, risks=(0.5,), sample_size=9.0))
    console.say("a result")
    console.table(["a", "b"], [["1", "2"]])
    console.document("| a |")
    console.finish({"a": 1}, [Path("file")])


def test_a_quiet_screen_shows_nothing_but_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    show_everything(Console(as_json=False, quiet=True))
    assert capsys.readouterr() == ("", "")
    show_everything(Console(as_json=True, quiet=True))
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"a": 1, "files": ["file"]} and shown.err == ""


def test_a_terminal_sees_nothing_of_a_quiet_screen() -> None:
    pty = pytest.importorskip("pty")
    own, other = pty.openpty()
    code = (
        "from regraft.cli.console import Console\n"
        "console = Console(False, quiet=True)\n"
        "assert not console.is_live\n"
        "with console.working('working') as step:\n    step('a step')\n"
        "with console.live(lambda: 'drawn'):\n    pass\n"
        "console.say('a result')\n"
        "console.table(['a'], [['b']])\n"
        "print('end')\n"
    )
    subprocess.run([sys.executable, "-c", code], stdout=other, stderr=other, check=True)
    os.close(other)
    shown = os.read(own, 10_000)
    os.close(own)
    assert shown == b"end\r\n"
