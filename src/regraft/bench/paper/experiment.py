"""What the paper's experiments share: from Phase 1 to records, tables, figures and timings."""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, get_args

import numpy as np
import torch
from torch import Tensor

from regraft._version import __version__
from regraft.bench.paper.benchmark import COLORED_MNIST, Benchmark
from regraft.bench.paper.document import reproduction_document
from regraft.bench.paper.figures import RankCurves, sweep_figures
from regraft.bench.paper.phase1 import Job
from regraft.bench.paper.refinement import Features, Refinement
from regraft.bench.paper.report import write_tables
from regraft.bench.paper.sweep import PHASE_2, RANK_SWEEP, AnyRun, Sweep
from regraft.bench.protocol.selection import Selection, training_domain_validation
from regraft.core.certificate import Family
from regraft.core.domains import check_device
from regraft.core.surrogates import SurrogateKind, check_surrogate
from regraft.support.extras import MissingExtra
from regraft.support.files import claim, write_text
from regraft.support.json_files import dumps
from regraft.support.pictures import write_figure
from regraft.support.progress import Countdown, Stopwatch

DATA, PHASE_1, FEATURES, REPORT = "data", "Phase 1", "features", "tables and figures"
PARTS = (DATA, PHASE_1, FEATURES, PHASE_2, RANK_SWEEP, REPORT)


@dataclass(frozen=True)
class Reproduction:
    """A sweep and what follows from it.

    ``records`` and the ``selection`` by training-domain validation are of the runs asked for, also
    of those that an earlier call finished, and of no others in the folder. ``baselines`` are the
    selections of the heads that no game has refined, by their labels, where they are compared.
    """

    label: str
    selection: Selection
    records: list[dict[str, Any]]
    seconds: dict[str, float]  # by part and in total, of this invocation alone
    files: list[Path]
    benchmark: Benchmark = COLORED_MNIST
    baselines: dict[str, Selection] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The numbers without the records, in JSON's types."""
        document = {
            "label": self.label,
            **self._numbers(self.selection),
            "runs": len(self.records),
            "seconds": self.seconds,
        }
        if self.baselines:
            rows = {label: self._numbers(selection) for label, selection in self.baselines.items()}
            document["baselines"] = rows
        return document

    def _numbers(self, selection: Selection) -> dict[str, Any]:
        names = self.benchmark.environments
        cells = {names[env]: asdict(cell) for env, cell in selection.cells.items()}
        return {"cells": cells, "average": selection.average}


class FirstPhase(Protocol):
    """Trainings and their features, made once and kept in files."""

    def remove_unfinished(self) -> None:
        """Remove what killed processes left."""

    def checkpoints(
        self, jobs: Sequence[Job], on_progress: Callable[[str], None]
    ) -> dict[Job, dict[str, Tensor]]:
        """The trained parameters of every job."""

    def features(self, job: Job, checkpoint: dict[str, Tensor]) -> Features:
        """What Phase 2 sees of a job."""


@dataclass(frozen=True)
class Plan:
    """What of a benchmark is run and where; all its files are in the folder ``out``."""

    benchmark: Benchmark
    preset: str  # how Phase 1 trains
    cells: Sequence[int]
    trials: int
    configs: int
    family: Family
    surrogate: SurrogateKind
    device: str
    out: Path
    seed: int = 0  # number of the first trial

    @property
    def jobs(self) -> list[Job]:
        """Every held-out environment in every trial."""
        envs, trials = sorted(set(self.cells)), range(self.seed, self.seed + self.trials)
        return [Job(env, trial, self.benchmark.name) for env in envs for trial in trials]

    @property
    def label(self) -> str:
        """Our row in the tables."""
        is_usual = (self.family, self.surrogate) == ("hull", "reweighted")
        reading = self.family if is_usual else f"{self.family}, {self.surrogate}"
        return f"CRO, {reading} ({self._origin})"

    def baseline_label(self, head: str) -> str:
        """The row of a head that no game has refined."""
        return f"{head} ({self._origin})"

    @property
    def _origin(self) -> str:
        return f"regraft, preset {self.preset}"


