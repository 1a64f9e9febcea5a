"""What one run of the protocol is, told apart from all others by what it depends on."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from torch import Tensor

from regraft.bench.algorithms import find_algorithm
from regraft.bench.datasets import Dataset
from regraft.bench.protocol.seeds import job_seed, split, split_seed
from regraft.bench.protocol.settings import GENERALIZATION, HOLDOUT, UDA, read_hparams
from regraft.bench.protocol.spaces import Hparam, draw_configuration

# Raised by hand when the code changes what a run gives, so that runs of old code do not count.
FORMAT = 3
PLUGIN = "plugin"  # among the args of a run: the plugins that it depends on


@dataclass(frozen=True)
class Job:
    """One algorithm with one configuration on one dataset, with some environments held out."""

    dataset: str
    algorithm: str
    test_envs: tuple[int, ...]
    trial_seed: int = 0
    hparams_seed: int = 0  # 0 is the default configuration
    steps: int | None = None  # None for the dataset's
    holdout_fraction: float = HOLDOUT
    overrides: str = "{}"  # JSON of hyperparameters that replace those drawn
    compat: bool = False  # keep DomainBed's known faults
    fingerprint: str = ""  # of the data, where the dataset's name does not tell it
    per_domain: bool = False  # domains pass the network one by one, as always with compat
    own_seed: int | None = None  # None for the protocol's, which the fields above give
    checkpoint_freq: int | None = None  # steps between evaluations, None for the dataset's
    swad: bool = False  # the network is the mean of its weights over the flat part of training
    task: str = GENERALIZATION  # or ADAPTATION: algorithms see unlabelled rows of held-out domains
    uda_holdout_fraction: float = 0.0  # of the held-out domains' rows, for adaptation
    weights: str = ""  # checksum of the file that the featurizer starts from, if there is one
    origin: str = ""  # of plugins that it depends on, with versions or checksums

    @property
    def seed(self) -> int:
        """The seed of all that is drawn in the run, splits and hyperparameters aside."""
        if self.own_seed is not None:
            return self.own_seed
        return job_seed(
            self.dataset, self.algorithm, self.test_envs, self.hparams_seed, self.trial_seed
        )

    def split(self, env: int, n: int) -> tuple[Tensor, Tensor]:
        """Return the rows of environment ``env``, of ``n``, to train on, and those held out."""
        return split(n, split_seed(self.trial_seed, env), self.holdout_fraction)

    def split_off_unlabelled(self, env: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return those of the ``rows`` of a held-out environment to test on, and for adaptation."""
        seed = split_seed(self.trial_seed, env)
        kept, unlabelled = split(len(rows), seed, self.uda_holdout_fraction)
        return rows[kept], rows[unlabelled]

    @property
    def args(self) -> dict[str, Any]:
        """What tells the run from others, with DomainBed's names, in JSON's types; no paths."""
        return {
            "dataset": self.dataset,
            "algorithm": self.algorithm,
            "task": self.task,
            "test_envs": list(self.test_envs),
            "trial_seed": self.trial_seed,
            "hparams_seed": self.hparams_seed,
            "seed": self.seed,
            "steps": self.steps,
            "holdout_fraction": self.holdout_fraction,
            "hparams": self.overrides,
            "compat": self.compat,
            "per_domain_forward": self.per_domain or self.compat,
            "fingerprint": self.fingerprint,
            "format": FORMAT,
            **({"checkpoint_freq": self.checkpoint_freq} if self.checkpoint_freq else {}),
            **({"swad": True} if self.swad else {}),
            **({UDA: self.uda_holdout_fraction} if self.uda_holdout_fraction else {}),
            **({"weights": self.weights} if self.weights else {}),
            **({PLUGIN: self.origin} if self.origin else {}),
        }

    @property
    def id(self) -> str:
        """The name of the run's folder, the same on every machine."""
        text = json.dumps(self.args, sort_keys=True)
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

    @property
    def label(self) -> str:
        """The run in a few words."""
        envs = "+".join(map(str, self.test_envs))
        return (
            f"{self.algorithm} on {self.dataset}, test environment {envs}, trial "
            f"{self.trial_seed}, configuration {self.hparams_seed}"
        )

    def configuration(self, dataset: Dataset) -> dict[str, Any]:
        """Return the hyperparameters of the run."""
        entry = dataset.find_algorithm(self.algorithm)
        space = entry.space(dataset.group, dataset.own_space, dataset.name)
        drawn = draw_configuration(space, self.hparams_seed, self.trial_seed)
        overrides: dict[str, Any] = json.loads(self.overrides)
        return drawn | overrides


