"""Cached tensors come back bit by bit, or not at all."""

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regraft.bench.protocol.cache import read_cache, write_cache

KEY: dict[str, Any] = {"dataset": "Colored MNIST", "seed": 3, "rates": [0.1, 0.2], "é": None}
TENSORS = {
    "x": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "y": torch.tensor([1, 0]),
    "z": torch.tensor(0.5),
}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small cache."""
    path = tmp_path_factory.mktemp("whole") / "c"
    write_cache(path, KEY, TENSORS)
    return path.read_bytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that the examples of a property overwrite."""
    return tmp_path_factory.mktemp("damaged") / "c"


def same(left: dict[str, Tensor] | None, right: dict[str, Tensor]) -> bool:
    return (
        left is not None
        and left.keys() == right.keys()
        and all(left[k].dtype == right[k].dtype and torch.equal(left[k], right[k]) for k in left)
    )


def assert_damaged(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"is damaged and is made again\.$"):
        assert read_cache(path, KEY) is None


@pytest.mark.filterwarnings("error")
def test_tensors_come_back(tmp_path: Path) -> None:
    """Of every type and layout, those of no elements and of no dimensions too."""
    base = torch.randn(4, 5)
    tensors = {
        "transposed": base.T,
        "slice": base[1:, ::2],
        "shared": base,
        "with gradient": torch.ones(2, requires_grad=True),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(7),
        "flags": torch.tensor([True, False]),
        "half": base.half(),
        "brain": base.bfloat16(),
        "bytes": torch.arange(9, dtype=torch.uint8),
        "not a number": torch.tensor([float("inf")]),
    }
    path = tmp_path / "new" / "folder" / "c.safetensors"
    write_cache(path, KEY, tensors)
    read = read_cache(path, KEY)
    assert same(read, tensors)
    assert read is not None and all(
        not t.requires_grad and t.is_contiguous() for t in read.values()
    )
    assert [entry.name for entry in path.parent.iterdir()] == ["c.safetensors"]


@pytest.mark.filterwarnings("error")
def test_writing_again_replaces_and_the_key_decides(tmp_path: Path) -> None:
    path = tmp_path / "c"
    assert read_cache(path, KEY) is None
    write_cache(path, KEY, TENSORS)
    for other in ({}, KEY | {"seed": 4}, KEY | {"seed": "3"}, KEY | {"more": 1}):
        assert read_cache(path, other) is None
    assert same(read_cache(path, dict(reversed(KEY.items()))), TENSORS)
    write_cache(tmp_path / "c", KEY, {})
    assert read_cache(tmp_path / "c", KEY) == {}
    write_cache(path, KEY, TENSORS)
    write_cache(path, {"seed": 4}, {"x": torch.ones(1)})
    assert read_cache(path, KEY) is None
    assert same(read_cache(path, {"seed": 4}), {"x": torch.ones(1)})


def test_the_file_is_safetensors_and_any_damage_is_found(raw: bytes, place: Path) -> None:
    """Anyone can read it, and its metadata say what it was made for."""
    place.write_bytes(raw)
    with safetensors.safe_open(place, "pt") as file:
        metadata = file.metadata()
    assert json.loads(metadata["key"]) == KEY
    assert len(metadata["sha256"]) == 2 * hashlib.sha256().digest_size
    assert same(safetensors.torch.load(raw), TENSORS)
    for metadata in (None, {"format": "pt"}, {"key": json.dumps(KEY)}):
        assert_damaged(place, safetensors.torch.save(TENSORS, metadata))
    # A bit of every byte of the file, header, padding and tensors.
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 1 << position % 8
        assert_damaged(place, bytes(damaged))


@given(st.data())
def test_any_changed_byte_is_found(raw: bytes, place: Path, data: st.DataObject) -> None:
    """Blanks in place of blanks included."""
    position = data.draw(st.integers(0, len(raw) - 1))
    values = st.one_of(st.integers(0, 255), st.sampled_from(list(b" \t\r\n\0")))
    value = data.draw(values.filter(lambda v: v != raw[position]))
    assert_damaged(place, raw[:position] + bytes([value]) + raw[position + 1 :])


@given(st.data())
def test_any_cut_is_found(raw: bytes, place: Path, data: st.DataObject) -> None:
    """At the end, in the middle, and the empty file."""
    start = data.draw(st.integers(0, len(raw) - 1))
    end = data.draw(st.one_of(st.just(len(raw)), st.integers(start + 1, len(raw))))
    assert_damaged(place, raw[:start] + raw[end:])
    assert_damaged(place, raw[:start])


@given(st.binary(max_size=300))
def test_rubbish_is_found(raw: bytes, place: Path, rubbish: bytes) -> None:
    """Alone, and after the end or before the beginning of a whole file."""
    assert_damaged(place, rubbish)
    if rubbish:
        assert_damaged(place, raw + rubbish)
        assert_damaged(place, rubbish + raw)


def test_blank_padding_of_another_kind_is_found(place: Path) -> None:
    """JSON readers do not see it."""
    for n in range(8):
        write_cache(place, KEY, {"x" * (n + 1): torch.ones(1)})
        content = place.read_bytes()
        if b"} " in content:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert read_cache(place, KEY) is not None
            assert_damaged(place, content.replace(b"} ", b"}\t", 1))
            return
    pytest.fail("no header was padded")
