"""Domains that a .npz file numbers and names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.data.domain_names import named_domains

NUMBERS = np.array([1, 0, 1], np.uint8)


def write(folder: Path, **arrays: Any) -> Path:
    path = folder / "bank.npz"
    np.savez(path, X=np.zeros((3, 1)), **arrays)
    return path


def test_numbers_become_names(tmp_path: Path) -> None:
    path = write(tmp_path, domains=np.array(["Bern", "Chur"]))
    assert named_domains(path, NUMBERS).tolist() == ["Chur", "Bern", "Chur"]


def test_what_has_no_other_names_stays(tmp_path: Path) -> None:
    assert named_domains(write(tmp_path), NUMBERS) is NUMBERS
    words = np.array(["a", "b", "a"])
    assert named_domains(write(tmp_path, domains=np.array(["x"])), words) is words
    assert named_domains(tmp_path / "other.csv", NUMBERS) is NUMBERS


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (np.array(["Bern"]), r"shape \(1,\) but the domains are numbered 0 to 1"),
        (np.array([["Bern", "Chur"]]), r"shape \(1, 2\) but"),
        (np.array(["Bern", None], dtype=object), "holds pickled objects: save plain strings"),
    ],
)
def test_names_that_do_not_fit(tmp_path: Path, names: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        named_domains(write(tmp_path, domains=names), NUMBERS)


def test_a_bank_whose_folder_looks_like_a_file_has_names_already(tmp_path: Path) -> None:
    (tmp_path / "mine.npz").mkdir()
    domain = np.array([0, 1, 1])
    assert named_domains(tmp_path / "mine.npz", domain) is domain
