"""Models that runs leave behind can be used again."""

from pathlib import Path

import pytest
import torch

from regraft.bench.algorithms import Task, algorithms, find_algorithm
from regraft.bench.datasets import Dataset
from regraft.bench.protocol.evaluation import Split, accuracies, count_correct
from regraft.bench.protocol.job_data import JobData
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.models import load_model
from regraft.bench.protocol.spaces import draw_configuration
from regraft.bench.protocol.worker import Assignment, perform


@pytest.mark.parametrize("name", algorithms())
def test_a_loaded_model_has_the_accuracies_of_its_last_record(
    name: str, data: Path, toy: Dataset, tmp_path: Path
) -> None:
    job = Job("toy", name, (1,), hparams_seed=3, steps=15, fingerprint=toy.fingerprint)
    assignment = Assignment((job,), tmp_path, data, keep_model=True)
    assert [outcome.state for outcome in perform(assignment)] == ["done"]
    folder = assignment.folder(job)
    model = load_model(str(folder.path / "model.safetensors"))
    assert not model.algorithm.training
    seen = JobData(job, toy, job.configuration(toy), torch.device("cpu"))
    splits: list[Split] = seen.splits
    (found,) = accuracies(count_correct(model.algorithm, seen.environments, splits, {}), splits)
    model.algorithm.eval()
    assert found.items() <= folder.records()[-1].items()
    # Features go in as they are in the file, whatever their type.
    raw = toy.environments(0, torch.device("cpu"))[1]
    rows = next(split.rows for split in splits if (split.env, split.name) == (1, "in"))
    labels = model.predict(raw.inputs(rows).double().numpy())
    assert (labels == raw.y[rows]).double().mean() == pytest.approx(found["env1_in_acc"])
    assert not model.logits(raw.inputs(rows)).requires_grad


def test_models_of_before_there_were_all_switches_are_read() -> None:
    common = draw_configuration(find_algorithm("ERMPlusPlus").space("images"), 0, 0)
    old = {name: value for name, value in common.items() if name not in ("vit", "dinov2", "lars")}
    hparams = old | {"pretrained": False, "resnet18": True, "resnet50_augmix": False}
    task = Task((3, 64, 64), 2, 2, torch.device("cpu"))
    made = find_algorithm("ERMPlusPlus").make(task, hparams, torch.Generator())
    assert isinstance(made.optimizers["linear"], torch.optim.Adam)
    assert made.predict(torch.zeros(1, 3, 64, 64)).shape == (1, 2)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"pass a run's model\.safetensors"):
        load_model(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"something else")
    with pytest.raises(ValueError, match="is not a model that a run has left"):
        load_model(tmp_path / "model.safetensors")
