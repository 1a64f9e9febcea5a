"""``regraft sweep``: from names to jobs and an engine, and the table that they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regraft.bench.algorithms import algorithms as all_algorithms
from regraft.bench.algorithms import find_algorithm
from regraft.bench.datasets import Dataset, open_dataset
from regraft.bench.datasets.colours import HOLDOUT
from regraft.bench.engines import EngineOptions, make_engine
from regraft.bench.protocol.collection import collect
from regraft.bench.protocol.collection_tables import tables
from regraft.bench.protocol.jobs import Job, check_test_envs, parse_overrides, sweep_jobs
from regraft.bench.protocol.launch import Tally, check_folder, launch
from regraft.bench.protocol.run_folder import ERROR
from regraft.cli.console import Screen
from regraft.cli.live import LiveSweep
from regraft.cli.session import Run
from regraft.cli.train import check_seed, check_settings, make_folder
from regraft.core.domains import check_device
from regraft.support.table import Table

_RULE = "training-domain"
_MOST_FAILURES = 10  # that are told one by one


def run_sweep(
    screen: Screen,
    run: Run,
    datasets: Sequence[str],
    algorithms: Sequence[str],
    *,
    out: Path,
    data: Path | None = None,
    n_trials: int = 3,
    seed: int = 0,
    n_hparams: int = 20,
    pairs: bool = False,
    test_envs: Sequence[int] | None = None,
    steps: int | None = None,
    hparams: str = "{}",
    holdout_fraction: float = HOLDOUT,
    compat: bool = False,
    keep_models: bool = False,
    device: str = "cpu",
    together: int | None = None,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    gpus_per_worker: float | None = None,
    slurm_partition: str | None = None,
    slurm_time: int | None = None,
) -> None:
    """Do what is not done yet of a sweep in the folder ``out``, and show the table.

    ``algorithms`` are all if none is named; ``seed`` numbers the first of the trials. Raises
    ``ValueError`` with one sentence if an argument is wrong, and at the end if some runs failed.
    """
    _check_counts(n_trials=n_trials, n_hparams=n_hparams, together=together)
    check_settings(steps=steps, holdout_fraction=holdout_fraction)
    check_seed(seed=seed)
    if engine == "local" or (engine == "ray" and address is None):
        check_device(device)
    with screen.working("looking at the data"):
        opened = [open_dataset(name, data) for name in dict.fromkeys(datasets)]
        for dataset in opened:
            dataset.check()
        jobs = _jobs(
            opened,
            algorithms,
            hparams,
            n_trials=n_trials,
            first_trial=seed,
            n_hparams=n_hparams,
            pairs=pairs,
            test_envs=test_envs,
            steps=steps,
            holdout_fraction=holdout_fraction,
            compat=compat,
        )
        check_folder(out, jobs)
    options = EngineOptions(
        out, device, workers, address, gpus_per_worker, slurm_partition, slurm_time
    )
    chosen_engine = make_engine(engine, options)
    make_folder(out)
    with LiveSweep(screen, lambda: _table_so_far(out)).showing() as tell:
        tally = launch(
            jobs,
            out=out,
            engine=chosen_engine,
            data=data,
            device=device,
            together=together or _together(opened),
            keep_models=keep_models,
            on_change=tell,
        )
    _show(screen, run, tally, out)


def _jobs(
    datasets: Sequence[Dataset],
    algorithms: Sequence[str],
    hparams: str,
    *,
    test_envs: Sequence[int] | None,
    **settings: Any,
) -> list[Job]:
    chosen = list(dict.fromkeys(algorithms)) or list(all_algorithms())
    for name in chosen:
        find_algorithm(name)
    for dataset in datasets:
        for env in test_envs or ():
            check_test_envs([env], dataset)
    overrides = parse_overrides(hparams, datasets, chosen)
    jobs = sweep_jobs(datasets, chosen, test_envs=test_envs, overrides=overrides, **settings)
    if not jobs:
        raise ValueError("there is nothing to run: name a dataset and algorithms that suit it.")
    return jobs


def _together(datasets: Sequence[Dataset]) -> int | None:
    """How many runs may be side by side by default: of large networks one, else the launcher's."""
    return 1 if any(dataset.group == "images" for dataset in datasets) else None


def _check_counts(**counts: int | None) -> None:
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ValueError(f"{name} is {count}: pass at least 1.")


def _table_so_far(out: Path) -> Table | None:
    """The averages of several datasets or the table of one, None while there are no numbers."""
    try:
        found = tables(collect(out, (_RULE,)))
    except (OSError, ValueError):  # no record yet; the end of the sweep tells of other troubles
        return None
    return found[-1] if found else None


def _show(screen: Screen, run: Run, tally: Tally, out: Path) -> None:
    """The failures, the table and, if there are failures, the error."""
    for outcome in tally.failed[:_MOST_FAILURES]:
        screen.note(f"failed: {outcome.job.label} ({out / outcome.job.id}): {outcome.message}")
    if len(tally.failed) > _MOST_FAILURES:
        screen.note(f"and {len(tally.failed) - _MOST_FAILURES} more")
    document: dict[str, Any] = {"sweep": _to_dict(tally, out)}
    if tally.done:
        collection = collect(out, (_RULE,))
        for table in tables(collection):
            screen.say(f"Test accuracy (%), {table.title}")
            screen.table(table.columns, table.rows)
        document |= collection.to_dict()
    run.finish(screen, document, [])
    if tally.failed:
        raise ValueError(
            f"{len(tally.failed)} of {tally.total} runs failed: see {ERROR} in their folders, then "
            "run the same command again."
        )


def _to_dict(tally: Tally, out: Path) -> dict[str, Any]:
    return {
        "total": tally.total,
        "done": tally.done,
        "done_before": tally.done_before,
        "failed": [
            {
                "run": outcome.job.label,
                "folder": str(out / outcome.job.id),
                "message": outcome.message,
            }
            for outcome in tally.failed
        ],
        "seconds": round(tally.seconds, 2),
    }
