"""A run on folders of images, from files to records."""

from pathlib import Path
from typing import Any

import pytest
import torch

from regraft.bench.datasets import Dataset, open_dataset
from regraft.bench.protocol.job_data import JobData
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.training import Training, train
from tests.helpers.small_pictures import write_photos
from tests.helpers.toy_sweep import read_records

pytest.importorskip("timm")

CPU = torch.device("cpu")
OVERRIDES = '{"batch_size": 2, "pretrained": false, "resnet18": true, "resnet_dropout": 0.5}'


@pytest.fixture(scope="module")
def vlcs(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    data = tmp_path_factory.mktemp("images")
    environments = ("Caltech101", "LabelMe", "SUN09", "VOC2007")
    write_photos(data / "VLCS", environments, ("bird", "car", "chair", "dog", "person"), n=1)
    return open_dataset("VLCS", data)


def begin(vlcs: Dataset, path: Path, **settings: Any) -> Training:
    job = Job("VLCS", "ERM", (0,), steps=3, overrides=OVERRIDES, **settings)
    path.mkdir(exist_ok=True)
    return Training(job, vlcs, RunFolder(path, job.id), device=CPU, save_every=0.0)


@pytest.mark.slow
def test_a_resumed_run_sees_the_same_pixels(vlcs: Dataset, tmp_path: Path) -> None:
    assert not train([begin(vlcs, tmp_path / "whole")])
    stopped = begin(vlcs, tmp_path / "parts")
    for _ in range(2):
        stopped.advance()
        stopped.settle()
    assert not train([begin(vlcs, tmp_path / "parts")])
    found = read_records(tmp_path)
    assert [record["step"] for record in found["whole"]] == [0, 2]
    assert found["whole"] == found["parts"]


def data_of(vlcs: Dataset, **settings: Any) -> JobData:
    job = Job("VLCS", "ERM", (0,), **settings)
    data = JobData(job, vlcs, job.configuration(vlcs), CPU)
    data.draw_batches(2, 0)
    return data


def test_only_training_images_are_changed_and_the_same_every_time(vlcs: Dataset) -> None:
    changed, again = (data_of(vlcs).minibatches(0)[0] for _ in range(2))
    plain = data_of(vlcs, overrides='{"data_augmentation": false}').minibatches(0)[0]
    assert torch.equal(changed, again)
    assert changed.shape == plain.shape == (3, 32, 3, 224, 224)
    assert not torch.equal(changed, plain)
    seeds = data_of(vlcs).evaluation_seeds(100)
    assert seeds.keys() == {1, 2, 3}
    assert seeds != data_of(vlcs).evaluation_seeds(200)
    assert data_of(vlcs, overrides='{"data_augmentation": false}').evaluation_seeds(100) == {}
