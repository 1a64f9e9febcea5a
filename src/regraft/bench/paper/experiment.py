"""What the paper's experiments share: from Phase 1 to records, tables, figures and timings."""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from regraft._version import __version__
from regraft.bench.algorithms.games import game_space
from regraft.bench.paper.benchmark import COLORED_MNIST, Benchmark
from regraft.bench.paper.document import reproduction_document
from regraft.bench.paper.figures import RankCurves, sweep_figures
from regraft.bench.paper.fine_tuning import Recipe
from regraft.bench.paper.phase1 import PhaseOne
from regraft.bench.paper.pretraining import Preset
from regraft.bench.paper.report import write_tables
from regraft.bench.paper.trained_features import CRO, ERM, REFITTED
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.selection import Selection, training_domain_validation
from regraft.bench.protocol.spaces import draw_configuration
from regraft.bench.protocol.worker import Assignment, perform
from regraft.core.certificate import Family
from regraft.core.domains import check_device
from regraft.core.surrogates import SurrogateKind, check_surrogate
from regraft.support.extras import MissingExtra
from regraft.support.files import claim, write_text
from regraft.support.json_files import dumps
from regraft.support.pictures import write_figure
from regraft.support.progress import Countdown, Stopwatch

PARTS = DATA, PHASE_1, FEATURES, PHASE_2, RANK_SWEEP, REPORT = (
    "data",
    "Phase 1",
    "features",
    "Phase 2",
    "rank sweep",
    "tables and figures",
)
RANKS_OF = "-ranks"  # behind the name of a device: the folder of its rank sweep
# Of the transplant dimension, denser where the paper's method begins to fail.
RANKS = (1, 2, 4, 8, 16, 32, 64, 96, 113, 120, 125, 127, 128)


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
        """Return the numbers without the records, in JSON's types."""
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


@dataclass(frozen=True)
class PlannedRun:
    """A run of the protocol, and the part of the experiment that its time counts for."""

    part: str  # PHASE_2 or RANK_SWEEP
    assignment: Assignment  # of this run alone

    @property
    def job(self) -> Job:
        """What the run is."""
        return self.assignment.jobs[0]

    @property
    def folder(self) -> RunFolder:
        """Where it is written."""
        return self.assignment.folder(self.job)

    def read(self) -> dict[str, Any]:
        """Return the record of the finished run, or raise ``ValueError`` with one sentence."""
        records = self.folder.records()
        if not records:
            raise ValueError(f"{self.folder.path} is damaged: remove it to run it again.")
        return records[-1]


@dataclass(frozen=True)
class ExperimentPlan:
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
    def folder(self) -> Path:
        """The folder of the runs with this preset, family and surrogate, in ``out``."""
        return self.out / f"{self.preset}-{self.family}-{self.surrogate}"

    @property
    def label(self) -> str:
        """Our row in the tables."""
        is_usual = (self.family, self.surrogate) == ("hull", "reweighted")
        reading = self.family if is_usual else f"{self.family}, {self.surrogate}"
        return f"CRO, {reading} ({self._origin})"

    def baseline_label(self, head: str) -> str:
        """Return the row of a head that no game has refined."""
        return f"{head} ({self._origin})"

    @property
    def _origin(self) -> str:
        return f"regraft, preset {self.preset}"

    def jobs(self, phase1: PhaseOne) -> list[Job]:
        """Return those of Phase 1: every held-out environment in every trial."""
        trials = range(self.seed, self.seed + self.trials)
        return [phase1.job(env, trial) for env in sorted(set(self.cells)) for trial in trials]

    def runs(self, job: Job) -> list[PlannedRun]:
        """Return the runs on the features of ``job``.

        They are the default configuration and random ones; where the benchmark has them, ERM's
        come first, and in the first trial the ranks last.
        """
        space = game_space(self.family, self.surrogate, self.benchmark.n_classes)
        heads = (ERM, REFITTED) if self.benchmark.compares_erm else ()
        ranks = RANKS if self.benchmark.sweeps_ranks and job.trial_seed == self.seed else ()
        draws = [draw_configuration(space, i, job.trial_seed) for i in range(self.configs)]
        return [
            *(self._run(PHASE_2, replace(job, algorithm=head), 0, {}) for head in heads),
            *(self._run(PHASE_2, job, i, hparams) for i, hparams in enumerate(draws)),
            *(self._run(RANK_SWEEP, job, 0, draws[0] | {"cro_rank": rank}) for rank in ranks),
        ]

    def _run(self, part: str, job: Job, config: int, hparams: Mapping[str, Any]) -> PlannedRun:
        # All are spelt out, for the same seed draws something else once a space is changed.
        own = replace(job, hparams_seed=config, overrides=json.dumps(hparams, sort_keys=True))
        # Tables are made from one kind of device, and from one configuration of each number.
        place = torch.device(self.device).type
        out = self.folder / (place if part == PHASE_2 else f"{place}{RANKS_OF}")
        return PlannedRun(part, Assignment((own,), out, device=self.device))


