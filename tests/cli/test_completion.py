"""Completion in a shell: of commands, of options, and of values that are known without torch."""

import json
from typing import get_args

import pytest

from regraft.bench.algorithms import algorithms
from regraft.bench.algorithms.games import GameFamily
from regraft.bench.datasets import datasets
from regraft.bench.engines import ENGINES
from regraft.bench.paper.benchmark import IMAGE_BENCHMARKS
from regraft.bench.paper.pretraining import PRESETS
from regraft.bench.protocol.selection import RULES
from regraft.cli import names
from regraft.cli.reproduce import CMNIST
from regraft.core.hull import Objective
from regraft.core.surrogates import SurrogateKind
from regraft.data.examples import load_demo
from regraft.estimators.families import Family
from tests.helpers.commands import run_apart

# One process for all lines, as a shell would ask for each of them.
PROGRAM = """
import contextlib, io, json, os, sys
from regraft.cli.app import main
offered = {}
for line in sys.argv[1:]:
    os.environ.update(COMP_WORDS=line, COMP_CWORD=str(line.count(" ")))
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main()
    offered[line] = out.getvalue().split()
print(json.dumps([offered, "torch" in sys.modules]))
"""
OFFERED: dict[str, list[str]] = {
    "regraft f": ["fit", "frontier"],
    "regraft moral ": ["run", "elicit"],
    "regraft audit --ra": ["--radii", "--rank"],
    "regraft fit --objective ": ["risk", "regret"],
    "regraft fit --family ": ["latent", "hull", "factorized"],
    "regraft demo --cell ": ["-90%", "+90%"],
    "regraft reproduce ": ["cmnist", "pacs", "officehome"],
    "regraft reproduce cmnist --preset b": ["best"],
    "regraft reproduce cmnist --family ": ["latent", "hull", "free"],
    "regraft reproduce cmnist --surrogate re": ["reweighted", "relabelled"],
    "regraft train --dataset P": ["PACS"],
    "regraft train --algorithm CO": ["CORAL"],
    "regraft sweep --engine ": ["local", "ray", "slurm"],
    "regraft sweep --algorithms ERM,M": ["ERM,Mixup", "ERM,MLDG", "ERM,MMD", "ERM,MTL"],
    "regraft collect runs --selection l": ["leave-one-domain-out"],
    "regraft embed images photos --on-broken ": ["stop", "skip"],
    "regraft embed text t.csv --encoder h": ["hashed"],
    "regraft fit --device cu": ["cuda"],
    "regraft fit da": [],  # left to the shell, which knows the files
}


def test_what_bash_is_offered_at_the_end_of_a_line() -> None:
    ran = run_apart(*OFFERED, code=PROGRAM, _REGRAFT_COMPLETE="complete_bash")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == [OFFERED, False]


def test_the_names_are_those_of_the_library() -> None:
    assert set(names.BENCHMARKS) == {CMNIST, *IMAGE_BENCHMARKS}
    assert set(names.PRESETS) == PRESETS.keys()
    assert set(names.HEAD_FAMILIES) == set(get_args(Family))
    assert set(names.FAMILIES) == set(get_args(GameFamily))
    assert set(names.SURROGATES) == set(get_args(SurrogateKind))
    assert set(names.ENGINES) == ENGINES.keys()
    assert set(names.RULES) == RULES.keys()
    assert set(names.DATASETS) == datasets().keys()
    assert set(names.ALGORITHMS) == algorithms().keys()
    assert set(names.OBJECTIVES) == set(get_args(Objective))
    assert all(load_demo(cell).target == cell for cell in names.CELLS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(shell: str) -> None:
    ran = run_apart(_REGRAFT_COMPLETE=f"source_{shell}")
    assert ran.code == 0 and f"_REGRAFT_COMPLETE=complete_{shell}" in ran.out
