"""Algorithms and datasets from files and packages outside of ours."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from regraft.bench import plugins
from regraft.bench.algorithms import algorithms, find_algorithm
from regraft.bench.algorithms.base import ENTRIES
from regraft.bench.datasets import datasets, open_dataset
from regraft.bench.datasets.base import REGISTERED
from regraft.bench.engines.local import LocalEngine
from regraft.bench.plugins import load_plugins
from regraft.bench.protocol.jobs import Job, find_origin, sweep_jobs
from regraft.bench.protocol.launch import check_folder, check_plugins, launch
from regraft.bench.protocol.models import load_model
from regraft.bench.protocol.worker import Assignment, perform
from tests.helpers.commands import Run
from tests.helpers.errors import refused
from tests.helpers.toy_sweep import read_records, write_bank

OURS = """
from regraft.bench.algorithms import algorithm
from regraft.bench.algorithms.erm import ERM
from regraft.bench.protocol.spaces import ten_to

@algorithm("Focal", {"focal_gamma": ten_to(1.0, -1, 1)})
class Focal(ERM):
    def objective(self, step, x, y):
        losses = self.losses(x, y)
        return {"loss": (losses * losses.detach() ** self.hparams["focal_gamma"]).mean()}
"""
# Written as for DomainBed: counters, buffers that grow, a moving average, draws of all kinds.
THEIRS = """
import random
from collections import deque

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HPARAMS = {"Swing": {"swing_rate": (0.5, lambda r: 10 ** r.uniform(-1, 0))}}

class Average:
    def __init__(self):
        self.value, self.times = None, 0

    def add(self, value):
        self.value = value if self.value is None else 0.9 * self.value + 0.1 * value
        self.times += 1
        return self.value

class Swing(nn.Module):
    def __init__(self, input_shape, num_classes, num_domains, hparams):
        super().__init__()
        self.hparams = hparams
        self.features = nn.Sequential(nn.Linear(input_shape[0], 8), nn.ReLU(), nn.Dropout(0.2))
        self.classifier = nn.Linear(8, num_classes)
        self.network = nn.Sequential(self.features, self.classifier)
        self.register_buffer("weights", torch.Tensor())
        self.averages = [Average() for _ in range(num_domains)]
        self.recent, self.drawn, self.count = deque(maxlen=3), {}, 0
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=hparams["lr"])
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=2)

    def update(self, minibatches, unlabeled=None):
        if not len(self.weights):
            self.weights = torch.ones(len(minibatches))
        losses = torch.stack([F.cross_entropy(self.predict(x), y) for x, y in minibatches])
        noise = random.random() + np.random.rand() + float(torch.rand(1))
        self.weights = self.weights * (self.hparams["swing_rate"] * losses.detach()).exp()
        for average, loss in zip(self.averages, losses):
            average.add(loss.detach())
        loss = (losses * self.weights / self.weights.sum()).sum() * (1 + 0.1 * noise)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.count += 1
        self.recent.append(loss.item())
        self.drawn[self.count] = noise
        return {"loss": loss.item(), "count": self.count, "noise": noise}

    def predict(self, x):
        return self.network(x)
"""
A_DATASET = """
from regraft.bench.datasets import RegisteredDataset, dataset
from regraft.bench.datasets.features import Vectors
import torch

@dataset("Dots")
class Dots(RegisteredDataset):
    env_names, input_shape, n_classes, group = ("one", "two"), (3,), 2, "features"

    def environments(self, seed, device):
        g = torch.Generator().manual_seed(seed)
        y = torch.arange(40) % 2
        return [Vectors(torch.randn(40, 3, generator=g) + y[:, None], y) for _ in self.env_names]

    def check(self):
        pass
"""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Take back what a test registers."""
    algorithms(), datasets()
    kept = [(known, dict(known)) for known in (ENTRIES, REGISTERED, plugins._LOADED)]
    yield
    for known, content in kept:
        known.clear()  # type: ignore[attr-defined]
        known.update(content)  # type: ignore[attr-defined]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_bank(tmp_path / "data")


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    (folder / name).write_text(text)
    return folder / name


def make_job(data: Path, algorithm: str, steps: int = 9) -> Job:
    dataset = open_dataset("toy", data)
    where = (dataset.fingerprint, find_origin(algorithm, dataset))
    return Job("toy", algorithm, (0,), steps=steps, fingerprint=where[0], origin=where[1])


