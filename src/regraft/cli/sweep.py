"""``regraft sweep``: every run of the protocol, and the table that they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command, ensure_torch
from regraft.cli.live import LiveSweep
from regraft.cli.names import ALGORITHMS, ENGINES
from regraft.cli.option_groups import RunSettings
from regraft.cli.options import (
    FIRST_TRIAL,
    Address,
    CheckpointFreq,
    DataFolder,
    Dataset,
    Folder,
    Hparams,
    Plugins,
    Steps,
    choice,
    environments,
    one_of,
    words,
)
from regraft.cli.session import Session
from regraft.cli.train import make_folder
from regraft.support.plurals import count

if TYPE_CHECKING:
    from regraft.bench.datasets import Dataset as OpenDataset
    from regraft.bench.protocol.jobs import Job
    from regraft.bench.protocol.launch import Tally
    from regraft.support.table import Table

_RULE = "training-domain"
_MOST_FAILURES = 10  # that are listed one by one


@command(resumes=True, loading=None)
def sweep(
    session: Session,
    datasets: Dataset = "ColoredMNIST",
    algorithms: Annotated[
        str | None, choice("Names, separated by commas. Default: all.", *ALGORITHMS)
    ] = None,
    plugins: Plugins = None,
    n_hparams: Annotated[
        int, typer.Option(help="Configurations, counted from the default one on.")
    ] = 20,
    n_hparams_from: Annotated[
        int, typer.Option(help="How many of these to leave out, from the default one on.")
    ] = 0,
    n_trials: Annotated[int, typer.Option(help="Repetitions of everything.")] = 3,
    seed: Annotated[int, typer.Option("--seed", "--trial-seed", help=FIRST_TRIAL)] = 0,
    test_envs: Annotated[
        str | None, typer.Option(help="Domains to hold out in turn: 0,2. Default: all.")
    ] = None,
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs",
            help="Also hold out every two, which leave-one-domain-out validation needs.",
        ),
    ] = False,
    hparams: Hparams = "{}",
    steps: Steps = None,
    checkpoint_freq: CheckpointFreq = None,
    *,
    settings: RunSettings,
    data: DataFolder = None,
    out: Annotated[Path, Folder] = Path("regraft-sweep"),
    keep_models: Annotated[
        bool, typer.Option("--keep-models", help="Keep each run's trained model.")
    ] = False,
    engine: Annotated[str, choice(f"{one_of(*ENGINES)}.", *ENGINES)] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Processes at once. Default: one a core, or one a GPU.")
    ] = None,
    together: Annotated[
        int | None,
        typer.Option(
            help="Runs side by side in a process. Default: 20 on a GPU, of image folders 1."
        ),
    ] = None,
    address: Address = None,
    gpus_per_worker: Annotated[
        float | None, typer.Option(help="Share of a GPU for each process (ray; slurm rounds up).")
    ] = None,
    slurm_partition: Annotated[str | None, typer.Option(help="Partition to submit to.")] = None,
    slurm_time: Annotated[int | None, typer.Option(help="Minutes a job may take.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs and what is done of them, no more.")
    ] = False,
) -> None:
    """Run DomainBed's protocol: every algorithm, configuration and held-out domain.

    Stopped at any moment, it goes on from there when the same command is run again, here or by
    several launchers at once.
    """
    from regraft.bench.protocol.settings import read_hparams

    held_out = None if test_envs is None else environments(test_envs)
    read_hparams(hparams)
    counts = {"n_trials": n_trials, "n_hparams": n_hparams}
    _check_counts(**counts, together=together)
    lengths = {"steps": steps, "checkpoint_freq": checkpoint_freq}
    settings.check(**lengths, seed=seed, n_hparams_from=n_hparams_from)
    if n_hparams_from >= n_hparams:
        raise ValueError(
            f"n_hparams_from leaves out {n_hparams_from} of the {n_hparams} configurations that "
            "n_hparams asks for: pass a smaller one, or ask for more."
        )
    ensure_torch(session)
    from regraft.bench.datasets import open_dataset
    from regraft.bench.engines import EngineOptions, make_engine
    from regraft.bench.plugins import load_plugins
    from regraft.bench.protocol.jobs import warn_of_short_runs
    from regraft.bench.protocol.launch import check_folder, launch
    from regraft.core.domains import check_device

    if engine == "local" or (engine == "ray" and address is None):
        check_device(settings.device)
    files = [Path(name) for name in words(plugins)]
    load_plugins(files)
    with session.working("looking at the data"):
        opened = [open_dataset(name, data) for name in dict.fromkeys(words(datasets))]
        for dataset in opened:
            dataset.check()
        jobs = _make_jobs(
            opened,
            words(algorithms),
            hparams,
            test_envs=held_out,
            pairs=pairs,
            first_trial=seed,
            **counts,
            n_hparams_from=n_hparams_from,
            **lengths,
            **settings.of_jobs(),
        )
        check_folder(out, jobs)
    options = EngineOptions(
        out, settings.device, workers, address, gpus_per_worker, slurm_partition, slurm_time
    )
    chosen_engine = None if dry_run else make_engine(engine, options)
    warn_of_short_runs(jobs, opened)
    if chosen_engine is None:
        _list(session, jobs, out)
        return
    make_folder(out)
    with LiveSweep(session, lambda: _table_so_far(out)).showing() as tell:
        tally = launch(
            jobs,
            out=out,
            engine=chosen_engine,
            data=data,
            device=settings.device,
            together=together or _together(opened),
            keep_models=keep_models,
            weights=settings.weights,
            plugins=files,
            on_change=tell,
        )
    _show(session, tally, out, [data, *files])


def _list(session: Session, jobs: Sequence[Job], out: Path) -> None:
    """Print what would be run, what is done already, and how long the rest takes if known.

    Nothing is written.
    """
    from regraft.bench.protocol.run_folder import RunFolder
    from regraft.bench.protocol.run_times import estimate_seconds
    from regraft.support.progress import duration

    rows = [(job, RunFolder(out / job.id, job.id).is_done) for job in jobs]
    n_done = sum(is_done for _, is_done in rows)
    session.say(
        *(f"{'done' if is_done else 'to do'}: {job.label}" for job, is_done in rows),
        f"{count(len(rows), 'runs')}, of which {n_done} {'is' if n_done == 1 else 'are'} done.",
    )
    seconds, unknown = estimate_seconds(jobs, out)
    if seconds:
        besides = f", without {unknown} of which nothing is known yet" if unknown else ""
        session.say(f"The rest takes {duration(seconds)}, one after another{besides}.")
    runs = [{"run": job.label, "folder": job.id, "done": is_done} for job, is_done in rows]
    document = {"runs": runs, "seconds_left": seconds or None, "unknown": unknown}
    session.write_to(None)  # nothing was done that a folder could tell of
    session.finish(document, [])


def _make_jobs(
    datasets: Sequence[OpenDataset],
    algorithms: Sequence[str],
    hparams: str,
    *,
    test_envs: Sequence[int] | None,
    **settings: Any,
) -> list[Job]:
    """List the runs of ``algorithms``, all if none is named; ``ValueError`` with one sentence."""
    from regraft.bench.algorithms import algorithms as all_algorithms
    from regraft.bench.algorithms import find_algorithm
    from regraft.bench.protocol.jobs import (
        check_test_envs,
        parse_overrides,
        sweep_jobs,
    )

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


def _together(datasets: Sequence[OpenDataset]) -> int | None:
    """Limit how many runs are side by side: of large networks one, else the launcher's default."""
    return 1 if any(dataset.group == "images" for dataset in datasets) else None


