"""The paper's experiment on Colored MNIST, from pixels to its table and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    check_arguments,
    conduct,
    own_folder,
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
    """Reproduce the paper's experiment on Colored MNIST.

    Stopped at any moment, it goes on from there when called again; cells, trials, configurations,
    families, surrogates, presets and types of devices can be added to a folder, in which each
    preset, family and surrogate has a folder of its own.

    Parameters
    ----------
    images, digits
        MNIST, (n, 28, 28) and (n,).
    preset
        How Phase 1 trains.
    out
        The folder for all files.
    cells
        The environments that are held out in turn.
    trials, seed
        How many trials there are, and the number of the first.
    configs
        How many configurations are played, the default one included.
    family, surrogate
        The adversary's domains, and what the learner sees of them; None takes the family's usual.
    device
        Where everything is computed.
    stopwatch
        Counts the time by ``PARTS``; by default it starts now.
    on_progress
        Called with a line of text from time to time.

    Returns
    -------
    Reproduction
        The records, what was selected among them, and the files.

    Raises
    ------
    ValueError
        With one sentence, if an argument is wrong, if the folder was made with other images or
        another preset of the same name, or if another process is at work in it.
    """
    check_arguments(cells, trials, configs, family, surrogate, device, seed=seed)
    surrogate = surrogate or default_surrogate(family)
    plan = ExperimentPlan(
        COLORED_MNIST, preset.name, cells, trials, configs, family, surrogate, device, out, seed
    )
    watch = stopwatch or Stopwatch(*PARTS)
    with watch.part(DATA):
        data = fingerprint(images, digits)
    trainer = DigitTrainer(images, digits, preset, torch.device(device))
    phase1 = PhaseOne(COLORED_MNIST, trainer, data, out)
    with own_folder(out, data, preset):
        return conduct(plan, phase1, watch, on_progress or (lambda _: None))
