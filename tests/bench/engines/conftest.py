"""What the tests of all engines share."""

from pathlib import Path

import pytest

from tests.helpers.toy_sweep import write_bank


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bank(tmp_path_factory.mktemp("data"))
