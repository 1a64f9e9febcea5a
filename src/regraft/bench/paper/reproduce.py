"""The paper's experiment on Colored MNIST, from pixels to its table and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regraft.bench.algorithms.games import default_surrogate
from regraft.bench.paper.benchmark import COLORED_MNIST
from regraft.bench.paper.digit_phase1 import DigitTrainer, fingerprint
from regraft.bench.paper.experiment import (
    DATA,
    PARTS,
    ExperimentPlan,
    Reproduction,
    alone,
    check_arguments,
    claim_folder,
    conduct,
)
from regraft.bench.paper.phase1 import PhaseOne
from regraft.bench.paper.pretraining import Preset
from regraft.core.certificate import Family
from regraft.core.surrogates import SurrogateKind
from regraft.support.progress import Stopwatch


def reproduce(
    images: NDArray[np.uint8],
    digits: NDArray[np.uint8],
    *,
    preset: Preset,
    out: Path,
    cells: Sequence[int] = (0, 1, 2),
    trials: int = 3,
    seed: int = 0,
    configs: int = 20,
    family: Family = "hull",
    surrogate: SurrogateKind | None = None,
    device: str = "cpu",
    stopwatch: Stopwatch | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Reproduction:
    """Hold out each of the environments ``cells`` in turn, and write table and figures to ``out``.

    Stopped at any moment, it goes on from there when called again; cells, trials, configurations,
    families, surrogates, presets and types of devices can be added to a folder, in which each
    preset, family and surrogate has a folder of its own. Without a ``surrogate`` it is the
    family's default. ``seed`` numbers the first of the trials. ``stopwatch`` has the ``PARTS``; by
    default it starts now. Raises ``ValueError`` with one sentence if an argument is wrong, if the
    folder was made with other images or another preset of the same name, or if another process is
    at work in it.
    """
    check_arguments(cells, trials, configs, family, surrogate, device, seed=seed)
    surrogate = surrogate or default_surrogate(family)
    plan = ExperimentPlan(
        COLORED_MNIST, preset.name, cells, trials, configs, family, surrogate, device, out, seed
    )
    watch = stopwatch or Stopwatch(*PARTS)
    with alone(out):
        with watch.part(DATA):
            data = fingerprint(images, digits)
            claim_folder(out, data, preset.name, asdict(preset))
        trainer = DigitTrainer(images, digits, preset, torch.device(device))
        phase1 = PhaseOne(COLORED_MNIST, trainer, data, out)
        return conduct(plan, phase1, watch, on_progress or (lambda _: None))
