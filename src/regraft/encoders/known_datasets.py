"""Ready benchmarks: known datasets, read from their usual files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from regraft.data.banks import is_bank
from regraft.data.image_folders import list_entries
from regraft.data.labelled import LabelledTable, read_labelled
from regraft.encoders import IMAGE_DEFAULT, TEXT_DEFAULT, load_image_encoder, load_text_encoder
from regraft.encoders.embedding import embed_images, embed_texts
from regraft.support.progress import Meter, OnProgress

_PACS = ("art_painting", "cartoon", "photo", "sketch")
_PACS_FEATURES = "efficientnet_lite0.npz"
_AMAZON = ("reviews.jsonl", "reviews.jsonl.gz")
_OFFICE_CALTECH = {
    "amazon": "amazon_SURF_L10.mat",
    "caltech10": "Caltech10_SURF_L10.mat",
    "dslr": "dslr_SURF_L10.mat",
    "webcam": "webcam_SURF_L10.mat",
}
_SHOWN_EVERY = 5.0  # seconds, while features are computed


def check_choice(data: Path, folder: Path | None) -> None:
    """Refuse what is neither a path nor a known dataset in ``folder``, in one sentence."""
    known = ", ".join(KNOWN_DATASETS)
    if str(data) in KNOWN_DATASETS:
        if folder is None and not data.exists():
            raise ValueError(
                f"{data} is a known dataset: say where its files are with --data, or pass the "
                "path of a file or bank."
            )
    elif folder is not None:
        raise ValueError(f"--data goes with the name of a known dataset ({known}), not {data}.")
    elif not data.exists():
        raise ValueError(
            f"{data} does not exist: pass a file, a bank, or a known dataset ({known}) with --data."
        )


def read_known_dataset(
    name: str, data: Path, out: Path, *, device: str, on_progress: OnProgress
) -> LabelledTable:
    """Read the dataset ``name`` from the user's folder or file ``data``.

    Images and texts are embedded first, into a bank in ``out`` that the next call finds there.
    Raises ``ValueError`` or ``FileNotFoundError`` with one sentence.
    """
    if name not in KNOWN_DATASETS:
        known = ", ".join(KNOWN_DATASETS)
        raise ValueError(f"there is no known dataset {name!r}: choose one of {known}.")
    if not data.exists():
        raise FileNotFoundError(f"{data} does not exist: check --data.")
    if is_bank(data):
        return read_labelled(data)
    return KNOWN_DATASETS[name](data, out / f"{name}-bank", device, on_progress)


def _read_pacs(data: Path, bank: Path, device: str, on_progress: OnProgress) -> LabelledTable:
    """Read PACS: features in a .npz file, or pictures in the layout domain/class/file."""
    if data.is_file():
        return read_labelled(data)
    if (data / _PACS_FEATURES).is_file():
        return read_labelled(data / _PACS_FEATURES)
    root = data / "PACS" if (data / "PACS").is_dir() else data
    if list_entries(root).folders == list(_PACS):
        encoder = load_image_encoder(IMAGE_DEFAULT, device=device)
        meter = Meter(on_progress, "images", _SHOWN_EVERY)
        embed_images(root, encoder, bank, on_count=meter)
        return read_labelled(bank)
    raise FileNotFoundError(
        f"{root} holds neither {_PACS_FEATURES} nor just the folders {', '.join(_PACS)}: pass one "
        "that does with --data."
    )


def _read_amazon(data: Path, bank: Path, device: str, on_progress: OnProgress) -> LabelledTable:
    """Read Amazon reviews: JSON lines with text, label and domain."""
    places = [data / name for name in _AMAZON]
    path = next((p for p in (data, *places) if p.is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"{data} holds no {' or '.join(_AMAZON)}: pass a folder that does with --data, "
            "with text, label and domain on each line."
        )
    encoder = load_text_encoder(TEXT_DEFAULT, device=device)
    meter = Meter(on_progress, "texts", _SHOWN_EVERY)
    embed_texts(path, encoder, bank, on_count=meter)
    return read_labelled(bank)


def _read_office_caltech10(data: Path, *_: object) -> LabelledTable:
    """Read Office-Caltech10: four domains, ten classes, 800-bin histograms of SURF words.

    Rows are divided by their sum, so that a picture's number of keypoints, which follows from its
    size, does not count; rows that are shares already stay as they are.
    """
    parts = {name: _read_mat(data / file) for name, file in _OFFICE_CALTECH.items()}
    X = np.concatenate([counts for counts, _ in parts.values()])
    totals = X.sum(axis=1, keepdims=True)
    sizes = [len(y) for _, y in parts.values()]
    return LabelledTable(
        X=np.divide(X, totals, out=np.zeros_like(X), where=totals > 0),
        y=np.concatenate([y for _, y in parts.values()]),
        domain=np.repeat(list(parts), sizes),
    )


def _read_mat(path: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read histograms ``fts`` (n, d) and ``labels`` (n,) from a MATLAB file."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} does not exist: pass a folder with {', '.join(_OFFICE_CALTECH.values())}."
        )
    try:
        arrays = loadmat(path, variable_names=("fts", "labels"))
        if any(arrays[name].dtype.kind not in "biuf" for name in ("fts", "labels")):
            raise TypeError("NumPy casts a structure of one field to a number")
        counts, labels = arrays["fts"].astype(np.float64), arrays["labels"].astype(np.int64)
    # IndexError: of a few bytes, in SciPy 1.11.
    except (LookupError, MatReadError, NotImplementedError, OSError, TypeError, ValueError):
        raise ValueError(
            f"{path} is no MATLAB file (before version 7.3) with arrays 'fts' and 'labels': "
            "download it again."
        ) from None
    if counts.ndim != 2 or labels.size != len(counts):
        raise ValueError(
            f"{path} has 'fts' of shape {counts.shape} and 'labels' of shape {labels.shape}: it "
            "should have one label for each row."
        )
    if not (counts >= 0).all():
        raise ValueError(
            f"{path} has values below zero or NaN in 'fts': take the raw histograms, not "
            "standardized ones."
        )
    return counts, labels.reshape(-1)


# From the user's folder or file, and where features are computed into, on a device.
KNOWN_DATASETS: dict[str, Callable[[Path, Path, str, OnProgress], LabelledTable]] = {
    "amazon": _read_amazon,
    "office-caltech10": _read_office_caltech10,
    "pacs": _read_pacs,
}
