"""``regraft train``: one run of the protocol, line by line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli import options
from regraft.cli.command import command, ensure_torch
from regraft.cli.names import ALGORITHMS
from regraft.cli.option_groups import RunSettings
from regraft.cli.options import Folder, Hparams, choice, one_of
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.bench.protocol.training import Record


@command(resumes=True, loading=None)
def train(
    session: Session,
    dataset: options.Dataset = "ColoredMNIST",
    data: options.DataFolder = None,
    algorithm: Annotated[str, choice(f"{one_of(*ALGORITHMS)}.", *ALGORITHMS)] = "ERM",
    plugins: options.Plugins = None,
    test_envs: Annotated[str, typer.Option(help="Held-out domains by number: 0 or 0,1.")] = "0",
    steps: options.Steps = None,
    checkpoint_freq: options.CheckpointFreq = None,
    hparams_seed: Annotated[int, typer.Option(help="0 for the default configuration.")] = 0,
    trial_seed: Annotated[int, typer.Option(help="Number of the trial.")] = 0,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Of weights, minibatches, colours. Default: as in sweeps, a hash of dataset, "
            "algorithm, domains held out, configuration and trial."
        ),
    ] = None,
    hparams: Hparams = "{}",
    *,
    settings: RunSettings,
    out: Annotated[Path, Folder] = Path("regraft-train"),
    skip_model_save: Annotated[
        bool, typer.Option("--skip-model-save", help="Keep the records only.")
    ] = False,
    save_model_every_checkpoint: Annotated[
        bool,
        typer.Option(
            "--save-model-every-checkpoint", help="Keep the model of every evaluation as well."
        ),
    ] = False,
) -> None:
    """Train one algorithm with some domains held out, by DomainBed's protocol.

    Stopped at any moment, it goes on from its last checkpoint, of which there is one a minute, when
    the same command is run again.
    """
    from regraft.bench.protocol.settings import read_hparams

    held_out = options.environments(test_envs)
    read_hparams(hparams)
    seeds = {"hparams_seed": hparams_seed, "trial_seed": trial_seed}
    lengths: dict[str, Any] = {"steps": steps, "checkpoint_freq": checkpoint_freq}
    settings.check(**lengths, **seeds)
    ensure_torch(session)
    from regraft.bench.datasets import open_dataset
    from regraft.bench.plugins import load_plugins
    from regraft.bench.protocol.jobs import (
        Job,
        check_test_envs,
        find_origin,
        parse_overrides,
        warn_of_short_runs,
    )
    from regraft.bench.protocol.launch import check_plugins
    from regraft.bench.protocol.results import last_record
    from regraft.bench.protocol.run_folder import ERROR
    from regraft.bench.protocol.worker import Assignment, perform
    from regraft.core.domains import check_device

    check_device(settings.device)
    files = tuple(Path(name) for name in options.words(plugins))
    load_plugins(files)
    opened = open_dataset(dataset, data)
    job = Job(
        opened.name,
        algorithm,
        check_test_envs(held_out, opened),
        trial_seed,
        hparams_seed,
        **lengths,
        overrides=parse_overrides(hparams, [opened], [algorithm]),
        fingerprint=opened.fingerprint,
        own_seed=seed,
        origin=find_origin(algorithm, opened),
        **settings.of_jobs(),
    )
    opened.check()
    warn_of_short_runs([job], [opened])
    check_plugins(out, [job])
    make_folder(out)
    keep_every = save_model_every_checkpoint and not skip_model_save  # as in DomainBed
    assignment = Assignment(
        (job,),
        out,
        data,
        settings.device,
        keep_model=not skip_model_save,
        keep_every=keep_every,
        weights=settings.weights,
        plugins=files,
    )
    folder = assignment.folder(job)
    with session.working(job.label) as step:
        (outcome,) = perform(
            assignment, lambda _, record: step(_line(record, len(opened.env_names)))
        )
    if outcome.state == "held":
        raise ValueError(f"{folder.path} is in use by another process: wait for it.")
    if outcome.state == "failed":
        reason = outcome.message.rstrip(".")
        raise ValueError(f"the run failed ({reason}): see {folder.path / ERROR}.")
    if not skip_model_save and not folder.has_model:
        warnings.warn(
            "the run was made before without keeping its model: for that, change --out.",
            stacklevel=2,
        )
    record = last_record(folder)
    parts = {"in": "training part", "out": "validation part", "uda": "unlabelled part"}
    if not any(f"env{env}_uda_acc" in record for env in job.test_envs):
        del parts["uda"]
    rows = [
        (name, "held out" if i in job.test_envs else "trained on", *_shares(record, i, *parts))
        for i, name in enumerate(opened.env_names)
    ]
    session.say(f"{job.label}: accuracy {_name_network(record)}")
    session.table(("domain", "", *parts.values()), rows)
    written = sorted(path for path in folder.path.iterdir() if path.name[0] != ".")
    session.finish(record, written, read=[data, *files])


def make_folder(out: Path) -> None:
    """Make the folder ``out``, or raise ``ValueError`` with one sentence."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"{out} cannot be made ({error.strerror}): choose another folder with --out."
        ) from None


def _line(record: Record, n_envs: int) -> str:
    shares = ", ".join(_shares(record, env, "in")[0] for env in range(n_envs))
    loss = f", loss {record['loss']:.3f}" if "loss" in record else ""
    return f"step {record['step']}: accuracy by domain {shares}{loss}"


def _shares(record: Record, env: int, *parts: str) -> list[str]:
    """Write the accuracy on parts of a domain: a dash for one that it does not have."""
    from regraft.support.table import percent

    names = [f"env{env}_{part}_acc" for part in parts]
    return [percent(record[name]) if name in record else "–" for name in names]


def _name_network(record: Record) -> str:
    """Say which network a record is of, and warn if SWAD found nothing to average."""
    if steps := record.get("swad_steps"):
        return f"where SWAD averaged steps {steps[0]} to {steps[1]}"
    if "swad_steps" in record:
        warnings.warn(
            f"SWAD averaged nothing, and this is the network after step {record['step']}: its "
            "average begins where the validation loss is the least of three evaluations in a row, "
            "so raise --steps or lower --checkpoint-freq.",
            stacklevel=2,
        )
    return f"after step {record['step']}"
