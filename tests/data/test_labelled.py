"""Domains that a .npz file numbers and names."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.data.banks import write_bank
from regraft.data.labelled import read_labelled

NUMBERS = np.array([1, 0, 1], np.uint8)


def write(folder: Path, domain: Any = NUMBERS, **arrays: Any) -> Path:
    path = folder / "bank.npz"
    np.savez(path, X=np.zeros((3, 1)), label=[0, 1, 1], domain=domain, **arrays)
    return path


def test_numbers_become_names_and_what_has_no_others_stays(tmp_path: Path) -> None:
    path = write(tmp_path, domains=np.array(["Bern", "Chur"]))
    assert read_labelled(path).domain.tolist() == ["Chur", "Bern", "Chur"]
    assert read_labelled(write(tmp_path)).domain.tolist() == [1, 0, 1]
    words = ["a", "b", "a"]
    path = write(tmp_path, words, domains=np.array(["x"]))
    assert read_labelled(path).domain.tolist() == words
    write_bank(tmp_path / "mine.npz", np.zeros((3, 1), np.float32), [0, 1, 1], [0, 1, 1])
    assert read_labelled(tmp_path / "mine.npz").domain.tolist() == [0, 1, 1]


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
        read_labelled(write(tmp_path, domains=names))
