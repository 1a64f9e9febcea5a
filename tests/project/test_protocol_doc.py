"""The algorithm in docs/protocol.md works as it stands there."""

import re

import torch

from regraft.bench.algorithms import Task
from regraft.bench.algorithms.base import ENTRIES
from regraft.bench.protocol.spaces import draw_configuration
from tests.helpers.paths import ROOT
from tests.helpers.small_tasks import draw_batch

DOCUMENT = (ROOT / "docs" / "protocol.md").read_text()


def test_an_algorithm_is_one_file() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    try:
        exec(compile(code, "protocol.md", "exec"), {})
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