def test_a_file_of_our_own_style(tmp_path: Path, data: Path) -> None:
    path = write(tmp_path, OURS)
    load_plugins([path])
    load_plugins([path])  # once is enough
    assert find_algorithm("Focal").origin.startswith("mine.py sha256 ")
    job = make_job(data, "Focal")
    assert job.args["plugin"] == job.origin and "plugin" not in make_job(data, "ERM").args
    (outcome,) = perform(Assignment((job,), tmp_path / "out", data, plugins=(path,)))
    assert outcome.state == "done"
    (records,) = read_records(tmp_path / "out").values()
    assert records[-1]["args"]["plugin"] == job.origin
    assert records[-1]["hparams"]["focal_gamma"] == 1.0


def test_a_class_written_for_domainbed_runs_as_it_is(tmp_path: Path, data: Path) -> None:
    path = write(tmp_path, THEIRS)
    load_plugins([path])
    entry = find_algorithm("Swing")
    assert entry.space("features")["swing_rate"].default == 0.5 and "Average" not in algorithms()
    job = make_job(data, "Swing")
    random_state = torch.get_rng_state()
    keeping = Assignment((job,), tmp_path / "out", data, plugins=(path,), keep_model=True)
    assert perform(keeping)[0].state == "done"
    assert torch.equal(random_state, torch.get_rng_state())
    (records,) = read_records(tmp_path / "out").values()
    assert records[-1]["count"] == 5.5 and records[-1]["loss"] > 0  # the mean over steps 1 to 8
    file = tmp_path / "out" / job.id / "model.safetensors"
    model = load_model(file, plugins=str(path))
    assert model.algorithm.inner.weights.shape == (2,)  # which grew while training
    assert model.logits(torch.zeros(4, 5)).shape == (4, 2)
    with refused(r"x has the shape \(4, 6\), and the model takes rows of the shape \(5,\)"):
        model.logits(torch.zeros(4, 6))
    ENTRIES.pop("Swing")
    with refused("is of the algorithm Swing of mine.py sha256 .*: pass that file", path=file):
        load_model(file)


def test_a_model_of_several_plugins(tmp_path: Path) -> None:
    text = A_DATASET.replace("Dots", "Spots")
    files = write(tmp_path, THEIRS), write(tmp_path, text, "spots.py")
    load_plugins(files)
    origin = find_origin("Swing", open_dataset("Spots"))
    job = Job("Spots", "Swing", (0,), steps=2, origin=origin)
    keeping = Assignment((job,), tmp_path / "out", plugins=files, keep_model=True)
    assert [outcome.state for outcome in perform(keeping)] == ["done"]
    model = tmp_path / "out" / job.id / "model.safetensors"
    for named in (f"{files[0]}, {files[1]}", [str(files[0]), files[1]], files[0]):
        assert load_model(model, plugins=named).logits(torch.zeros(4, 3)).shape == (4, 2)
    ENTRIES.pop("Swing")
    with refused(r"of mine.py sha256 \w+, spots.py sha256 \w+: pass these files", path=model):
        load_model(model)


def test_it_goes_on_from_a_checkpoint_bit_by_bit(tmp_path: Path, data: Path) -> None:
    path = write(tmp_path, THEIRS)
    load_plugins([path])
    job = make_job(data, "Swing", steps=201)
    whole = Assignment((job,), tmp_path / "whole", data, plugins=(path,), keep_model=True)
    perform(whole)

    def stop(_: Job, record: dict[str, Any]) -> None:
        if record["step"] == 100:
            raise KeyboardInterrupt

    halves = Assignment((job,), tmp_path / "halves", data, "cpu", 0.0, True, (path,))
    with pytest.raises(KeyboardInterrupt):
        perform(halves, stop)
    assert (tmp_path / "halves" / job.id / "checkpoint.safetensors").exists()
    seen: list[int] = []
    perform(halves, lambda _, record: seen.append(record["step"]))
    assert seen == [200]
    assert read_records(tmp_path / "halves") == read_records(tmp_path / "whole")
    first, second = (
        load_model(folder / job.id / "model.safetensors").algorithm.state_dict()
        for folder in (tmp_path / "halves", tmp_path / "whole")
    )
    assert all(torch.equal(first[name], second[name]) for name in second) and second


