"""What the paper's experiments share: from Phase 1 to records, tables, figures and timings."""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from regraft._version import __version__
from regraft.bench.algorithms.games import GameFamily, default_surrogate, game_space
from regraft.bench.engines.local import WorkerPool
from regraft.bench.paper.benchmark import COLORED_MNIST, Benchmark
from regraft.bench.paper.figures import RankCurves, group_runs, sweep_figures
from regraft.bench.paper.fine_tuning import Recipe
from regraft.bench.paper.phase1 import PhaseOne
from regraft.bench.paper.phase2 import PlannedRun, choose_players, play_runs, start_players
from regraft.bench.paper.pretraining import Preset
from regraft.bench.paper.report import accuracy_table, write_tables
from regraft.bench.paper.trained_features import CRO, ERM, REFITTED, KeptFeatures
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.results import last_record
from regraft.bench.protocol.selection import RULES, Selection
from regraft.bench.protocol.spaces import draw_configuration
from regraft.bench.protocol.worker import Assignment
from regraft.core.domains import check_device
from regraft.core.surrogates import SurrogateKind, check_surrogate
from regraft.support.extras import MissingExtra
from regraft.support.files import own, write_text
from regraft.support.json_files import dumps, load_json
from regraft.support.pictures import write_figure
from regraft.support.progress import Countdown, OnProgress, Stopwatch
from regraft.support.reading import read_file

PARTS = DATA, PHASE_1, FEATURES, PHASE_2, REPORT = (
    "data",
    "Phase 1",
    "features",
    "Phase 2",
    "tables and figures",
)
RANK_SWEEP = "rank sweep"  # part of Phase 2, in a folder of its own
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

    def document(self, curves: RankCurves, data: str) -> dict[str, Any]:
        """Return the numbers for the report, those of the figures by the held-out domain.

        ``data`` is the fingerprint of what it was made from. Checkpoints are [share of the game,
        source risk, target risk], of ``curves`` [rank, risk].
        """
        names = self.benchmark.environments
        runs = {names[env]: group for env, group in group_runs(self.records).items()}
        return self.to_dict() | {
            "benchmark": self.benchmark.title,
            "data": data,
            "tables": [accuracy_table(self.selections, self.benchmark).to_dict()],
            "checkpoints": {
                name: [point for run in group for point in _risks_by_share(run["checkpoints"])]
                for name, group in runs.items()
            },
            "rounds": {name: [run["rounds"] for run in group] for name, group in runs.items()},
            "ranks": {names[env]: list(map(list, curve)) for env, curve in curves.items()},
        }

    @property
    def selections(self) -> dict[str, Selection]:
        """The rows of the tables by their labels, the baselines first."""
        return self.baselines | {self.label: self.selection}

    def _numbers(self, selection: Selection) -> dict[str, Any]:
        names = self.benchmark.environments
        cells = {names[env]: asdict(cell) for env, cell in selection.cells.items()}
        return {"cells": cells, "average": selection.average}


def _risks_by_share(checkpoints: Sequence[Mapping[str, Any]]) -> Iterator[list[float]]:
    last = max(point["step"] for point in checkpoints)
    for point in checkpoints:
        yield [point["step"] / last if last else 0, point["source_risk"], point["target_risk"]]


