"""``regraft train``: one run of the protocol, told line by line."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from regraft.bench.datasets import open_dataset
from regraft.bench.protocol.jobs import Job, check_test_envs, parse_overrides
from regraft.bench.protocol.run_folder import ERROR
from regraft.bench.protocol.training import Record
from regraft.bench.protocol.worker import Assignment, perform
from regraft.cli.console import Screen
from regraft.cli.session import Run
from regraft.core.domains import check_device
from regraft.support.table import percent


def run_train(
    screen: Screen,
    run: Run,
    dataset: str,
    algorithm: str,
    *,
    test_envs: Sequence[int],
    hparams_seed: int,
    trial_seed: int,
    hparams: str,
    steps: int | None,
    holdout_fraction: float,
    compat: bool,
    device: str,
    data: Path | None,
    out: Path,
    keep_model: bool,
) -> None:
    """Do one run, or what is left of it, in a folder of its own in ``out``, and show its end.

    Raises ``ValueError`` with one sentence if an argument is wrong or if the run fails.
    """
    check_device(device)
    check_settings(steps=steps, holdout_fraction=holdout_fraction)
    check_seed(hparams_seed=hparams_seed, trial_seed=trial_seed)
    opened = open_dataset(dataset, data)
    overrides = parse_overrides(hparams, [opened], [algorithm])
    job = Job(
        opened.name,
        algorithm,
        check_test_envs(test_envs, opened),
        trial_seed,
        hparams_seed,
        steps,
        holdout_fraction,
        overrides,
        compat,
        opened.fingerprint,
    )
    opened.check()
    make_folder(out)
    assignment = Assignment((job,), out, data, device, keep_model=keep_model)
    folder = assignment.folder(job)
    with screen.working(job.label) as step:
        (outcome,) = perform(
            assignment, lambda _, record: step(_line(record, len(opened.env_names)))
        )
    if outcome.state == "held":
        raise ValueError(f"{folder.path} is in use by another process: wait for it.")
    if outcome.state == "failed":
        raise ValueError(f"the run failed ({outcome.message}): see {folder.path / ERROR}.")
    if keep_model and not folder.has_model:
        warnings.warn(
            "the run was made before without keeping its model: for that, change --out.",
            stacklevel=2,
        )
    record = folder.records()[-1]
    rows = [
        (name, "held out" if i in job.test_envs else "trained on", *_shares(record, i))
        for i, name in enumerate(opened.env_names)
    ]
    screen.say(f"{job.label}: accuracy after step {record['step']}")
    screen.table(("domain", "", "training part", "validation part"), rows)
    files = sorted(path for path in folder.path.iterdir() if path.name[0] != ".")
    run.finish(screen, record, files)


def make_folder(out: Path) -> None:
    """Make the folder ``out``, or raise ``ValueError`` with one sentence."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"{out} cannot be made ({error.strerror}): choose another folder with --out."
        ) from None


def check_settings(*, steps: int | None, holdout_fraction: float) -> None:
    """Raise ``ValueError`` with one sentence if a run cannot have these."""
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}: pass at least 1.")
    if not 0 < holdout_fraction < 1:
        raise ValueError(f"holdout_fraction is {holdout_fraction}: pass a share between 0 and 1.")


def check_seed(**seeds: int) -> None:
    """Raise ``ValueError`` with one sentence if one of the ``seeds`` is below 0."""
    for name, seed in seeds.items():
        if seed < 0:
            raise ValueError(f"{name} is {seed}: pass 0 or more.")


def _line(record: Record, n_envs: int) -> str:
    shares = ", ".join(f"{_shares(record, env)[0]}" for env in range(n_envs))
    loss = f", loss {record['loss']:.3f}" if "loss" in record else ""
    return f"step {record['step']}: accuracy by domain {shares}{loss}"


def _shares(record: Record, env: int) -> tuple[str, str]:
    first, second = (percent(record[f"env{env}_{part}_acc"]) for part in ("in", "out"))
    return first, second
