"""The paper's experiment on Colored MNIST, from pixels to its table and figures."""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from regraft._version import __version__
from regraft.bench.colored_mnist import ENVIRONMENTS
from regraft.bench.figures import plot_checkpoints, plot_rank, plot_rounds
from regraft.bench.hparams import default_surrogate
from regraft.bench.phase1 import Job, PhaseOne, fingerprint
from regraft.bench.pretraining import Preset
from regraft.bench.progress import Countdown, Stopwatch
from regraft.bench.refinement import Features, Refinement
from regraft.bench.report import write_tables
from regraft.bench.selection import Selection, training_domain_validation
from regraft.bench.sweep import PHASE_2, RANK_SWEEP, Run, Sweep
from regraft.certificate import Family
from regraft.domains import check_device
from regraft.extras import MissingExtra
from regraft.files import claim, write_text
from regraft.persistence import dumps
from regraft.samples import SurrogateKind, check_surrogate

DATA, PHASE_1, FEATURES, REPORT = "data", "Phase 1", "features", "tables and figures"
PARTS = (DATA, PHASE_1, FEATURES, PHASE_2, RANK_SWEEP, REPORT)


@dataclass(frozen=True)
class Reproduction:
    """A sweep and what follows from it.

    ``records`` and the ``selection`` by training-domain validation are of the runs asked for, also
    of those that an earlier call finished, and of no others in the folder.
    """

    label: str
    selection: Selection
    records: list[dict[str, Any]]
    seconds: dict[str, float]  # by part and in total, of this invocation alone
    files: list[Path]

    def to_dict(self) -> dict[str, Any]:
        """The numbers without the records, in JSON's types."""
        cells = {ENVIRONMENTS[env]: asdict(cell) for env, cell in self.selection.cells.items()}
        return {
            "label": self.label,
            "cells": cells,
            "average": self.selection.average,
            "runs": len(self.records),
            "seconds": self.seconds,
        }


