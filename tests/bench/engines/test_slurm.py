"""Jobs of a Slurm queue, here on submitit's local stand-in for one."""

import sys
from pathlib import Path

import pytest

from regraft.bench.engines import EngineOptions, make_engine, slurm
from regraft.bench.engines.slurm import SlurmEngine
from regraft.bench.protocol.worker import Assignment
from tests.helpers.toy_sweep import check_records, make_jobs

pytest.importorskip("submitit", reason="the extra slurm is not installed")

SBATCH = """#!/bin/sh
cp "$1" "$LOG/script"
echo Submitted batch job 42
"""
SCANCEL = """#!/bin/sh
echo "$1" >> "$LOG/cancelled"
"""
SACCT = """#!/bin/sh
echo "JobID|State|NodeList"
echo "42_0|RUNNING|node"
echo "42_1|TIMEOUT|node"
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(slurm, "_POLL_SECONDS", 0.05)


def test_jobs_give_the_records_of_a_plain_call(data: Path, tmp_path: Path) -> None:
    engine = SlurmEngine(EngineOptions(tmp_path / "out"), cluster="local")
    check_records(engine, data, tmp_path, together=6)


def test_a_job_out_of_time_fails_its_runs(data: Path, tmp_path: Path) -> None:
    out, jobs = tmp_path / "out", make_jobs(data, "ERM", test_envs=[0])
    engine = SlurmEngine(EngineOptions(out, slurm_time=0), cluster="local")
    [outcomes] = engine.run([Assignment(tuple(jobs), out, data)])
    for job, outcome in zip(jobs, outcomes, strict=True):
        assert (outcome.job, outcome.state) == (job, "failed")
        assert outcome.message.startswith("its Slurm job ended early (")
        assert "\n" not in outcome.message
        assert (out / job.id / "err.txt").read_text() == outcome.message + "\n"


def test_an_array_is_asked_for_as_told_and_cancelled_at_the_end(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL), ("sacct", SACCT), ("srun", "")):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    monkeypatch.setenv("LOG", str(tmp_path))
    out, jobs = tmp_path / "out", make_jobs(data, "ERM", test_envs=[0])
    options = EngineOptions(
        out, "cuda", workers=5, gpus_per_worker=2, slurm_partition="night", slurm_time=90
    )
    engine = make_engine("slurm", options)
    assert engine.workers == 5
    outcomes = engine.run([Assignment((job,), out, data) for job in jobs])
    [outcome] = next(outcomes)
    assert (outcome.job, outcome.state) == (jobs[1], "failed")
    assert outcome.message.startswith("its Slurm job ended early (TIMEOUT): see ")
    outcomes.close()
    assert (tmp_path / "cancelled").read_text() == "42_0\n"
    lines = (tmp_path / "script").read_text().splitlines()
    wanted = ("array=0-1%2", "partition=night", "time=90", "gpus-per-node=2", "cpus-per-task=1")
    for setting in wanted:
        assert f"#SBATCH --{setting}" in lines
    assert any(sys.executable in line for line in lines)
