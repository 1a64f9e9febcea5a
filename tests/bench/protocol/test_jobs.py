"""Runs and their identities."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from regraft.bench.datasets import Dataset, open_dataset
from regraft.bench.protocol.jobs import (
    Job,
    check_test_envs,
    parse_overrides,
    sweep_jobs,
    warn_of_short_runs,
)
from regraft.bench.protocol.seeds import job_seed
from tests.helpers.toy_sweep import write_bank


def test_an_id_tells_every_setting_apart_but_not_where_the_data_is(tmp_path: Path) -> None:
    job = Job("ColoredMNIST", "ERM", (0,))
    assert job.id == "3c9f991d3e2fddfc8caff544ba92a029"
    others = [
        Job("RotatedMNIST", "ERM", (0,)),
        Job("ColoredMNIST", "IRM", (0,)),
        Job("ColoredMNIST", "ERM", (1,)),
        Job("ColoredMNIST", "ERM", (0, 1)),
        Job("ColoredMNIST", "ERM", (0,), trial_seed=1),
        Job("ColoredMNIST", "ERM", (0,), hparams_seed=1),
        Job("ColoredMNIST", "ERM", (0,), steps=7),
        Job("ColoredMNIST", "ERM", (0,), holdout_fraction=0.3),
        Job("ColoredMNIST", "ERM", (0,), overrides='{"lr": 1}'),
        Job("ColoredMNIST", "ERM", (0,), compat=True),
        Job("ColoredMNIST", "ERM", (0,), fingerprint="a"),
        Job("ColoredMNIST", "ERM", (0,), per_domain=True),
        Job("ColoredMNIST", "ERM", (0,), own_seed=4),
    ]
    assert len({job.id, *(other.id for other in others)}) == 14
    assert json.loads(json.dumps(job.args)) == job.args
    first, second = (
        sweep_jobs([open_dataset("toy", write_bank(tmp_path / place))], ["ERM"], n_trials=1)
        for place in ("here", "there")
    )
    assert [job.id for job in first] == [job.id for job in second]
    assert Job("ColoredMNIST", "ERM", (0,)).seed == 219572418
    assert Job("VLCS", "ERM", (1, 2), hparams_seed=1).seed == 360234358
    assert Job("A", "B", (1,), 4, 5).seed == job_seed("A", "B", [1], 5, 4)


def test_the_protocols_runs(toy: Dataset, tmp_path: Path) -> None:
    assert len(sweep_jobs([toy], ["ERM"])) == 3 * 20 * 3
    jobs = sweep_jobs([toy], ["ERM", "IRM"], n_trials=2, n_hparams=3, pairs=True)
    assert len(set(jobs)) == len(jobs) == 2 * 2 * 3 * (3 + 3)
    assert {job.test_envs for job in jobs} == {(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)}
    assert {job.test_envs for job in sweep_jobs([toy], ["ERM"], test_envs=[2])} == {(2,)}
    some = sweep_jobs([toy], ["ERM"], test_envs=[2], pairs=True)
    assert {job.test_envs for job in some} == {(2,), (0, 2), (1, 2)}
    assert {job.steps for job in sweep_jobs([toy], ["ERM"], steps=9)} == {9}
    x = np.random.default_rng(0).standard_normal((40, 2))
    np.savez(tmp_path / "two.npz", X=x, label=np.arange(40) % 2, domain=np.arange(40) // 20)
    jobs = sweep_jobs([open_dataset("two", tmp_path)], ["ERM"], pairs=True)
    assert {job.test_envs for job in jobs} == {(0,), (1,)}
    assert check_test_envs([2, 0, 2], toy) == (0, 2)
    for wrong in ([], [3], [-1]):
        with pytest.raises(ValueError, match=r"toy has 0 \(0\), 1 \(1\), 2 \(2\)\."):
            check_test_envs(wrong, toy)
    with pytest.raises(ValueError, match="leave one to train on"):
        check_test_envs([0, 1, 2], toy)


def test_a_configuration_is_drawn_and_overridden(toy: Dataset) -> None:
    job = Job("toy", "ERM", (0,), hparams_seed=1, overrides='{"lr": 0.5}')
    configuration = job.configuration(toy)
    assert configuration["lr"] == 0.5
    assert configuration["batch_size"] == 39  # DomainBed's draw for (1, 0) on its large images
    assert Job("toy", "ERM", (0,)).configuration(toy)["lr"] == 1e-3
    net = open_dataset("DomainNet")
    assert Job("DomainNet", "ARM", (0,), hparams_seed=1).configuration(net)["batch_size"] == 8
    drawn = Job("DomainNet", "ERM", (0,), hparams_seed=1).configuration(net)["batch_size"]
    assert 8 <= drawn < 32


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        *((text, "pass a JSON object") for text in ("", "[]", "3", "{'lr': 1}", "{")),
        ('{"mldg_beta": 1}', "'mldg_beta', which nothing reads: choose from batch_size,"),
        ('{"lr": "fast"}', "lr to 'fast': pass a number of 0 or more."),
        ('{"lr": true}', "lr to True: pass a number of 0 or more."),
        ('{"lr": -1}', "lr to -1: pass a number of 0 or more."),
        ('{"lr": NaN}', "lr to nan: pass a number of 0 or more."),
        ('{"batch_size": 0}', "batch_size to 0: pass a whole number of 1 or more."),
        ('{"batch_size": 2.5}', "pass a whole number of 1 or more."),
        ('{"irm_penalty_anneal_iters": -1}', "pass a whole number of 0 or more."),
        ('{"class_balanced": 1}', "class_balanced to 1: pass true or false."),
        ('{"objective": 1}', "pass a text such as 'risk'."),
    ],
)
def test_overrides_are_known_names_and_kinds(text: str, sentence: str, toy: Dataset) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        parse_overrides(text, [toy], ["IRM", "CRO"])
    assert parse_overrides('{"lr": 1, "ridge": null}', [toy], ["CRO"])
    assert parse_overrides('{"irm_lambda": 1}', [toy], ["ERM", "IRM"]) == '{"irm_lambda": 1}'


def test_runs_that_train_only_a_part_of_the_network_are_told(toy: Dataset) -> None:
    with pytest.warns(UserWarning) as told:
        warn_of_short_runs(sweep_jobs([toy], ["ERM", "ERMPlusPlus"]), [toy])
    assert [str(each.message) for each in told] == [
        "the first 501 steps of ERMPlusPlus train only a part of the network, and its runs on toy "
        f"take {toy.steps}: pass more --steps, or set linear_steps in --hparams."
    ]
    with pytest.warns(UserWarning, match="take 501"):
        warn_of_short_runs(sweep_jobs([toy], ["ERMPlusPlus"], steps=501), [toy])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_short_runs(sweep_jobs([toy], ["ERMPlusPlus"], steps=502), [toy])
        overrides = '{"linear_steps": 50}'
        warn_of_short_runs(sweep_jobs([toy], ["ERMPlusPlus"], overrides=overrides), [toy])