def reproduce(
    images: NDArray[np.uint8],
    digits: NDArray[np.uint8],
    *,
    preset: Preset,
    out: Path,
    cells: Sequence[int] = (0, 1, 2),
    trials: int = 3,
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
    family's default. ``stopwatch`` has the ``PARTS``; by default it starts now. Raises
    ``ValueError`` with one sentence if an argument is wrong, if the folder was made with other
    images or another preset of the same name, or if another process is at work in it.
    """
    check_arguments(cells, trials, configs, family, surrogate, device)
    surrogate = surrogate or default_surrogate(family)
    watch = stopwatch or Stopwatch(*PARTS)
    tell = on_progress or (lambda _: None)
    with _alone(out):
        with watch.part(DATA):
            data = fingerprint(images, digits)
            _claim(out, data, preset)
        place = torch.device(device)
        phase1 = PhaseOne(images, digits, data, preset, place, out)
        phase1.remove_unfinished()
        sweep = Sweep(out, preset.name, family, surrogate, place.type)
        jobs = [Job(env, trial) for env in sorted(set(cells)) for trial in range(trials)]
        runs = {job: sweep.runs(job, configs) for job in jobs}

        def refine(features: Features) -> Refinement:
            return Refinement(features, family=family, surrogate=surrogate, device=device)

        _perform(runs, phase1, refine, watch, tell)
        with watch.part(REPORT):
            tell("writing tables and figures")
            label = _label(family, surrogate, preset)
            asked = [run for job in jobs for run in runs[job]]
            records = sweep.records(asked)
            selection = training_domain_validation(records)
            files = write_tables(sweep.folder, {label: selection})
            files += _draw(sweep.folder, records, {label: sweep.rank_curves(asked)})
        seconds = watch.seconds()
        timings = sweep.folder / "timings.json"
        write_text(timings, dumps({"seconds": seconds} | _machine(device)))
    return Reproduction(label, selection, records, seconds, [*files, timings])


def _perform(
    runs: Mapping[Job, Sequence[Run]],
    phase1: PhaseOne,
    refine: Callable[[Features], Refinement],
    watch: Stopwatch,
    tell: Callable[[str], None],
) -> None:
    """Finish those of the jobs' ``runs`` that have no record yet."""
    missing = {job: [run for run in runs[job] if not run.is_done] for job in runs}
    pending = [job for job in runs if missing[job]]
    with watch.part(PHASE_1):
        checkpoints = phase1.checkpoints(pending, tell)
    features = {}
    countdown = Countdown("features", len(pending))
    for job in pending:
        with watch.part(FEATURES):
            features[job] = phase1.features(job, checkpoints[job])
        tell(countdown.next())

    total, left = (sum(map(len, lists.values())) for lists in (runs, missing))
    countdown = Countdown("Phase 2, runs", total, done=total - left)
    for job in pending:
        with watch.part(PHASE_2):
            refinement = refine(features[job])
        for run in missing[job]:
            with watch.part(run.part):
                run.perform(refinement)
            tell(countdown.next())


def check_arguments(
    cells: Sequence[int], trials: int, configs: int, family: str, surrogate: str | None, device: str
) -> None:
    """Raise ``ValueError`` with one sentence if ``reproduce`` cannot be called with these."""
    if not cells or not set(cells) <= set(range(len(ENVIRONMENTS))):
        raise ValueError(f"cells are {list(cells)}: pass some of 0, 1 and 2.")
    for name, value in (("trials", trials), ("configs", configs)):
        if value < 1:
            raise ValueError(f"{name} is {value}: pass at least 1.")
    if family not in get_args(Family):
        raise ValueError(f"family is {family!r}: choose {' or '.join(get_args(Family))}.")
    if surrogate is not None:
        check_surrogate(surrogate)
    check_device(device)


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Keep other processes out of the folder ``out``, which is made."""
    with claim(out) as is_ours:
        if not is_ours:
            raise ValueError(
                f"{out} is in use by another process: wait for it or choose another folder with "
                "--out."
            )
        yield


def _claim(out: Path, data: str, preset: Preset) -> None:
    """Write down what the runs in the folder ``out`` are made from, or refuse to mix them."""
    path = out / "settings.json"
    settings: dict[str, Any] = {"data": data, "presets": {}}
    if path.exists():
        try:
            settings = json.loads(path.read_text(encoding="utf-8"))
            kept_data, kept = settings["data"], settings["presets"].get(preset.name)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError(f"{path} is damaged: choose another folder with --out.") from None
        if kept_data != data:
            raise ValueError(f"{out} holds runs on other images: choose another folder with --out.")
        if kept == asdict(preset):
            return
        if kept is not None:
            raise ValueError(
                f"{out} holds runs with another preset {preset.name!r}: choose another folder "
                "with --out."
            )
    settings["presets"][preset.name] = asdict(preset)
    write_text(path, dumps(settings))


def _label(family: Family, surrogate: SurrogateKind, preset: Preset) -> str:
    is_usual = (family, surrogate) == ("hull", "reweighted")
    reading = family if is_usual else f"{family}, {surrogate}"
    return f"CRO, {reading} (regraft, preset {preset.name})"


def _draw(
    folder: Path,
    records: list[dict[str, Any]],
    curves: Mapping[str, Mapping[int, Sequence[tuple[int, float]]]],
) -> list[Path]:
    """The pictures written: without matplotlib none, with a warning."""
    checkpoints, ranks, rounds = (
        folder / f"{name}.png" for name in ("checkpoints", "ranks", "rounds")
    )
    try:
        plot_checkpoints(records, checkpoints)
        plot_rank(curves, ranks)
        plot_rounds(records, rounds)
    except MissingExtra as error:
        warnings.warn(f"the figures are not drawn: {error}", stacklevel=3)
        return []
    return [checkpoints, ranks, rounds]


def _machine(device: str) -> dict[str, Any]:
    on_gpu = torch.device(device).type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else device,
        "threads": torch.get_num_threads(),
        "regraft": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