@dataclass(frozen=True)
class ExperimentPlan:
    """What of a benchmark is run and where; all its files are in the folder ``out``."""

    benchmark: Benchmark
    preset: str  # how Phase 1 trains
    out: Path
    cells: Sequence[int] | None = None  # held out in turn; None for all
    trials: int = 3
    configs: int = 20
    family: GameFamily = "hull"
    surrogate: SurrogateKind | None = None  # None for the family's usual
    device: str = "cpu"
    seed: int = 0  # number of the first trial

    def check(self) -> None:
        """Raise ``ValueError`` with one sentence if the benchmark cannot be run so."""
        known = range(len(self.benchmark.environments))
        if self.cells is not None and not (self.cells and set(self.cells) <= set(known)):
            *first, last = map(str, known)
            some = f"{', '.join(first)} and {last}"
            raise ValueError(f"cells are {list(self.cells)}: pass some of {some}.")
        for name, value in (("trials", self.trials), ("configs", self.configs)):
            if value < 1:
                raise ValueError(f"{name} is {value}: pass at least 1.")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}: pass 0 or more.")
        families = get_args(GameFamily)
        if self.family not in families:
            raise ValueError(
                f"family (--family) is {self.family!r}: choose {' or '.join(families)}."
            )
        if self.surrogate is not None:
            check_surrogate(self.surrogate)
            if self.family == "latent" and self.surrogate != "reweighted":
                raise ValueError(
                    f"surrogate is {self.surrogate!r}, and the latent family has reweighted rows "
                    "only: leave it out, or choose another family."
                )
        check_device(self.device)

    @property
    def reading(self) -> SurrogateKind:
        """What the learner sees of the adversary's domains."""
        return self.surrogate or default_surrogate(self.family)

    @property
    def folder(self) -> Path:
        """The folder of the runs with this preset, family and surrogate, in ``out``."""
        return self.out / f"{self.preset}-{self.family}-{self.reading}"

    @property
    def label(self) -> str:
        """Our row in the tables."""
        is_usual = self.family != "free" and self.reading == "reweighted"
        return self.label_of(f"CRO, {self.family}" + ("" if is_usual else f", {self.reading}"))

    def label_of(self, head: str) -> str:
        """Return the row of a head that the runs find."""
        return f"{head} (regraft, preset {self.preset})"

    @property
    def baselines(self) -> tuple[str, ...]:
        """The heads that no game has refined, where the benchmark compares them."""
        return (ERM, REFITTED) if self.benchmark.compares_erm else ()

    def jobs(self, phase1: PhaseOne) -> list[Job]:
        """Return those of Phase 1: every held-out environment in every trial."""
        trials = range(self.seed, self.seed + self.trials)
        every = range(len(self.benchmark.environments))
        envs = every if self.cells is None else sorted(set(self.cells))
        return [phase1.job(env, trial) for env in envs for trial in trials]

    def runs(self, job: Job) -> list[PlannedRun]:
        """Return the runs on the features of ``job``.

        They are the default configuration and random ones; where the benchmark has them, ERM's
        come first, and in the first trial the ranks last.
        """
        benchmark = self.benchmark
        space = game_space(self.family, self.reading, benchmark.n_classes, benchmark.name)
        # A prior shift has no transplant dimension to vary.
        sweeps = benchmark.sweeps_ranks and self.family != "latent"
        ranks = RANKS if sweeps and job.trial_seed == self.seed else ()
        draws = [draw_configuration(space, i, job.trial_seed) for i in range(self.configs)]
        return [
            *(self._run(PHASE_2, replace(job, algorithm=head), 0, {}) for head in self.baselines),
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
    plan: ExperimentPlan, phase1: PhaseOne, watch: Stopwatch, on_progress: OnProgress
) -> Reproduction:
    """Finish the runs of ``plan``, alone in its folder, and write tables, figures and timings."""
    phase1.remove_unfinished()
    runs = {job: plan.runs(job) for job in plan.jobs(phase1)}
    _perform(runs, phase1, plan, watch, on_progress)
    with watch.part(REPORT):
        on_progress("writing tables and figures")
        found = []
        for run in chain(*runs.values()):
            found.append((run, last_record(run.folder)))
        games = [record for run, record in found if run.part == PHASE_2]
        records = _of_algorithm(games, CRO)
        select = RULES["training-domain"].select
        selection = select(records)
        baselines = {
            plan.label_of(head): select(_of_algorithm(games, head)) for head in plan.baselines
        }
        files = write_tables(plan.folder, baselines | {plan.label: selection}, plan.benchmark)
        curves = rank_curves(record for run, record in found if run.part == RANK_SWEEP)
        files += _draw(plan.folder, plan.benchmark, records, {plan.label: curves})
    seconds = watch.seconds()
    timings = plan.folder / "timings.json"
    write_text(timings, dumps({"seconds": seconds} | _machine(plan.device)))
    document = plan.folder / "reproduction.json"
    files += [timings, document]
    result = Reproduction(plan.label, selection, records, seconds, files, plan.benchmark, baselines)
    write_text(document, dumps(result.document(curves, phase1.data)))
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
    plan: ExperimentPlan,
    watch: Stopwatch,
    on_progress: OnProgress,
) -> None:
    """Finish those of the jobs' ``runs`` that are not done."""
    missing = {job: [run for run in runs[job] if not run.folder.is_done] for job in runs}
    total, left = (sum(map(len, lists.values())) for lists in (runs, missing))
    pending = [job for job in runs if missing[job]]
    if not pending:
        return
    with closing(WorkerPool(torch.device("cpu"))) as pool:
        if phase1.trainer.is_parallel:
            start_players(plan.family, plan.device, total, left, pool)
        features = _make_features(pending, phase1, plan.family, watch, on_progress)
        countdown = Countdown("Phase 2, runs", total, done=total - left)
        size = features[pending[0]].open().size
        # By all games, so that those of a run that was stopped are played where it would have.
        players = choose_players(plan.family, plan.device, total, size)
        asked = {features[job]: missing[job] for job in pending}
        with watch.part(PHASE_2), closing(play_runs(asked, players, pool)) as outcomes:
            for outcome in outcomes:
                if outcome.state != "done":
                    raise ValueError(f"{outcome.job.label}: {outcome.message}")
                on_progress(countdown.next())


def _make_features(
    jobs: Sequence[Job],
    phase1: PhaseOne,
    family: GameFamily,
    watch: Stopwatch,
    on_progress: OnProgress,
) -> dict[Job, KeptFeatures]:
    """Train what the ``jobs`` of Phase 1 lack, and return the features of each."""
    with watch.part(PHASE_1):
        checkpoints = phase1.checkpoints(jobs, on_progress)
    features = {}
    countdown = Countdown("features", len(jobs))
    for job in jobs:
        with watch.part(FEATURES):
            features[job] = phase1.features(job, checkpoints[job], family)
        on_progress(countdown.next())
    return features


@contextmanager
def own_folder(out: Path, data: str, preset: Preset | Recipe) -> Iterator[None]:
    """Make ``out``, and keep other processes, other ``data`` (by fingerprint) and presets out."""
    refusal = (
        f"{out} is in use by another process: wait for it or choose another folder with --out."
    )
    with own(out, refusal):
        _write_settings(out, data, preset)
        yield


def _write_settings(out: Path, data: str, preset: Preset | Recipe) -> None:
    """Write down what the runs in the folder ``out`` are made from, or refuse to mix them."""
    path, name = out / "settings.json", preset.name
    document: dict[str, Any] = {"data": data, "presets": {}}
    if path.exists():
        try:
            document = load_json(read_file(path))
            kept_data, kept = document["data"], document["presets"].get(name)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError(f"{path} is damaged: choose another folder with --out.") from None
        if kept_data != data:
            raise ValueError(f"{out} holds runs on other images: choose another folder with --out.")
        if kept == asdict(preset):
            return
        if kept is not None:
            raise ValueError(
                f"{out} holds runs with another preset {name!r}: choose another folder with --out."
            )
    document["presets"][name] = asdict(preset)
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
