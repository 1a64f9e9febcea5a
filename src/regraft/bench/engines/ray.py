"""Tasks on a Ray cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from regraft.bench.engines.base import EngineOptions, OutcomeStream, mark_lost, run_assignment
from regraft.bench.protocol.run_folder import look_anew
from regraft.bench.protocol.worker import Assignment, Outcome
from regraft.support.ray_clusters import check_address, connect, import_ray


class RayEngine:
    """Tasks with one core each and, on device cuda, a GPU or a share of one.

    Without the ``address`` of a cluster Ray is started on this machine, unless this process is
    connected already. At most ``workers`` tasks are given to Ray at once, by default all. All nodes
    must see the sweep's folder under the same path.
    """

    def __init__(self, options: EngineOptions) -> None:
        self._ray = import_ray()
        if options.address is not None:
            check_address(options.address)
        self._workers, self._address, self._gpus = options.workers, options.address, options.gpus

    @property
    def workers(self) -> int | None:
        """Number of tasks that the cluster has room for, once it is connected."""
        if not self._ray.is_initialized():
            return self._workers
        resources = self._ray.cluster_resources()
        room = resources.get("CPU", 0)
        if self._gpus:
            room = min(room, resources.get("GPU", 0) / self._gpus)
        return int(room if self._workers is None else min(room, self._workers))

    def run(self, assignments: Sequence[Assignment]) -> OutcomeStream:
        """Run a task for each assignment."""
        ray = self._ray
        with connect(self._address):
            task = ray.remote(num_cpus=1, num_gpus=self._gpus, max_retries=0)(run_assignment)
            queue = deque(assignments)
            running: dict[Any, Assignment] = {}
            try:
                while queue or running:
                    while queue and len(running) < (self._workers or len(assignments)):
                        assignment = queue.popleft()
                        running[task.remote(assignment)] = assignment
                    [ready], _ = ray.wait(list(running))
                    yield self._outcomes(ready, running.pop(ready))
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)

    def _outcomes(self, reference: Any, assignment: Assignment) -> list[Outcome]:
        try:
            outcomes: list[Outcome] = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[0]
            return mark_lost(
                assignment, f"its Ray worker died ({reason}): run the same command again."
            )
        return [_check_visible_here(assignment, outcome) for outcome in outcomes]


def _check_visible_here(assignment: Assignment, outcome: Outcome) -> Outcome:
    """Return ``outcome``, or a failure if the run is done but not visible on this machine."""
    folder = assignment.folder(outcome.job)
    look_anew(folder.path.parent)
    look_anew(folder.path)
    if outcome.state != "done" or folder.is_done:
        return outcome
    return Outcome(
        outcome.job,
        "failed",
        f"{folder.path} is done on another machine but not here: pass an --out that all share.",
    )
