"""Jobs in a Slurm queue, submitted with submitit."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Sequence
from typing import Any

from regraft.bench.engines.base import (
    EngineOptions,
    OutcomeStream,
    mark_lost,
    read_outcomes,
    run_assignment,
)
from regraft.bench.protocol.run_folder import look_anew
from regraft.bench.protocol.worker import Assignment
from regraft.support.extras import require

_DEFAULT_MINUTES = 12 * 60
_POLL_SECONDS = 2.0  # seconds between looks at the queue
_GRACE_SECONDS = 30.0  # seconds that the result of a job may take to be seen after its end
_MAX_ARRAY = 1000  # the longest array that Slurm accepts by default


class SlurmEngine:
    """Arrays of jobs with one core each and, on device cuda, whole GPUs.

    The sweep's folder, which all nodes must see, also takes submitit's files and the logs. At most
    ``workers`` jobs of an array run at once. ``cluster`` is one that submitit knows: "local" needs
    no Slurm and starts all jobs at once on this machine.
    """

    def __init__(self, options: EngineOptions, cluster: str = "slurm") -> None:
        submitit = require("submitit", "slurm")
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise ValueError(
                "sbatch is not found: start the sweep where Slurm is, or choose another engine."
            )
        self.workers, self._folder = options.workers, (options.out / ".submitit").absolute()
        self._executor = submitit.AutoExecutor(self._folder, cluster=cluster)
        self._executor.update_parameters(
            name="regraft",
            timeout_min=_DEFAULT_MINUTES if options.slurm_time is None else options.slurm_time,
            cpus_per_task=1,
            gpus_per_node=math.ceil(options.gpus) or None,
            slurm_partition=options.slurm_partition,
            slurm_array_parallelism=_MAX_ARRAY if options.workers is None else options.workers,
        )

    def run(self, assignments: Sequence[Assignment]) -> OutcomeStream:
        """Submit a job for each assignment."""
        queued: dict[Any, Assignment] = {}
        ended_at: dict[Any, float] = {}  # of jobs without a result
        try:
            for start in range(0, len(assignments), _MAX_ARRAY):
                some = assignments[start : start + _MAX_ARRAY]
                queued.update(
                    zip(self._executor.map_array(run_assignment, some), some, strict=True)
                )
            while queued:
                look_anew(self._folder)
                now = time.monotonic()
                for job, assignment in list(queued.items()):
                    if job.paths.result_pickle.exists():
                        del queued[job]
                        for other in assignment.jobs:
                            look_anew(assignment.folder(other).path)
                        yield read_outcomes(assignment)
                    elif job.done() and now - ended_at.setdefault(job, now) >= _GRACE_SECONDS:
                        del queued[job]
                        early = f"its Slurm job ended early ({job.state}): see {job.paths.stderr}."
                        yield mark_lost(assignment, early)
                time.sleep(_POLL_SECONDS if queued else 0)
        finally:
            for job in queued:
                job.cancel(check=False)
