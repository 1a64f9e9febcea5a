"""The bank and the weights that tests of the protocol, of engines and of networks share."""

from pathlib import Path

import pytest
import safetensors.torch
import torch

from regraft.bench.datasets import Dataset, open_dataset
from regraft.support.extras import require
from tests.helpers.small_pictures import TIMM_TOY
from tests.helpers.toy_sweep import write_bank


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the toy bank."""
    return write_bank(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of random weights of timm's own toy network, with a classifier's."""
    timm = require("timm", "images")
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "toy.safetensors"
    safetensors.torch.save_file(timm.create_model(TIMM_TOY, num_classes=5).state_dict(), path)
    return path


@pytest.fixture(scope="session")
def toy(data: Path) -> Dataset:
    return open_dataset("toy", data)
