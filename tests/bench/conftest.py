"""The bank that the tests of the protocol and of all engines share."""

from pathlib import Path

import pytest

from regraft.bench.datasets import Dataset, open_dataset
from tests.helpers.toy_sweep import write_bank


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the toy bank."""
    return write_bank(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def toy(data: Path) -> Dataset:
    return open_dataset("toy", data)
