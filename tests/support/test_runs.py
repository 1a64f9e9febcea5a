"""Files of two runs are told apart."""

import json
from pathlib import Path

from regraft.support.runs import PROVENANCE, check_run, seal_run
from tests.helpers.errors import refused


def make(folder: Path, value: int) -> None:
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"value": value}))
    (folder / "b.csv").write_text("x\n")
    sealed = seal_run(folder)
    entry = {"run": sealed.id, "files": sealed.files}
    (folder / PROVENANCE).write_text(json.dumps({"fit": entry}))


def test_a_file_of_another_run_and_a_changed_one_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    make(first, 1)
    make(second, 2)
    check_run(first, "a.json")
    (first / "unknown.json").write_text("{}")
    check_run(first, "unknown.json")
    assert len(json.loads((first / "a.json").read_text())["run"]) == 16
    other = (second / "a.json").read_text()
    (first / "b.csv").write_text("y\n")
    (second / "a.json").write_text(other.replace("2", "3", 1))
    with refused("was changed since"):
        check_run(second, "a.json")
    (first / "a.json").write_text(other)
    with refused("are of two runs"):
        check_run(first, "a.json")
    (first / "a.json").write_text("[]")
    with refused("is damaged or was changed"):
        check_run(first, "a.json")
    (first / "a.json").write_text(other)
    (first / PROVENANCE).write_text("not ours")
    check_run(first, "a.json")


def test_the_id_follows_from_the_results(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", 1), ("c", 2)):
        make(tmp_path / name, value)
    runs = [json.loads((tmp_path / name / "a.json").read_text())["run"] for name in "abc"]
    assert runs[0] == runs[1] != runs[2]
