"""Make the Colored MNIST feature banks: MNIST -> Phase 1 (500 ERM steps) -> 128-d features.

    python benchmarks/make_banks.py --mnist DIR --out benchmarks/data [--ship src/regraft/data]
    python benchmarks/make_banks.py --mnist DIR --pixels src/regraft/data

DIR holds MNIST's four idx files (gzip or plain). For each leave-one-environment-out cell a
featurizer is trained on the two source environments alone; the target environment is embedded,
never trained on. ``--out`` receives full banks (12,000 training rows and the 20 % holdout of each
source, the whole target); ``--ship`` the two small ones that ``regraft demo`` runs on. ``--pixels``
draws the same rows again, without training, and writes the images behind the first ones of the two
small banks beside them.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from regraft.bench.datasets.colored_mnist import ENVIRONMENTS, ColouredDigits, make_environments
from regraft.bench.datasets.mnist import load_mnist
from regraft.bench.paper.pretraining import embed
from regraft.encoders.mnist_cnn import N_FEATURES, mnist_cnn

STEPS, LEARNING_RATE, BATCH = 500, 1e-3, 64  # Phase 1; the batch is per source
FULL_ROWS, SHIPPED_ROWS, SHIPPED_TARGET_ROWS = 12_000, 6_000, 3_000
PICTURED_ROWS = 120  # of each source of a shipped bank
SHIPPED_CELLS = ("-90%", "+90%")


@dataclass(frozen=True)
class Draw:
    """The environments of a cell, and the rows of its sources for training and for holding out."""

    environments: tuple[ColouredDigits, ...]
    sources: list[int]  # numbers of the two environments
    held_out: list[Tensor]
    train: list[Tensor]
    generator: torch.Generator  # which the minibatches continue


def draw_cell(target: int, mnist: Path, seed: int) -> Draw:
    """Draw environments and splits with environment ``target`` held out."""
    images, digits = load_mnist(mnist)
    environments = make_environments(images, digits, seed)
    # Splits and minibatches continue the stream that drew the environments.
    generator = torch.Generator().manual_seed(seed)
    torch.randperm(len(digits), generator=generator)
    for environment in environments:
        for _ in ("label noise", "colour"):
            torch.rand(len(environment), generator=generator)
    names = [i for i in range(3) if i != target]
    splits = [torch.randperm(len(environments[i]), generator=generator) for i in names]
    held_out = [order[: len(order) // 5] for order in splits]
    train = [order[len(order) // 5 :] for order in splits]
    return Draw(environments, names, held_out, train, generator)


def train_featurizer(draw: Draw, device: str) -> nn.Module:
    """Train Phase 1 on the sources of ``draw``, and return its network without the head."""
    sources = [draw.environments[i].to(device) for i in draw.sources]
    featurizer, head = mnist_cnn().to(device), nn.Linear(N_FEATURES, 2).to(device)
    optimizer = torch.optim.Adam([*featurizer.parameters(), *head.parameters()], LEARNING_RATE)
    for _ in range(STEPS):
        picks = [t[torch.randint(len(t), (BATCH,), generator=draw.generator)] for t in draw.train]
        batch = [(e, p.to(device)) for e, p in zip(sources, picks, strict=True)]
        inputs = torch.cat([e.inputs(p) for e, p in batch])
        label = torch.cat([e.y[p] for e, p in batch])
        loss = nn.functional.cross_entropy(head(featurizer(inputs)), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return featurizer.eval()


def make_cell(target: int, mnist: Path, seed: int, device: str) -> dict[str, np.ndarray]:
    """Train Phase 1 with environment ``target`` held out and embed every environment."""
    torch.manual_seed(seed)
    draw = draw_cell(target, mnist, seed)
    environments = [e.to(device) for e in draw.environments]
    train, held_out = draw.train, draw.held_out
    featurizer = train_featurizer(draw, device)
    columns: dict[str, list[np.ndarray]] = {k: [] for k in ("X", "y", "colour", "env", "held_out")}
    rows = [
        (draw.sources[k], index, is_held_out)
        for k in range(2)
        for index, is_held_out in ((train[k][:FULL_ROWS], False), (held_out[k], True))
    ]
    rows.append((target, torch.arange(len(environments[target])), False))
    features = [embed(featurizer, environment) for environment in environments]
    for env, index, is_held_out in rows:
        columns["X"].append(features[env][index].numpy())
        columns["y"].append(environments[env].y.cpu()[index].numpy().astype(np.uint8))
        columns["colour"].append(environments[env].colour.cpu()[index].numpy().astype(np.uint8))
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


def picture_rows(bank: dict[str, np.ndarray], draw: Draw) -> dict[str, np.ndarray]:
    """Find the images of the first rows of each source of a shipped bank, and check the others."""
    columns: dict[str, list[np.ndarray]] = {"images": [], "y": [], "colour": [], "row": []}
    first = 0
    for source, index in zip(draw.sources, draw.train, strict=True):
        environment, rows = draw.environments[source], index[:SHIPPED_ROWS]
        there = bank["env"] == source
        for name in ("y", "colour"):
            drawn = getattr(environment, name)[rows].numpy()
            if not np.array_equal(bank[name][there], drawn):
                raise ValueError(f"the bank has another {name} than this draw: pass its --seed.")
            columns[name].append(drawn[:PICTURED_ROWS].astype(np.uint8))
        columns["images"].append(environment.images[rows[:PICTURED_ROWS]].numpy())
        columns["row"].append(first + np.arange(PICTURED_ROWS))
        first += len(rows)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def write_pixels(folder: Path, mnist: Path, seed: int) -> None:
    """Write the images behind rows of the banks that lie in ``folder``."""
    arrays = {}
    for name in SHIPPED_CELLS:
        target = ENVIRONMENTS.index(name)
        bank = load_file(folder / f"cmnist_{target}.safetensors")
        found = picture_rows(bank, draw_cell(target, mnist, seed))
        arrays |= {f"{column}_{target}": values for column, values in found.items()}
    save(arrays, folder / "cmnist_pixels.safetensors", {"seed": str(seed)})


def write(bank: dict[str, np.ndarray], path: Path, target: int, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {
        "environments": ",".join(ENVIRONMENTS),
        "target": ENVIRONMENTS[target],
        "featurizer": f"MNIST_CNN, {STEPS} ERM steps",
        "seed": str(seed),
    }
    save(bank, path, metadata)


def save(arrays: dict[str, np.ndarray], path: Path, metadata: dict[str, str]) -> None:
    temporary = path.with_suffix(".tmp")
    save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, temporary, metadata)
    temporary.replace(path)
    print(f"{path}: {path.stat().st_size / 1e6:.2f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mnist", type=Path, required=True, help="folder of MNIST's idx files")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/data"))
    parser.add_argument("--ship", type=Path, help="also write the two banks of `regraft demo` here")
    parser.add_argument(
        "--pixels", type=Path, help="only write the images of the banks that --ship wrote here"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    if args.pixels:
        write_pixels(args.pixels, args.mnist, args.seed)
        return
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