def test_what_cannot_be_restored_starts_over(tmp_path: Path, data: Path) -> None:
    late = "        self.late = nn.Linear(1, 1)\n        return {"
    path = write(tmp_path, THEIRS.replace("        return {", late))
    load_plugins([path])
    assignment = Assignment((make_job(data, "Swing"),), tmp_path / "out", data, "cpu", 0.0)
    assert perform(assignment)[0].state == "done"
    algorithm: Any = find_algorithm("Swing").make(*_task())
    assert algorithm.state()
    algorithm.update(0, torch.zeros(2, 4, 6), torch.zeros(2, 4).long())
    assert algorithm.state() == {}
    algorithm.inner.late, algorithm.inner.odd = None, {1, 2}
    assert algorithm.state() == {}


def _task() -> tuple[Any, ...]:
    from regraft.bench.algorithms import Task
    from regraft.bench.protocol.spaces import draw_configuration

    hparams = draw_configuration(find_algorithm("Swing").space("features"), 0, 0)
    return Task((6,), 2, 2, torch.device("cpu")), hparams, torch.Generator()


def test_a_list_says_which_classes_count(tmp_path: Path) -> None:
    load_plugins([write(tmp_path, THEIRS + "\nclass Sway(Swing):\n    pass\n")])
    assert {"Swing", "Sway"} <= algorithms().keys()
    listed = THEIRS + "\nclass Sway(Swing):\n    pass\n\nALGORITHMS = ['Sway']\n"
    load_plugins([write(tmp_path, listed)])  # changed, so it is run again
    assert "Sway" in algorithms() and "Swing" not in algorithms()


def fork(*known: str) -> str:
    """A copy of DomainBed's file, of which some classes are known here, with one added."""
    classes = "".join(f"\nclass {name}(Swing):\n    pass\n" for name in known)
    return THEIRS + classes + f"\nALGORITHMS = {list(known)}\nALGORITHMS.append('Swing')\n"


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        (("ERM",), "lists ERM in ALGORITHMS"),
        (("ERM", "IRM", "DANN", "MMD", "SD"), "lists ERM, IRM, DANN and 2 more in ALGORITHMS"),
    ],
)
def test_a_copy_of_domainbeds_file_adds_what_is_new(
    tmp_path: Path, known: tuple[str, ...], shown: str
) -> None:
    before = {name: find_algorithm(name) for name in known}
    with pytest.warns(UserWarning, match=shown) as told:
        load_plugins([write(tmp_path, fork(*known))])
    assert len(told) == 1 and "its own are used, so give one" in str(told[0].message)
    assert find_algorithm("Swing").origin.startswith("mine.py sha256 ")
    assert {name: find_algorithm(name) for name in known} == before
    with refused("there are two called 'Swing'", path=tmp_path / "other.py"):
        load_plugins([write(tmp_path, THEIRS + "\nALGORITHMS = ['Swing']\n", "other.py")])


@pytest.mark.filterwarnings("ignore:.*which regraft has as well")
def test_a_copy_of_domainbeds_file_without_a_new_one_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, fork("ERM").replace("ALGORITHMS.append('Swing')", ""))
    with refused("it has no algorithm and no dataset", path=path):
        load_plugins([path])


def test_a_list_may_name_one_of_our_own_style(tmp_path: Path, recwarn: Any) -> None:
    load_plugins([write(tmp_path, OURS + "ALGORITHMS = ['Focal']\n")])
    assert "Focal" in algorithms() and not recwarn.list


def test_arguments_may_have_other_names_and_more_of_them_defaults(tmp_path: Path) -> None:
    """As in DomainBed's IGA and EQRM; what it cannot make from four arguments does not count."""
    four = "num_classes, num_domains, hparams"
    cases = {"Sway": f"in_features, {four}, dist=None", "Part": f"input_shape, {four}, kernel"}
    for name, arguments in cases.items():
        text = f"\nclass {name}(Swing):\n    def __init__(self, {arguments}):\n"
        cases[name] = text + f"        super().__init__({arguments.split(', ')[0]}, {four})\n"
    load_plugins([write(tmp_path, THEIRS + "".join(cases.values()))])
    assert "Part" not in algorithms()
    model = find_algorithm("Sway").make(*_task())
    assert model.predict(torch.zeros(3, 6)).shape == (3, 2)


def test_modes_are_switched_as_domainbed_does(tmp_path: Path) -> None:
    """Its TRM has methods of its own for them, which take no argument."""
    text = "\nclass Sway(Swing):\n    def train(self):\n        self.modes += 't'\n"
    text += "    def eval(self):\n        self.modes += 'e'\n    modes = ''\n"
    load_plugins([write(tmp_path, THEIRS + text)])
    model = find_algorithm("Sway").make(*_task())
    for mode in (model.eval(), model.train()):
        assert mode is model
    assert model.training and model.inner.modes == "et"
    plain = find_algorithm("Swing").make(*_task())
    assert not plain.eval().inner.training and plain.train().inner.training


