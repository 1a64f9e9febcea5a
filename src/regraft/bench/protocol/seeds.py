"""The seeds and splits of DomainBed's protocol, digit for digit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regraft.bench.protocol.settings import HOLDOUT


def seed_hash(*args: object) -> int:
    """Hash the written form of ``args`` to a seed below 2³¹, the same on every machine."""
    digest = hashlib.md5(str(args).encode(), usedforsecurity=False)
    return int(digest.hexdigest(), 16) % 2**31


def job_seed(
    dataset: str, algorithm: str, test_envs: Sequence[int], hparams_seed: int, trial_seed: int
) -> int:
    """Return the seed of one run: of its data, its initial weights and its minibatches."""
    # Plain integers in a list: a tuple or NumPy's integers are written otherwise.
    envs = [int(env) for env in test_envs]
    return seed_hash(dataset, algorithm, envs, hparams_seed, trial_seed)


def split_seed(trial_seed: int, env: int) -> int:
    """Return the seed that parts environment ``env`` into training rows and holdout."""
    return seed_hash(trial_seed, env)


def hparam_state(hparams_seed: int, trial_seed: int, name: str) -> np.random.RandomState:
    """Return the random state from which the hyperparameter ``name`` alone is drawn."""
    return np.random.RandomState(seed_hash(seed_hash(hparams_seed, trial_seed), name))


def split(n: int, seed: int, fraction: float = HOLDOUT) -> tuple[Tensor, Tensor]:
    """Return the rows of an environment of ``n`` to train on, and those held out, as int64."""
    rows = np.arange(n, dtype=np.int64)
    np.random.RandomState(seed).shuffle(rows)
    n_out = int(n * fraction)
    return torch.from_numpy(rows[n_out:]), torch.from_numpy(rows[:n_out])
