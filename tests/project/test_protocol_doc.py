"""The algorithm and the dataset in docs/protocol.md work as they stand there."""

import re
from pathlib import Path

import torch

from regraft.bench.algorithms import Task
from regraft.bench.algorithms.base import ENTRIES
from regraft.bench.protocol.spaces import draw_configuration
from tests.helpers.commands import Run
from tests.helpers.paths import ROOT
from tests.helpers.small_tasks import draw_batch

DOCUMENT = (ROOT / "docs" / "protocol.md").read_text()
ALGORITHM, DATASET = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)


def test_an_algorithm_is_one_file() -> None:
    try:
        exec(compile(ALGORITHM, "protocol.md", "exec"), {})
        entry = ENTRIES["Focal"]
    finally:
        ENTRIES.pop("Focal", None)
    hparams = draw_configuration(entry.space("features"), 1, 0)
    assert 0.1 <= hparams["focal_gamma"] <= 10
    task = Task((6,), 2, 2, torch.device("cpu"))
    algorithm = entry.make(task, hparams, torch.Generator().manual_seed(0))
    x, y = draw_batch()
    losses = [float(algorithm.update(step, x, y)["loss"]) for step in range(30)]
    assert losses[-1] < losses[0]


def test_a_dataset_is_one_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "dots.py"
    path.write_text(DATASET)
    words = ("--dataset", "Dots", "--algorithm", "ERM", "--test-envs", 1, "--steps", 50)
    done = run("train", "--plugins", path, *words, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "near" in done.out and "far" in done.out
