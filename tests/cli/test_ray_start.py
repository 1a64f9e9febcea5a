"""A Ray that does not start is told of in one sentence, by every command that starts it."""

from pathlib import Path

import pytest
import torch

import regraft.encoders
from regraft import make_confounded_domains, write_bank
from regraft.support.ray_clusters import connect, import_ray
from tests.helpers.commands import Run
from tests.helpers.errors import refused
from tests.helpers.toy_encoders import ToyImages, write_images
from tests.helpers.toy_sweep import write_bank as write_features

pytest.importorskip("ray", reason="the extra ray is not installed")

LATE = Exception(
    "The current node timed out during startup. This could happen because some of the raylet "
    "failed to startup or the GCS has become overloaded."
)
ADVICE = "try again on a quieter machine, name a cluster with --address, or use --engine local.\n"


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray gives up while it starts."""

    def init(**_: object) -> None:
        raise LATE

    monkeypatch.setattr(import_ray(), "init", init)


@pytest.mark.usefixtures("late")
def test_commands_tell_of_a_ray_that_is_late(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regraft.encoders, "load_image_encoder", lambda name, **_: ToyImages())
    drawn = make_confounded_domains(50, n_features=4, random_state=0)
    write_bank(tmp_path / "bank", drawn.X, drawn.y, drawn.sample_domain)
    features = write_features(tmp_path / "data")
    images = write_images(tmp_path / "images")
    toy = ("--datasets", "toy", "--data", features, "--algorithms", "ERM", "--steps", 1)
    for words in (
        ("fit", tmp_path / "bank"),
        ("embed", "images", images),
        ("sweep", *toy, "--n-hparams", 1, "--n-trials", 1),
    ):
        ran = run(*words, "--engine", "ray", "--out", tmp_path / words[0], "--quiet")
        assert (ran.code, ran.err) == (2, f"regraft: Ray did not start in time: {ADVICE}"), words


@pytest.mark.parametrize(
    ("error", "address", "sentence"),
    [
        (RuntimeError("Failed to start GCS. See logs."), None, r"did not start \(Failed to start"),
        (ConnectionError(), "auto", r"does not connect to 'auto' \(ConnectionError\): check that"),
    ],
)
def test_other_reasons_are_named(
    error: Exception, address: str | None, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**_: object) -> None:
        raise error

    monkeypatch.setattr(import_ray(), "init", init)
    with refused(sentence), connect(address):
        pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_gpus_are_looked_for_where_the_workers_are(tmp_path: Path, run: Run) -> None:
    drawn = make_confounded_domains(50, n_features=4, random_state=0)
    write_bank(tmp_path / "bank", drawn.X, drawn.y, drawn.sample_domain)
    words = "fit", tmp_path / "bank", "--out", tmp_path / "run", "--device", "cuda", "--quiet"
    for options, sentence in (
        (("--engine", "ray"), "device 'cuda' is not available here: pass cpu."),
        (("--engine", "ray", "--address", "127.0.0.1:1"), "no Ray cluster answers at"),
    ):
        done = run(*words, *options)
        assert done.code == 2 and done.err.startswith(f"regraft: {sentence}")
