"""Where results come from, on real files, banks and models."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regraft
from regraft.report.provenance import PROVENANCE, read_provenance, trace, write_provenance
from tests.helpers.problems import Problem


def test_a_file_has_the_checksum_that_sha256sum_tells(tmp_path: Path) -> None:
    path = tmp_path / "a b.csv"
    path.write_bytes(b"label,domain\n")
    origin = trace(["regraft", "fit", str(path)], {"seed": 3}, [path], 1.234)
    assert origin.data[0].sha256 == hashlib.sha256(b"label,domain\n").hexdigest()
    assert origin.command == f"regraft fit '{path}'"
    assert origin.seconds == 1.23 and origin.options == {"seed": 3}
    assert origin.versions["regraft"] == regraft.__version__
    assert origin.versions["numpy"] == np.__version__


def test_a_bank_and_a_model_have_those_of_their_arrays(tmp_path: Path, problem: Problem) -> None:
    bank = regraft.write_bank(tmp_path / "bank", problem.X, problem.y, problem.domain)
    head = regraft.ERMClassifier().fit(problem.X, problem.y, problem.domain)
    regraft.save(head, tmp_path / "run" / "model")
    origin = trace([], {}, [tmp_path / "bank", tmp_path / "run"], 0)
    arrays = (tmp_path / "run" / "model" / "model.safetensors").read_bytes()
    assert origin.data[0].sha256 == bank.checksum
    assert origin.data[1].sha256 == hashlib.sha256(arrays).hexdigest()


def test_a_folder_changes_with_its_files_names_and_sizes(tmp_path: Path) -> None:
    def checksum() -> str:
        return trace([], {}, [tmp_path], 0).data[0].sha256

    (tmp_path / "a").write_text("x")
    first = checksum()
    assert checksum() == first
    (tmp_path / "a").write_text("xy")
    assert checksum() != first


def test_commands_are_kept_side_by_side_and_the_last_one_counts(tmp_path: Path) -> None:
    first, second, third = (trace(["regraft", name], {}, [], 0) for name in ("fit", "audit", "x"))
    write_provenance(tmp_path, "fit", first)
    write_provenance(tmp_path, "audit", second)
    write_provenance(tmp_path, "fit", third)
    assert read_provenance(tmp_path) == {"fit": third, "audit": second}
    written = json.loads((tmp_path / PROVENANCE).read_text())["audit"]
    assert len(written.pop("sha256")) == 64 and written == json.loads(json.dumps(asdict(second)))


@pytest.mark.parametrize("text", ["{", "[]", '{"fit": {}}', '{"fit": 3}'])
def test_a_damaged_file_is_told_in_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / PROVENANCE).write_text(text)
    with pytest.raises(ValueError, match="is damaged: delete it"):
        read_provenance(tmp_path)


@pytest.mark.parametrize("change", [{"machine": {}}, {"seconds": None}, {"data": 3}])
def test_a_part_that_is_damaged_is_told_too(tmp_path: Path, change: dict[str, Any]) -> None:
    entry = asdict(trace(["regraft"], {}, [], 0)) | change
    (tmp_path / PROVENANCE).write_text(json.dumps({"fit": entry}))
    with pytest.raises(ValueError, match="is damaged: delete it"):
        read_provenance(tmp_path)


def test_a_changed_letter_is_told(tmp_path: Path) -> None:
    path = write_provenance(tmp_path, "fit", trace(["regraft", "fit"], {"seed": 3}, [], 0))
    path.write_text(path.read_text().replace('"seed": 3', '"seed": 4'))
    with pytest.raises(ValueError, match=r"fit was changed since it was written"):
        read_provenance(tmp_path)


def test_no_file_is_no_provenance(tmp_path: Path) -> None:
    assert read_provenance(tmp_path) == {}
