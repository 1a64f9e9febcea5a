import mmap
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from regraft import CROClassifier
from regraft.support.memory_map import find_mapping, release, released
from tests.helpers.problems import make_problem

ROWS = np.arange(40_000, dtype=np.float32).reshape(-1, 8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ROWS.tofile(tmp_path / "rows")
    return tmp_path / "rows"


def _open(path: Path, mode: str = "r") -> NDArray[np.float32]:
    return np.memmap(path, np.float32, mode=mode, shape=ROWS.shape)  # type: ignore[call-overload]


def _resident(array: NDArray[np.float32]) -> int:
    """Kilobytes of the mapping around ``array`` that are in memory."""
    smaps = Path("/proc/self/smaps")
    if not smaps.exists():
        pytest.skip("the system does not tell which pages are resident")
    start = array.__array_interface__["data"][0]
    for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", smaps.read_text())[1:]:
        low, high = (int(end, 16) for end in block.split()[0].split("-"))
        if low <= start < high:
            return int(re.findall(r"Rss:\s+(\d+)", block)[0])
    raise AssertionError("the array lies nowhere")


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_pages_are_let_go_of_and_read_again(path: Path, mode: str) -> None:
    array = _open(path, mode)
    assert np.array_equal(array, ROWS)
    assert _resident(array) >= ROWS.nbytes // 1024
    release(find_mapping(array))
    assert _resident(array) == 0
    assert np.array_equal(array, ROWS)


def test_changes_of_a_map_survive(path: Path) -> None:
    array = _open(path, "r+")
    array[3, 4] = -1.0
    release(find_mapping(array))
    assert array[3, 4] == -1.0
    array = _open(path, "c")
    array[3, 4] = -2.0
    assert find_mapping(array) is None
    assert find_mapping(np.asarray(array)[2:]) is None
    release(None)
    assert array[3, 4] == -2.0


def test_only_views_lead_to_a_known_mapping(path: Path) -> None:
    array = _open(path)
    mapping = find_mapping(array)
    assert isinstance(mapping, mmap.mmap)
    for view in (array[5:], np.asarray(array), np.asarray(array)[::2, 1:].T, array.view()):
        assert find_mapping(view) is mapping
    for copy in (ROWS, ROWS[1:], array.copy(), array + 1, np.array(array)):
        assert find_mapping(copy) is None
    with path.open("rb") as file:
        plain = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    assert find_mapping(np.frombuffer(plain, np.float32)) is None


def test_a_walk_holds_one_chunk_at_a_time(path: Path) -> None:
    array = _open(path)
    total, chunks = 0.0, [slice(i, i + 1000) for i in range(0, len(ROWS), 1000)]
    for rows in released(chunks, find_mapping(array)):
        if rows.start:
            assert _resident(array) == 0
        total += float(array[rows].sum(dtype=np.float64))
    assert total == ROWS.sum(dtype=np.float64)
    assert _resident(array) == 0


def test_fit_and_predict_hold_nothing_of_the_file(tmp_path: Path) -> None:
    problem = make_problem(n=9000)  # several chunks
    problem.X.astype(np.float32).tofile(tmp_path / "rows")
    array = np.memmap(tmp_path / "rows", np.float32, mode="r", shape=problem.X.shape)
    held = []
    model = CROClassifier("hull").fit(
        array, problem.y, problem.domain, on_round=lambda _: held.append(_resident(array))
    )
    assert set(held) == {0}
    CROClassifier().fit(array, problem.y, problem.domain)
    assert _resident(array) == 0
    model.predict(array)
    assert _resident(array) == 0
