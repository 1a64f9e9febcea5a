"""Phase 2: the games on what Phase 1 has trained, side by side where that takes less time."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import torch

from regraft.bench.algorithms.games import GameFamily
from regraft.bench.engines.local import WorkerPool, count_cores
from regraft.bench.paper.trained_features import KeptFeatures
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.worker import Assignment, Outcome, perform

# Below so many games a worker takes longer to start than it saves.
_GAMES_A_WORKER = 10
# Rows times features times classes, up to which a core plays the paper's own adversary in about
# the time of a GPU.
_MAX_NUMBERS_ON_CORES = 2**24


@dataclass(frozen=True)
class PlannedRun:
    """A run of the protocol, and the part of the experiment that it belongs to."""

    part: str
    assignment: Assignment  # of this run alone

    @property
    def job(self) -> Job:
        """What the run is."""
        return self.assignment.jobs[0]

    @property
    def folder(self) -> RunFolder:
        """Where it is written."""
        return self.assignment.folder(self.job)


@dataclass(frozen=True)
class Players:
    """Where games are played: on a device by this process, or by so many workers on the CPU."""

    device: str
    workers: int = 1


def choose_players(family: GameFamily, device: str, games: int, numbers: int) -> Players:
    """Choose where to play so many games, those that are done included, on so many ``numbers``.

    A GPU takes far less time than a core for a game, and several processes that share it are no
    faster. The paper's own adversary takes many short steps, for which each core has its own game.
    """
    is_long = family == "free"  # a game takes half a minute
    on_gpu = torch.device(device).type != "cpu"
    if on_gpu and not (is_long and numbers <= _MAX_NUMBERS_ON_CORES):
        return Players(device)
    workers = min(count_cores(), games if is_long else games // _GAMES_A_WORKER)
    return Players("cpu", workers) if workers > 1 else Players(device)


def start_players(family: GameFamily, device: str, games: int, left: int, pool: WorkerPool) -> None:
    """Start those who will play the games that are left on the CPU, while a GPU trains."""
    players = choose_players(family, device, games, 0)
    if players.workers > 1:
        pool.start(min(players.workers, left))


def play_runs(
    runs: Mapping[KeptFeatures, Sequence[PlannedRun]], players: Players, pool: WorkerPool
) -> Generator[Outcome, None, None]:
    """Do the runs on each features, and yield what became of them; workers are from ``pool``."""
    assignments = [
        replace(
            run.assignment,
            source=replace(features, device=players.device),
            device=players.device,
        )
        for features, planned in runs.items()
        for run in planned
    ]
    if players.workers == 1:
        for assignment in assignments:
            yield from perform(assignment)
        return
    with closing(pool.run(assignments, players.workers)) as ended:
        for outcomes in ended:
            yield from outcomes
