"""Make the Colored MNIST feature banks: MNIST -> Phase 1 (500 ERM steps) -> 128-d features.

    python benchmarks/make_banks.py --mnist DIR --out benchmarks/data [--ship src/regraft/data]

DIR holds MNIST's four idx files (gzip or plain). For each leave-one-environment-out cell a
featurizer is trained on the two source environments alone; the target environment is embedded,
never trained on. ``--out`` receives full banks (12,000 training rows and the 20 % holdout of each
source, the whole target); ``--ship`` the two small ones that ``regraft demo`` runs on.
"""

from __future__ import annotations

import argparse
import gzip
import struct
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor, nn

ENVIRONMENTS = ("+90%", "+80%", "-90%")
FLIP = (0.1, 0.2, 0.9)  # P(colour != label) in each environment
LABEL_NOISE = 0.25
STEPS, LEARNING_RATE, BATCH = 500, 1e-3, 64  # Phase 1; the batch is per source
FULL_ROWS, SHIPPED_ROWS, SHIPPED_TARGET_ROWS = 12_000, 6_000, 3_000
SHIPPED_CELLS = ("-90%", "+90%")


def read_idx(folder: Path, name: str) -> np.ndarray:
    """One idx file, gzip or plain, as an uint8 array."""
    for path, opener in ((folder / f"{name}.gz", gzip.open), (folder / name, open)):
        if path.exists():
            with opener(path, "rb") as file:
                raw = file.read()
            dims = struct.unpack(f">{raw[3]}I", raw[4 : 4 + 4 * raw[3]])
            return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(dims)
    raise SystemExit(f"{folder} has no {name}[.gz]: pass --mnist a folder of MNIST's idx files.")


def colored_mnist(folder: Path, generator: torch.Generator) -> list[tuple[Tensor, Tensor, Tensor]]:
    """(images uint8 n x 28 x 28, label, colour) of DomainBed's three environments."""
    parts = ("train", "t10k")
    images = np.concatenate([read_idx(folder, f"{p}-images-idx3-ubyte") for p in parts])
    digits = np.concatenate([read_idx(folder, f"{p}-labels-idx1-ubyte") for p in parts])
    order = torch.randperm(len(digits), generator=generator)
    x, digit = torch.from_numpy(images)[order], torch.from_numpy(digits)[order]
    environments = []
    for index, flip in enumerate(FLIP):
        xs, ds = x[index::3], digit[index::3]
        noise = torch.rand(len(ds), generator=generator) < LABEL_NOISE
        label = (ds < 5) ^ noise
        colour = label ^ (torch.rand(len(ds), generator=generator) < flip)
        environments.append((xs, label.long(), colour.long()))
    return environments


def paint(images: Tensor, colour: Tensor) -> Tensor:
    """Two-channel images in [0, 1]; the channel ``1 - colour`` is black."""
    x = torch.zeros(len(images), 2, 28, 28, device=images.device)
    x[torch.arange(len(images)), colour] = images.float() / 255
    return x


