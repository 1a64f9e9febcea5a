"""Phase 1 and its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regraft.bench.paper.benchmark import COLORED_MNIST
from regraft.bench.paper.digit_phase1 import DigitTrainer, fingerprint
from regraft.bench.paper.phase1 import PhaseOne
from regraft.bench.paper.pretraining import Preset

Digits = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def test_features_are_those_of_their_checkpoint(blobs: Digits, tmp_path: Path) -> None:
    trainer = DigitTrainer(*blobs, Preset("tiny", steps=1, batch=8), torch.device("cpu"))
    phase1 = PhaseOne(COLORED_MNIST, trainer, fingerprint(*blobs), tmp_path)
    job = phase1.job(test_env=1, trial=4)
    checkpoint = phase1.checkpoints([job], lambda _: None)[job]
    first = phase1.features(job, checkpoint)
    assert [len(X) for X in first.X] == [len(y) for y in first.y] == [200, 200, 200]
    assert first.head.shape == (2, 129) and first.test_env == 1 and first.sources == [0, 2]
    for env in range(3):
        rows = torch.cat([first.rows_in[env], first.rows_out[env]])
        assert rows.sort().values.equal(torch.arange(200)) and len(first.rows_out[env]) == 40
    other = checkpoint | {"0.0.weight": checkpoint["0.0.weight"] + 1}
    assert not torch.equal(phase1.features(job, other).X[0], first.X[0])