def _check_counts(**counts: int | None) -> None:
    for name, number in counts.items():
        if number is not None and number < 1:
            raise ValueError(f"{name} is {number}: pass at least 1.")


def _table_so_far(out: Path) -> Table | None:
    """Make the table of averages, or of one dataset; None while there are no numbers."""
    from regraft.bench.protocol.collection import collect
    from regraft.bench.protocol.collection_tables import tables

    try:
        collection = collect(out, (_RULE,))
    except (OSError, ValueError):  # no record yet; the end of the sweep tells of other troubles
        return None
    found = tables(collection)
    return next(iter(found if len(collection.environments) == 1 else found[::-1]), None)


def _show(session: Session, tally: Tally, out: Path, read: Sequence[Path | None]) -> None:
    """Print the failures and the table; raises ``ValueError`` if there are failures."""
    from regraft.bench.protocol.collection import collect, warn_of_damage
    from regraft.bench.protocol.collection_tables import describe_numbers, remarks, tables
    from regraft.bench.protocol.run_folder import ERROR

    for outcome in tally.failed[:_MOST_FAILURES]:
        session.note(f"failed: {outcome.job.label} ({out / outcome.job.id}): {outcome.message}")
    if len(tally.failed) > _MOST_FAILURES:
        session.note(f"and {len(tally.failed) - _MOST_FAILURES} more")
    document: dict[str, Any] = {"sweep": tally.to_dict(out)}
    if tally.done:
        collection = collect(out, (_RULE,))
        warn_of_damage(out, collection.damaged)
        session.tables(tables(collection), f"{describe_numbers(collection)}, ")
        for remark in remarks(collection):
            session.note(remark)
        document |= collection.to_dict()
    session.finish(document, [], read=read)
    if tally.failed:
        raise ValueError(
            f"{len(tally.failed)} of {tally.total} runs failed: see {ERROR} in their folders, then "
            "run the same command again."
        )
