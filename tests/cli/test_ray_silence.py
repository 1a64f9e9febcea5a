"""What Ray has to say does not reach the terminal; what it does to a command is told."""

import json
from pathlib import Path

import numpy as np
import pytest

from regraft import make_confounded_domains, write_bank
from tests.helpers.commands import run_apart
from tests.helpers.tables import write_columns

pytest.importorskip("ray", reason="the extra ray is not installed")

pytestmark = pytest.mark.slow
RAY = "--engine", "ray", "--workers", 1
# Kills the raylet that this process started before the third sum over the rows.
KILL = """
import os, signal
from pathlib import Path
from regraft.cli.app import main
from regraft.data.row_engines import RayShards
from regraft.estimators import streamed

def raylet():
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().rpartition(")")
        except OSError:  # it has ended
            continue
        if name.endswith("(raylet") and int(rest.split()[1]) == os.getpid():
            return int(folder.name)

def summing(self, *arguments, steps=[]):
    steps.append(1)
    if len(steps) == 3:
        os.kill(raylet(), signal.SIGKILL)
    return before(self, *arguments)

streamed.SAMPLE_ROWS = 300
before, RayShards.sum = RayShards.sum, summing
main()
"""


def _write(folder: Path) -> Path:
    drawn = make_confounded_domains(500, strengths=(0.95, 0.7), n_features=4, random_state=0)
    write_bank(folder, drawn.X.astype(np.float32), drawn.y, drawn.sample_domain)
    return folder


def test_commands_with_ray_print_what_they_are_asked_for_and_nothing_else(tmp_path: Path) -> None:
    texts = [f"a text of {i % 7} words and {i % 11} thoughts" for i in range(200)]
    tags = {"label": [i % 2 for i in range(200)], "domain": [f"d{i % 3}" for i in range(200)]}
    table = write_columns(tmp_path / "texts.csv", {"text": texts} | tags)
    words = "embed", "text", table, "--encoder", "hashed"
    quiet = run_apart(*words, "--out", tmp_path / "quiet", "--quiet", *RAY)
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    fit = run_apart("fit", _write(tmp_path / "bank"), "--out", tmp_path / "run", "--json", *RAY)
    assert fit.code == 0 and json.loads(fit.out)["certificate"]["family"] == "latent"
    assert fit.err.startswith("starting ...\n") and "core_worker" not in fit.err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to find the raylet in")
def test_a_command_whose_raylet_dies_says_so(tmp_path: Path) -> None:
    bank = _write(tmp_path / "bank")
    done = run_apart("fit", bank, "--out", tmp_path / "run", "--quiet", *RAY, code=KILL)
    assert done.code == 1
    assert done.err == (
        "regraft: this command was ended from outside: run it again, and if the memory was full, "
        "free some or pass fewer --workers.\n"
    )
    assert not (tmp_path / "run" / "fit.json").exists()
