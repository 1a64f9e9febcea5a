"""Features that Phase 1 has trained for one held-out environment and trial, as a dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regraft.bench.algorithms import Entry
from regraft.bench.algorithms.games import GameFamily, HeadOnFeatures, PhaseOneResult, game_space
from regraft.bench.datasets.base import Dataset
from regraft.bench.datasets.features import Vectors
from regraft.bench.protocol.cache import read_cache
from regraft.bench.protocol.jobs import Job
from regraft.core.domains import Domains, check_domains

ERM, REFITTED, CRO = "ERM", "ERM, refitted", "CRO"
HEAD = "head"  # of Phase 1, under which the file of the features has it


class _Rows(Vectors):
    """Features as they are; a head takes many rows at once."""

    rows_at_once = 65_536


class TrainedFeatures(Dataset):
    """The features ``X`` (n_i, d) and labels ``y`` (n_i,) of all environments, on the CPU.

    They are for all runs with the test environment and the trial of ``job``, Phase 1's, whose
    algorithms find heads: ``head`` (C, d + 1) is its own, and CRO plays a game of the ``family``.
    What these runs share is computed once, on ``device``.
    """

    group = "trained features"
    steps = checkpoint_freq = 1

    def __init__(
        self,
        job: Job,
        env_names: Sequence[str],
        X: Sequence[Tensor],
        y: Sequence[Tensor],
        head: Tensor,
        *,
        family: GameFamily = "hull",
        device: str = "cpu",
    ) -> None:
        (self.test_env,) = job.test_envs
        self.name, self.env_names, self.fingerprint = job.dataset, tuple(env_names), job.fingerprint
        self.input_shape, self.n_classes = tuple(X[0].shape[1:]), len(head)
        self.X, self.y, self.head = tuple(X), tuple(y), head
        halves = [job.split(env, len(labels)) for env, labels in enumerate(y)]
        self.rows_in, self.rows_out = zip(*halves, strict=True)
        self._family, self._device = family, device

    @property
    def sources(self) -> list[int]:
        """The environments that may be trained on."""
        return [env for env in range(len(self.X)) if env != self.test_env]

    @property
    def size(self) -> int:
        """Rows of the sources, times features, times classes."""
        rows = sum(len(self.rows_in[env]) for env in self.sources)
        return rows * self.head.shape[1] * self.n_classes

    def domains(self, device: str = "cpu") -> Domains:
        """Return the training rows of the sources, validated."""
        sizes = [len(self.rows_in[env]) for env in self.sources]
        X = torch.cat([self.X[env][self.rows_in[env]] for env in self.sources])
        y = torch.cat([self.y[env][self.rows_in[env]] for env in self.sources])
        domain = np.repeat(self.sources, sizes)
        return check_domains(X.double().numpy(), y.numpy(), domain, device=device)

    def environments(self, seed: int, device: torch.device) -> list[_Rows]:
        """Return the features of every environment; nothing is drawn."""
        return [_Rows(env.x.to(device), env.y.to(device)) for env in self._environments]

    def check(self) -> None:
        """Do nothing: all is in memory."""

    def find_algorithm(self, name: str) -> Entry:
        """Return what finds the head ``name``, which takes Phase 1 for granted."""
        return self._entries[name]

    @cached_property
    def _entries(self) -> Mapping[str, Entry]:
        phase1 = PhaseOneResult(self.domains(self._device), self.head.to(self._device))
        games = {
            "latent": phase1.play_latent,
            "hull": phase1.play_hull,
            "free": phase1.play_free,
        }
        space = game_space(self._family, None, self.n_classes, self.name)
        return {
            ERM: Entry(ERM, partial(HeadOnFeatures, find=phase1.own_head), {}),
            REFITTED: Entry(REFITTED, partial(HeadOnFeatures, find=phase1.refit), {}),
            CRO: Entry(CRO, partial(HeadOnFeatures, find=games[self._family]), space),
        }

    @cached_property
    def _environments(self) -> list[_Rows]:
        return [
            _Rows(X.float().to(self._device), y.to(self._device))
            for X, y in zip(self.X, self.y, strict=True)
        ]


@dataclass(frozen=True)
class KeptFeatures:
    """The features of Phase 1's ``job`` in a file, which other processes can open too."""

    job: Job
    env_names: tuple[str, ...]
    path: Path
    key: str  # that the file was written for, in JSON
    family: GameFamily = "hull"
    device: str = "cpu"  # on which what the runs share is computed

    def open(self) -> TrainedFeatures:
        """Read the features. Raise ``ValueError`` if the file is no longer what was written."""
        kept = read_cache(self.path, json.loads(self.key))
        if kept is None:
            raise ValueError(f"{self.path} has changed since it was written: run this again.")
        envs = range(len(self.env_names))
        return TrainedFeatures(
            self.job,
            self.env_names,
            [kept[f"X{env}"] for env in envs],
            [kept[f"y{env}"] for env in envs],
            kept[HEAD],
            family=self.family,
            device=self.device,
        )
