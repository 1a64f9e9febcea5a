"""The feature banks of PACS and of Amazon reviews, as files that ``regraft sweep`` takes.

python benchmarks/feature_banks.py banks
regraft sweep --datasets PACSFeatures --data banks --out pacs
regraft sweep --datasets AmazonFeatures --data banks --out amazon
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from common import SHARED
from scipy.io import loadmat

REVIEWS = {"books": "books", "dvd": "dvd", "electronics": "elec", "kitchen": "kitchen"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    with np.load(SHARED / "pacs" / "efficientnet_lite0.npz", allow_pickle=False) as pacs:
        np.savez(folder / "PACSFeatures.npz", **pacs)
    parts = [loadmat(SHARED / "amazon_reviews" / f"{file}_400.mat") for file in REVIEWS.values()]
    np.savez(
        folder / "AmazonFeatures.npz",
        X=np.concatenate([part["fts"] for part in parts]).astype(np.float32),
        y=np.concatenate([part["labels"].ravel() for part in parts]),
        domain=np.repeat(np.arange(len(parts)), [len(part["labels"]) for part in parts]),
        domains=np.array(list(REVIEWS)),
    )


if __name__ == "__main__":
    main()