def find_origin(algorithm: str, dataset: Dataset) -> str:
    """Return the plugins that a run depends on, with versions or checksums; empty if on none."""
    origins = (dataset.find_algorithm(algorithm).origin, dataset.origin)
    return ", ".join(dict.fromkeys(filter(None, origins)))


def parse_overrides(text: str, datasets: Iterable[Dataset], algorithms: Iterable[str]) -> str:
    """Check ``text``, a JSON object of hyperparameters, and bring it into the form of a job."""
    values = read_hparams(text)
    groups = {dataset.group for dataset in datasets}
    entries = [find_algorithm(name) for name in algorithms]
    known: dict[str, Hparam] = {}
    for entry in entries:
        for group in groups:
            known |= entry.space(group)
    for name, value in values.items():
        if name not in known:
            raise ValueError(
                f"hparams name {name!r}, which nothing reads: choose from "
                f"{', '.join(sorted(known))}."
            )
        _check_kind(name, value, known[name].default)
    return json.dumps(values, sort_keys=True)


def _check_kind(name: str, value: Any, default: Any) -> None:
    """Refuse a value that is not of the kind of the ``default``."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(default, bool):
        fits, kind = isinstance(value, bool), "true or false"
    elif isinstance(default, int):
        least = 0 if name.endswith("_iters") else 1
        fits, kind = isinstance(value, int) and is_number and value >= least, "a whole number"
        kind += f" of {least} or more"
    elif isinstance(default, str):
        fits, kind = isinstance(value, str), f"a text such as {default!r}"
    else:  # None stands for a number that is found
        fits, kind = default is None and value is None, "a number of 0 or more"
        fits = fits or (is_number and 0 <= value < math.inf)
    if not fits:
        raise ValueError(f"hparams set {name} to {value!r}: pass {kind}.")


def sweep_jobs(
    datasets: Sequence[Dataset],
    algorithms: Sequence[str],
    *,
    n_trials: int = 3,
    first_trial: int = 0,
    n_hparams: int = 20,
    n_hparams_from: int = 0,
    pairs: bool = False,
    test_envs: Sequence[int] | None = None,
    **settings: Any,
) -> list[Job]:
    """List the runs that the protocol asks for, those of one trial after those of another.

    Every environment (or each of ``test_envs``) is held out in turn; with ``pairs`` also every
    two of which one is among these, which only leave-one-domain-out validation needs. Trials are
    numbered from ``first_trial``, configurations from ``n_hparams_from``. ``settings`` are further
    fields of the jobs.
    """
    jobs = []
    for trial in range(first_trial, first_trial + n_trials):
        for dataset in datasets:
            every = range(len(dataset.env_names))
            tests = set(every if test_envs is None else test_envs)
            held: list[tuple[int, ...]] = [(env,) for env in sorted(tests)]
            if pairs and len(every) > 2:  # one is left to train on
                held += [pair for pair in combinations(every, 2) if tests & set(pair)]
            for algorithm in algorithms:
                jobs += [
                    Job(
                        dataset.name,
                        algorithm,
                        envs,
                        trial,
                        config,
                        fingerprint=dataset.fingerprint,
                        origin=find_origin(algorithm, dataset),
                        **settings,
                    )
                    for envs in held
                    for config in range(n_hparams_from, n_hparams)
                ]
    return jobs


def check_test_envs(test_envs: Sequence[int], dataset: Dataset) -> tuple[int, ...]:
    """Sort the environments to hold out, or raise ``ValueError`` with one sentence."""
    n = len(dataset.env_names)
    names = ", ".join(f"{i} ({name})" for i, name in enumerate(dataset.env_names))
    chosen = tuple(sorted(set(test_envs)))
    if not chosen or not set(chosen) <= set(range(n)):
        raise ValueError(f"test_envs are {list(test_envs)}: {dataset.name} has {names}.")
    if len(chosen) == n:
        raise ValueError(f"test_envs are all of {dataset.name}: leave one to train on.")
    return chosen


def warn_of_short_runs(jobs: Iterable[Job], datasets: Iterable[Dataset]) -> None:
    """Warn of algorithms whose runs end before they train more than a part of the network."""
    known = {dataset.name: dataset for dataset in datasets}
    for job in {(each.dataset, each.algorithm): each for each in jobs}.values():
        dataset = known[job.dataset]
        partial = dataset.find_algorithm(job.algorithm).partial_steps
        steps = job.steps or dataset.steps
        # Steps count from 0, and the one of this number is the last that trains a part.
        if partial and steps <= (first := job.configuration(dataset)[partial] + 1):
            warnings.warn(
                f"the first {first} steps of {job.algorithm} train only a part of the network, and "
                f"its runs on {job.dataset} take {steps}: pass more --steps, or set {partial} in "
                "--hparams.",
                stacklevel=2,
            )
