"""Tasks on a Ray cluster of two nodes, both on this machine."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regraft.bench.engines import EngineOptions
from regraft.bench.engines.ray import RayEngine, _check_visible_here
from regraft.bench.protocol.launch import launch
from regraft.bench.protocol.worker import Assignment, Outcome, perform
from tests.helpers.toy_sweep import ENDLESS, check_records, is_free, make_jobs, wait_until

pytestmark = pytest.mark.slow

ray = pytest.importorskip("ray", reason="the extra ray is not installed")

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # A node that is gone is given up after seconds instead of half a minute.
        settings = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
        cluster = Cluster(initialize_head=True, head_node_args=NODE | {"_system_config": settings})
        cluster.add_node(**NODE)
        yield cluster
        cluster.shutdown()


def test_tasks_give_the_records_of_a_plain_call(cluster: Any, data: Path, tmp_path: Path) -> None:
    running: list[int] = []
    check_records(
        RayEngine(EngineOptions(tmp_path / "out", address=cluster.address)),
        data,
        tmp_path,
        together=2,
        on_change=lambda tally: running.append(tally.running),
    )
    assert running[-2] == 2 and 4 in running  # two nodes, two runs on each
    assert not ray.is_initialized()


def test_a_lost_node_fails_its_runs_only(cluster: Any, data: Path, tmp_path: Path) -> None:
    jobs = make_jobs(data, "ERM", test_envs=[0, 1], n_hparams=1, steps=ENDLESS)
    assignments = [Assignment((job,), tmp_path, data) for job in jobs]
    folders = [assignment.folder(assignment.jobs[0]) for assignment in assignments]

    def remove_node() -> None:
        # On a busy machine Ray needs minutes to start them; without this wait they would never end.
        wait_until(lambda: all(len(folder.records()) > 1 for folder in folders), seconds=600)
        [node] = cluster.worker_nodes
        cluster.remove_node(node, allow_graceful=False)

    remover = threading.Thread(target=remove_node)
    remover.start()
    outcomes = RayEngine(EngineOptions(tmp_path, address=cluster.address)).run(assignments)
    [outcome] = next(outcomes)
    remover.join()
    assert outcome.state == "failed"
    assert outcome.message.startswith("its Ray worker died (")
    outcomes.close()
    assert not ray.is_initialized()
    wait_until(lambda: all(map(is_free, folders)))


def test_a_ray_that_was_there_is_left_there(cluster: Any, data: Path, tmp_path: Path) -> None:
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        jobs = make_jobs(data, "ERM", test_envs=[0])
        engine = RayEngine(EngineOptions(tmp_path, workers=1))
        tally = launch(jobs, out=tmp_path, engine=engine, data=data)
        assert tally.done == 2
        assert ray.is_initialized()
    finally:
        ray.shutdown()


def test_runs_done_elsewhere_and_no_cluster_are_told(data: Path, tmp_path: Path) -> None:
    [job] = make_jobs(data, "ERM", test_envs=[0], n_hparams=1)
    assignment = Assignment((job,), tmp_path, data)
    outcome = _check_visible_here(assignment, Outcome(job, "done"))
    assert outcome.state == "failed"
    assert outcome.message.endswith("not here: pass an --out that all share.")
    perform(assignment)
    assert _check_visible_here(assignment, Outcome(job, "done")) == Outcome(job, "done")
    for address in ("127.0.0.1:9", "nowhere", "ray://127.0.0.1:9"):
        with pytest.raises(ValueError, match=r"no Ray cluster answers at .*--address"):
            RayEngine(EngineOptions(tmp_path, address=address))