def conduct(
    plan: ExperimentPlan, phase1: PhaseOne, watch: Stopwatch, tell: Callable[[str], None]
) -> Reproduction:
    """Finish the runs of ``plan``, and write tables, figures and timings.

    Nobody else may be at work in the folder.
    """
    phase1.remove_unfinished()
    runs = {job: plan.runs(job) for job in plan.jobs(phase1)}
    _perform(runs, phase1, plan.family, watch, tell)
    with watch.part(REPORT):
        tell("writing tables and figures")
        found = [(run, run.read()) for job in runs for run in runs[job]]
        games = [record for run, record in found if run.part == PHASE_2]
        records = _of_algorithm(games, CRO)
        selection = training_domain_validation(records)
        baselines = {
            plan.baseline_label(head): training_domain_validation(_of_algorithm(games, head))
            for head in ((ERM, REFITTED) if plan.benchmark.compares_erm else ())
        }
        ours = baselines | {plan.label: selection}
        files = write_tables(plan.folder, ours, benchmark=plan.benchmark)
        curves = rank_curves(record for run, record in found if run.part == RANK_SWEEP)
        files += _draw(plan.folder, plan.benchmark, records, {plan.label: curves})
    seconds = watch.seconds()
    timings = plan.folder / "timings.json"
    write_text(timings, dumps({"seconds": seconds} | _machine(plan.device)))
    document = plan.folder / "reproduction.json"
    files += [timings, document]
    result = Reproduction(plan.label, selection, records, seconds, files, plan.benchmark, baselines)
    write_text(document, dumps(reproduction_document(result, curves, phase1.data)))
    return result


def rank_curves(records: Iterable[Mapping[str, Any]]) -> dict[int, list[tuple[int, float]]]:
    """Return pairs of a transplant dimension and the error rate, by held-out environment."""
    curves: dict[int, list[tuple[int, float]]] = {}
    for record in records:
        (env,) = record["args"]["test_envs"]
        point = record["hparams"]["cro_rank"], 1 - record[f"env{env}_in_acc"]
        curves.setdefault(env, []).append(point)
    return curves


def _of_algorithm(records: Iterable[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [record for record in records if record["args"]["algorithm"] == name]


def _perform(
    runs: Mapping[Job, Sequence[PlannedRun]],
    phase1: PhaseOne,
    family: Family,
    watch: Stopwatch,
    tell: Callable[[str], None],
) -> None:
    """Finish those of the jobs' ``runs`` that are not done."""
    missing = {job: [run for run in runs[job] if not run.folder.is_done] for job in runs}
    pending = [job for job in runs if missing[job]]
    with watch.part(PHASE_1):
        checkpoints = phase1.checkpoints(pending, tell)
    features = {}
    countdown = Countdown("features", len(pending))
    for job in pending:
        with watch.part(FEATURES):
            features[job] = phase1.features(job, checkpoints[job], family)
        tell(countdown.next())

    total, left = (sum(map(len, lists.values())) for lists in (runs, missing))
    countdown = Countdown("Phase 2, runs", total, done=total - left)
    for job in pending:
        dataset = features.pop(job)  # what its runs share is forgotten after them
        for run in missing[job]:
            with watch.part(run.part):
                (outcome,) = perform(run.assignment, dataset=dataset)
            if outcome.state != "done":
                raise ValueError(f"{outcome.job.label}: {outcome.message}")
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
def own_folder(out: Path, data: str, preset: Preset | Recipe) -> Iterator[None]:
    """Keep other processes out of the folder ``out``, which is made, and other data or presets.

    ``data`` is the fingerprint of the data.
    """
    with claim(out) as is_ours:
        if not is_ours:
            raise ValueError(
                f"{out} is in use by another process: wait for it or choose another folder with "
                "--out."
            )
        _write_settings(out, data, preset.name, asdict(preset))
        yield


def _write_settings(out: Path, data: str, preset: str, settings: Mapping[str, Any]) -> None:
    """Write down what the runs in the folder ``out`` are made from, or refuse to mix them."""
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