def test_a_dataset(tmp_path: Path) -> None:
    load_plugins([write(tmp_path, A_DATASET)])
    dataset = open_dataset("Dots")
    assert dataset.origin.startswith("mine.py sha256 ")
    jobs = sweep_jobs([dataset], ["ERM"], n_trials=1, n_hparams=1, steps=3)
    assert {job.origin for job in jobs} == {dataset.origin} and len(jobs) == 2
    assert {outcome.state for outcome in perform(Assignment(tuple(jobs), tmp_path))} == {"done"}


@pytest.mark.slow
def test_worker_processes_load_them(tmp_path: Path, data: Path) -> None:
    path = write(tmp_path, THEIRS)
    load_plugins([path])
    jobs = [make_job(data, "Swing")]
    engine = LocalEngine(workers=1)
    tally = launch(jobs, out=tmp_path / "out", engine=engine, data=data, plugins=[path])
    assert (tally.done, tally.failed) == (1, ())


def test_a_changed_plugin_is_told(tmp_path: Path, data: Path) -> None:
    path, out = write(tmp_path, OURS), tmp_path / "out"
    load_plugins([path])
    job = make_job(data, "Focal")
    perform(Assignment((job,), out, data, plugins=(path,)))
    check_plugins(out, [job])
    write(tmp_path, OURS + "\n# another version\n")
    (outcome,) = perform(Assignment((job,), tmp_path / "later", data, plugins=(path,)))
    assert outcome.state == "failed" and "with plugins that do not change" in outcome.message
    changed = make_job(data, "Focal")
    assert changed.id != job.id
    for check in (check_plugins, check_folder):
        with refused("put that back, or choose another folder with --out", path=out / job.id):
            check(out, [changed])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1\n", "it has no algorithm and no dataset"),
        ("import nothing_of_this_name\n", "ModuleNotFoundError: No module named"),
        ("def (\n", "SyntaxError: invalid syntax"),
        (OURS.replace('"Focal"', '"ERM"'), "there are two algorithms called 'ERM'"),
        (OURS + OURS, "there are two algorithms called 'Focal'"),
        (THEIRS.replace("Swing", "IRM"), "there are two called 'IRM'"),
        (A_DATASET.replace("Dots", "PACS"), "there are two datasets called 'PACS'"),
        (OURS + "ALGORITHMS = ['Fokal']\n", "ALGORITHMS has 'Fokal', which is no algorithm in it"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, reason: str) -> None:
    before = algorithms(), datasets()
    path = write(tmp_path, text)
    with refused(reason, path=path):
        load_plugins([path])
    assert (algorithms(), datasets()) == before


def test_no_file(tmp_path: Path) -> None:
    with refused("name a Python file with --plugins", FileNotFoundError, tmp_path / "mine.py"):
        load_plugins([tmp_path / "mine.py"])


def test_a_package_that_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "swings-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: swings\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[regraft.algorithms]\nSwing2 = swings:Swing\nBroken = swings:Missing\n"
        "[regraft.datasets]\ndots = dots_of_swings\n"
    )
    write(tmp_path, THEIRS, "swings.py")
    write(tmp_path, A_DATASET, "dots_of_swings.py")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match="the entry point Broken of swings 1.2 cannot be used"):
        plugins._load_entry_points.__wrapped__()
    assert find_algorithm("Swing2").origin == "swings 1.2"
    assert open_dataset("Dots").origin == "swings 1.2"


def test_the_command_line(tmp_path: Path, data: Path, run: Run) -> None:
    path, out = write(tmp_path, OURS), tmp_path / "out"
    place = ("--dataset", "toy", "--data", data, "--steps", 3, "--out", out)
    words = ("train", "--algorithm", "Focal", *place)
    assert "algorithm is 'Focal': choose from" in run(*words).err
    ran = run(*words, "--plugins", path, "--json")
    assert ran.code == 0 and json.loads(ran.out)["args"]["plugin"].startswith("mine.py sha256 ")
    traced = json.loads((out / "provenance.json").read_text())
    assert str(path) in json.dumps(traced)
    write(tmp_path, OURS + "# changed\n")
    ran = run(*words, "--plugins", path)
    assert ran.code == 2 and "which is now mine.py sha256" in ran.err
