"""Files of one result appear together or not at all, whatever stops the process."""

import os
import sys
from pathlib import Path

import pytest

from regraft.support.files import exclusive, hold, remove_abandoned, sibling
from regraft.support.publishing import (
    READY,
    Stage,
    finish_publication,
    name_when_done,
    publishing,
)
from tests.helpers.errors import refused

posix = pytest.mark.skipif(sys.platform == "win32", reason="open files stay there")


def tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def write(stage: Path, text: str) -> None:
    (stage / "model").mkdir()
    (stage / "model" / f"{text}.txt").write_text(text)
    (stage / "a.json").write_text(text)


def test_all_files_appear_together_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for text in ("old", "new"):
        with publishing(tmp_path) as stage:
            write(stage, text)
        assert tree(tmp_path) == {"mine.txt": "mine", f"model/{text}.txt": text, "a.json": text}
    with pytest.raises(KeyError), publishing(tmp_path) as stage:
        write(stage, "third")
        raise KeyError
    assert tree(tmp_path)["a.json"] == "new" and len(list(tmp_path.iterdir())) == 3


def test_a_folder_that_was_made_for_nothing_is_removed(tmp_path: Path) -> None:
    with pytest.raises(KeyError), publishing(tmp_path / "out"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_published_is_put_in_its_place(tmp_path: Path) -> None:
    with publishing(tmp_path) as stage:
        write(stage, "old")
    new, replaced = (tmp_path / READY / name for name in ("new", "replaced"))
    new.mkdir(parents=True)
    write(new, "new")
    replaced.mkdir()
    (tmp_path / "model").rename(replaced / "old")  # killed between two renames
    finish_publication(tmp_path)
    assert tree(tmp_path) == {"model/new.txt": "new", "a.json": "new"}
    assert len(list(tmp_path.iterdir())) == 2


@posix
def test_only_what_nobody_holds_is_removed(tmp_path: Path) -> None:
    left, living = sibling(tmp_path / "regraft-new"), Stage(tmp_path)
    left.mkdir()
    (left / "x").write_text("half")
    held = sibling(tmp_path / "x.json")
    with held.open("wb") as file:
        assert hold(file.fileno())
        remove_abandoned(tmp_path / "x.json")
        assert held.exists()
    remove_abandoned(tmp_path / "x.json")
    other = Stage(tmp_path)
    assert not left.exists() and not held.exists() and living.path.exists()
    for stage in (living, other):
        stage.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    with refused("is a folder: move it"), publishing(tmp_path) as stage:
        write(stage, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@posix
def test_one_process_at_a_time_is_inside(tmp_path: Path) -> None:
    with exclusive(tmp_path):
        other = os.open(tmp_path, os.O_RDONLY)
        assert not hold(other)
    assert hold(other)
    os.close(other)


def test_temporary_names_are_shown_as_they_will_be(tmp_path: Path) -> None:
    with publishing(tmp_path) as stage:
        assert name_when_done(str(stage / "report.html")) == str(tmp_path / "report.html")
        assert name_when_done(f"{stage / 'a.json'} is odd.") == f"{tmp_path / 'a.json'} is odd."
        assert name_when_done(f"{stage} is full.") == f"{tmp_path} is full."
        write(stage, "text")
    assert name_when_done(".regraft-new.0123abcd~/new/fit.json: full.") == "fit.json: full."
    path = tmp_path / "report.html"
    assert name_when_done(str(sibling(path))) == name_when_done(str(path)) == str(path)
