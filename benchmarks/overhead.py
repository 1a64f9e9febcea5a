"""What a step of each algorithm costs over one of ERM, measured and counted.

    python benchmarks/overhead.py [--batch 32] [--rounds 5]

Steps are of MNIST_CNN on two domains, in the default configuration. Counted are the floating-point
operations of convolutions and matrix products, forward and backward, by torch's own counter; a
step of an algorithm that takes turns is the mean over its turns.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regraft.bench.algorithms import Algorithm, Entry, Task, algorithms
from regraft.bench.protocol.spaces import draw_configuration

SHAPE, DOMAINS, TURNS = (2, 28, 28), 2, 2


def make(entry: Entry) -> Algorithm:
    task = Task(SHAPE, 2, DOMAINS, torch.device("cpu"))
    hparams = draw_configuration(entry.space("small images"), 0, 0)
    torch.manual_seed(0)
    return entry.make(task, hparams, torch.Generator().manual_seed(0))


def seconds(algorithm: Algorithm, x: Tensor, y: Tensor, first: int) -> float:
    """A mean over turns, because some algorithms take them."""
    start = time.perf_counter()
    for step in range(first, first + TURNS):
        algorithm.update(step, x, y)
    return (time.perf_counter() - start) / TURNS


class NoModules:
    """In place of the counter's own tracker of modules, which forbids gradients of features."""

    parents = ("Global",)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def operations(algorithm: Algorithm, x: Tensor, y: Tensor) -> float:
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = NoModules()  # type: ignore[assignment]
    with counter:
        for step in range(TURNS):
            algorithm.update(step, x, y)
    return counter.get_total_flops() / TURNS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32, help="rows a domain")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(DOMAINS, options.batch, *SHAPE, generator=generator)
    y = torch.randint(2, (DOMAINS, options.batch), generator=generator)
    made = {name: make(entry) for name, entry in algorithms().items()}
    counted = {name: operations(algorithm, x, y) for name, algorithm in made.items()}
    measured: dict[str, list[float]] = {name: [] for name in made}
    for turn in range(options.rounds + 1):  # interleaved, so that a slow minute is everybody's
        for name, algorithm in made.items():
            spent = seconds(algorithm, x, y, TURNS * (turn + 1))
            if turn:  # the first is a warm-up
                measured[name].append(spent)
    medians = {name: statistics.median(values) for name, values in measured.items()}
    print(f"{torch.get_num_threads()} threads, {DOMAINS} x {options.batch} rows a step")
    print("| Algorithm | ms a step | time over ERM | operations over ERM |")
    print("|---|---:|---:|---:|")
    for name in sorted(made, key=lambda name: counted[name]):
        ratio, share = medians[name] / medians["ERM"], counted[name] / counted["ERM"]
        print(f"| {name} | {1000 * medians[name]:.0f} | {ratio:.2f} | {share:.2f} |")


if __name__ == "__main__":
    main()