def mnist_cnn() -> nn.Sequential:
    """DomainBed's MNIST_CNN: four 3x3 convolutions, GroupNorm after each ReLU, mean pooling."""
    layers: list[nn.Module] = []
    for n_in, n_out, stride in ((2, 64, 1), (64, 128, 2), (128, 128, 1), (128, 128, 1)):
        layers += [nn.Conv2d(n_in, n_out, 3, stride, 1), nn.ReLU(), nn.GroupNorm(8, n_out)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


@torch.no_grad()
def embed(featurizer: nn.Module, images: Tensor, colour: Tensor) -> np.ndarray:
    blocks = zip(images.split(2000), colour.split(2000), strict=True)
    features = [featurizer(paint(i, c)).half().cpu() for i, c in blocks]
    return torch.cat(features).numpy()


def make_cell(target: int, mnist: Path, seed: int, device: str) -> dict[str, np.ndarray]:
    """Train Phase 1 with environment ``target`` held out and embed every environment."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    environments = [tuple(t.to(device) for t in e) for e in colored_mnist(mnist, generator)]
    sources = [e for i, e in enumerate(environments) if i != target]
    splits = [torch.randperm(len(e[1]), generator=generator) for e in sources]
    held_out = [order[: len(order) // 5] for order in splits]
    train = [order[len(order) // 5 :] for order in splits]

    featurizer, head = mnist_cnn().to(device), nn.Linear(128, 2).to(device)
    optimizer = torch.optim.Adam([*featurizer.parameters(), *head.parameters()], LEARNING_RATE)
    for _ in range(STEPS):
        picks = [t[torch.randint(len(t), (BATCH,), generator=generator)] for t in train]
        batch = [[a[p.to(device)] for a in e] for e, p in zip(sources, picks, strict=True)]
        images, label, colour = (torch.cat(parts) for parts in zip(*batch, strict=True))
        loss = nn.functional.cross_entropy(head(featurizer(paint(images, colour))), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    featurizer.eval()
    columns: dict[str, list[np.ndarray]] = {k: [] for k in ("X", "y", "colour", "env", "held_out")}
    names = [i for i in range(3) if i != target]
    rows = [
        (names[k], index, is_held_out)
        for k in range(2)
        for index, is_held_out in ((train[k][:FULL_ROWS], False), (held_out[k], True))
    ]
    rows.append((target, torch.arange(len(environments[target][1])), False))
    for env, index, is_held_out in rows:
        images, label, colour = (a[index.to(device)] for a in environments[env])
        columns["X"].append(embed(featurizer, images, colour))
        columns["y"].append(label.cpu().numpy().astype(np.uint8))
        columns["colour"].append(colour.cpu().numpy().astype(np.uint8))
        columns["env"].append(np.full(len(index), env, np.uint8))
        columns["held_out"].append(np.full(len(index), is_held_out, np.uint8))
    return {k: np.concatenate(v) for k, v in columns.items()}


def shrink(bank: dict[str, np.ndarray], target: int) -> dict[str, np.ndarray]:
    """The shipped part of a bank: SHIPPED_ROWS training rows a source, some rows of the target."""
    keep = []
    for env in range(3):
        rows = np.flatnonzero((bank["env"] == env) & (bank["held_out"] == 0))
        keep.append(rows[: SHIPPED_TARGET_ROWS if env == target else SHIPPED_ROWS])
    index = np.concatenate(keep)
    return {k: v[index] for k, v in bank.items() if k != "held_out"}


def write(bank: dict[str, np.ndarray], path: Path, target: int, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {
        "environments": ",".join(ENVIRONMENTS),
        "target": ENVIRONMENTS[target],
        "featurizer": f"MNIST_CNN, {STEPS} ERM steps",
        "seed": str(seed),
    }
    temporary = path.with_suffix(".tmp")
    save_file({k: np.ascontiguousarray(v) for k, v in bank.items()}, temporary, metadata)
    temporary.replace(path)
    print(f"{path}: {len(bank['y'])} rows, {path.stat().st_size / 1e6:.2f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mnist", type=Path, required=True, help="folder of MNIST's idx files")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/data"))
    parser.add_argument("--ship", type=Path, help="also write the two banks of `regraft demo` here")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    for target, name in enumerate(ENVIRONMENTS):
        start = time.perf_counter()
        bank = make_cell(target, args.mnist, args.seed, args.device)
        print(f"cell {name}: {time.perf_counter() - start:.1f} s on {args.device}", flush=True)
        write(bank, args.out / f"cmnist_{target}_seed{args.seed}.safetensors", target, args.seed)
        if args.ship and name in SHIPPED_CELLS:
            small = shrink(bank, target)
            write(small, args.ship / f"cmnist_{target}.safetensors", target, args.seed)


if __name__ == "__main__":
    main()
