"""Every command sees the names of domains that a .npz file numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.bench.datasets.features import FeatureBank
from regraft.data.tables import read_table
from regraft.estimators.saving import load
from tests.helpers.commands import Run
from tests.helpers.problems import make_problem

NAMES = ["Chur", "Bern", "Genf"]  # not in the order of their numbers


def test_blanks_around_names_do_not_make_domains(tmp_path: Path) -> None:
    lines = ["x,label,domain", "1,0,Bern", "2,1,Bern ", "3,0,bern", "4,1, Chur"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    with pytest.warns(UserWarning) as told:
        table = read_table(tmp_path / "t.csv")
    assert table.domain is not None
    assert table.domain.tolist() == ["Bern", "Bern", "bern", "Chur"]
    blanks, case = (str(each.message) for each in told)
    assert "'Bern', 'Bern ' differ only in blanks around them, and are taken for one" in blanks
    assert "'Bern', 'bern' differ only in upper and lower case, and are taken for diff" in case


def test_fit_predict_and_audit_agree_with_the_others(tmp_path: Path, run: Run) -> None:
    def document(*words: object) -> Any:
        ran = run(*words, "--json", "--quiet")
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    problem, data = make_problem(seed=3, n=60, d=3, sources=3), tmp_path / "data.npz"
    numbers = np.unique(problem.domain, return_inverse=True)[1]
    np.savez(data, X=problem.X, label=problem.y, domain=numbers, domains=np.array(NAMES))
    names, radii = set(NAMES), ("--family", "hull", "--radii", "0,1")
    model = tmp_path / "model"
    fitted = document("fit", data, "--family", "hull", "--radius", 1, "--out", model)
    assert fitted["source_accuracy"].keys() == fitted["certificate"]["worst_target"].keys() == names
    assert set(load(model / "model").domains_.tolist()) == names
    assert document("predict", model, data)["accuracy_by_domain"].keys() == names
    audited = document("audit", model, data, *radii)
    assert audited["points"][-1]["risk_target"].keys() == names
    assert len(document("frontier", data, *radii)["points"]) == 2
    compared = document("compare", data, "--radii", "1", "--out", tmp_path / "compare")
    assert {cell["target"] for cell in compared["cells"]} == names
    diagnosed = document("diagnose", data)
    assert {domain["domain"] for domain in diagnosed["closure"]["domains"]} == names
    assert FeatureBank(data).env_names == tuple(sorted(names))
