"""Make the Colored MNIST feature banks: MNIST -> Phase 1 (500 ERM steps) -> 128-d features.

    python benchmarks/make_banks.py --mnist DIR --out benchmarks/data [--ship src/regraft/data]

DIR holds MNIST's four idx files (gzip or plain). For each leave-one-environment-out cell a
featurizer is trained on the two source environments alone; the target environment is embedded,
never trained on. ``--out`` receives full banks (12,000 training rows and the 20 % holdout of each
source, the whole target); ``--ship`` the two small ones that ``regraft demo`` runs on.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn

from regraft.bench.datasets.colored_mnist import ENVIRONMENTS, make_environments
from regraft.bench.datasets.mnist import load_mnist
from regraft.bench.paper.pretraining import embed
from regraft.encoders.mnist_cnn import N_FEATURES, mnist_cnn

STEPS, LEARNING_RATE, BATCH = 500, 1e-3, 64  # Phase 1; the batch is per source
FULL_ROWS, SHIPPED_ROWS, SHIPPED_TARGET_ROWS = 12_000, 6_000, 3_000
SHIPPED_CELLS = ("-90%", "+90%")


def make_cell(target: int, mnist: Path, seed: int, device: str) -> dict[str, np.ndarray]:
    """Train Phase 1 with environment ``target`` held out and embed every environment."""
    torch.manual_seed(seed)
    images, digits = load_mnist(mnist)
    environments = [e.to(device) for e in make_environments(images, digits, seed)]
    # Splits and minibatches continue the stream that drew the environments.
    generator = torch.Generator().manual_seed(seed)
    torch.randperm(len(digits), generator=generator)
    for environment in environments:
        for _ in ("label noise", "colour"):
            torch.rand(len(environment), generator=generator)
    sources = [e for i, e in enumerate(environments) if i != target]
    splits = [torch.randperm(len(e), generator=generator) for e in sources]
    held_out = [order[: len(order) // 5] for order in splits]
    train = [order[len(order) // 5 :] for order in splits]

    featurizer, head = mnist_cnn().to(device), nn.Linear(N_FEATURES, 2).to(device)
    optimizer = torch.optim.Adam([*featurizer.parameters(), *head.parameters()], LEARNING_RATE)
    for _ in range(STEPS):
        picks = [t[torch.randint(len(t), (BATCH,), generator=generator)] for t in train]
        batch = [(e, p.to(device)) for e, p in zip(sources, picks, strict=True)]
        inputs = torch.cat([e.inputs(p) for e, p in batch])
        label = torch.cat([e.y[p] for e, p in batch])
        loss = nn.functional.cross_entropy(head(featurizer(inputs)), label)
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