def conduct(
    plan: Plan, phase1: FirstPhase, watch: Stopwatch, tell: Callable[[str], None], *, data: str
) -> Reproduction:
    """Finish the runs of ``plan``, and write tables, figures and timings.

    ``data`` is the fingerprint of the data. Nobody else may be at work in the folder.
    """
    phase1.remove_unfinished()
    place = torch.device(plan.device)
    sweep = Sweep(plan.out, plan.preset, plan.family, plan.surrogate, place.type, plan.benchmark)
    runs = {job: sweep.runs(job, plan.configs, ranked=plan.seed) for job in plan.jobs}

    def refine(features: Features) -> Refinement:
        return Refinement(
            features, family=plan.family, surrogate=plan.surrogate, device=plan.device
        )

    _perform(runs, phase1, refine, watch, tell)
    with watch.part(REPORT):
        tell("writing tables and figures")
        asked = [run for job in plan.jobs for run in runs[job]]
        records = sweep.records(asked)
        selection = training_domain_validation(records)
        baselines = {
            plan.baseline_label(head): training_domain_validation(found)
            for head, found in sweep.baselines(asked).items()
        }
        ours = baselines | {plan.label: selection}
        files = write_tables(sweep.folder, ours, benchmark=plan.benchmark)
        curves = sweep.rank_curves(asked)
        files += _draw(sweep.folder, plan.benchmark, records, {plan.label: curves})
    seconds = watch.seconds()
    timings = sweep.folder / "timings.json"
    write_text(timings, dumps({"seconds": seconds} | _machine(plan.device)))
    document = sweep.folder / "reproduction.json"
    files += [timings, document]
    result = Reproduction(plan.label, selection, records, seconds, files, plan.benchmark, baselines)
    write_text(document, dumps(reproduction_document(result, curves, data)))
    return result


def _perform(
    runs: Mapping[Job, Sequence[AnyRun]],
    phase1: FirstPhase,
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
    cells: Sequence[int],
    trials: int,
    configs: int,
    family: str,
    surrogate: str | None,
    device: str,
    benchmark: Benchmark = COLORED_MNIST,
    *,
    seed: int = 0,
) -> None:
    """Raise ``ValueError`` with one sentence if ``benchmark`` cannot be run with these."""
    known = range(len(benchmark.environments))
    if not cells or not set(cells) <= set(known):
        *first, last = map(str, known)
        raise ValueError(f"cells are {list(cells)}: pass some of {', '.join(first)} and {last}.")
    for name, value in (("trials", trials), ("configs", configs)):
        if value < 1:
            raise ValueError(f"{name} is {value}: pass at least 1.")
    if seed < 0:
        raise ValueError(f"seed is {seed}: pass 0 or more.")
    if family not in get_args(Family):
        raise ValueError(f"family is {family!r}: choose {' or '.join(get_args(Family))}.")
    if surrogate is not None:
        check_surrogate(surrogate)
    check_device(device)


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Keep other processes out of the folder ``out``, which is made."""
    with claim(out) as is_ours:
        if not is_ours:
            raise ValueError(
                f"{out} is in use by another process: wait for it or choose another folder with "
                "--out."
            )
        yield


def claim_folder(out: Path, data: str, preset: str, settings: Mapping[str, Any]) -> None:
    """Write down what the runs in the folder ``out`` are made from, or refuse to mix them.

    ``data`` is the fingerprint of the data, ``settings`` are those of the ``preset``.
    """
    path = out / "settings.json"
    document: dict[str, Any] = {"data": data, "presets": {}}
    if path.exists():
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            kept_data, kept = document["data"], document["presets"].get(preset)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError(f"{path} is damaged: choose another folder with --out.") from None
        if kept_data != data:
            raise ValueError(f"{out} holds runs on other images: choose another folder with --out.")
        if kept == settings:
            return
        if kept is not None:
            raise ValueError(
                f"{out} holds runs with another preset {preset!r}: choose another folder "
                "with --out."
            )
    document["presets"][preset] = settings
    write_text(path, dumps(document))


def _draw(
    folder: Path,
    benchmark: Benchmark,
    records: list[dict[str, Any]],
    curves: Mapping[str, RankCurves],
) -> list[Path]:
    """Write the pictures and return their files: without vl-convert none, with a warning."""
    figures = sweep_figures(benchmark, records, curves)
    try:
        return [path for name in figures for path in write_figure(figures[name], folder / name)]
    except MissingExtra as error:
        warnings.warn(f"the figures are not drawn: {error}", stacklevel=4)
        return []


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
