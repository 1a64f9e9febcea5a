"""``regraft reproduce``: from names to the library's arguments, and its result in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from regraft.bench.datasets.mnist import load_mnist
from regraft.bench.networks.featurizers import PAPERS
from regraft.bench.paper.benchmark import COLORED_MNIST, IMAGE_BENCHMARKS, Benchmark
from regraft.bench.paper.experiment import DATA, PARTS, Reproduction, check_arguments
from regraft.bench.paper.image_reproduction import SIZE, STEPS, reproduce_images
from regraft.bench.paper.pretraining import PRESETS, Preset
from regraft.bench.paper.published import Published
from regraft.bench.paper.report import summarize, summary_heads
from regraft.bench.paper.reproduce import reproduce
from regraft.bench.protocol.selection import Selection
from regraft.cli.console import Screen
from regraft.cli.session import Run
from regraft.core.certificate import Family
from regraft.core.surrogates import SurrogateKind
from regraft.support.progress import Stopwatch

CMNIST = "cmnist"
PAPERS_PRESET = "paper"
_QUICK_STEPS = 20  # of images


@dataclass(frozen=True)
class Options:
    """What a user may set; None takes the benchmark's default, ``quick``'s if that is set."""

    preset: str | None
    encoder: str | None
    weights: Path | None
    steps: int | None
    size: int | None
    cells: str | None
    trials: int | None
    seed: int  # number of the first trial
    configs: int | None
    quick: bool
    family: str
    surrogate: str | None
    device: str
    data: Path | None
    out: Path


def run_reproduce(screen: Screen, run: Run, benchmark: str, options: Options) -> None:
    """Reproduce a benchmark and show the result."""
    names = (CMNIST, *IMAGE_BENCHMARKS)
    if benchmark not in names:
        raise ValueError(
            f"benchmark is {benchmark!r}: choose {', '.join(names[:-1])} or {names[-1]}."
        )
    if benchmark == CMNIST:
        result = _reproduce_cmnist(screen, options)
    else:
        result = _reproduce_images(screen, IMAGE_BENCHMARKS[benchmark], options)
    show(screen, run, result)


def _reproduce_cmnist(screen: Screen, options: Options) -> Reproduction:
    for name in ("encoder", "weights", "steps", "size"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name} is for images: leave it out, or choose a --preset.")
    preset = _preset(options.preset or PAPERS_PRESET)
    scale = _scale(COLORED_MNIST, options)
    check_arguments(*scale, options.family, options.surrogate, options.device, seed=options.seed)
    cells, trials, configs = scale
    watch = Stopwatch(*PARTS)
    with screen.working("reading MNIST") as step:
        with watch.part(DATA):
            images, digits = load_mnist(options.data)
        return reproduce(
            images,
            digits,
            preset=preset,
            out=options.out,
            cells=cells,
            trials=trials,
            seed=options.seed,
            configs=configs,
            family=cast("Family", options.family),
            surrogate=cast("SurrogateKind | None", options.surrogate),
            device=options.device,
            stopwatch=watch,
            on_progress=step,
        )


def _reproduce_images(screen: Screen, benchmark: Benchmark, options: Options) -> Reproduction:
    if options.preset is not None:
        raise ValueError("--preset is for cmnist: leave it out, or choose an --encoder.")
    if options.data is None:
        raise ValueError(f"--data is missing: name the folder of {benchmark.title}'s images.")
    cells, trials, configs = _scale(benchmark, options)
    with screen.working("listing the images") as step:
        return reproduce_images(
            benchmark,
            options.data,
            encoder=options.encoder or PAPERS,
            out=options.out,
            weights=options.weights,
            steps=_first(options.steps, _QUICK_STEPS if options.quick else STEPS),
            size=_first(options.size, SIZE),
            cells=cells,
            trials=trials,
            seed=options.seed,
            configs=configs,
            family=cast("Family", options.family),
            surrogate=cast("SurrogateKind | None", options.surrogate),
            device=options.device,
            on_progress=step,
        )


def _scale(benchmark: Benchmark, options: Options) -> tuple[list[int], int, int]:
    """The cells, the trials and the configurations."""
    names = benchmark.environments
    all_cells = names[-1:] if options.quick else names
    cells = ",".join(all_cells) if options.cells is None else options.cells
    trials, configs = (1, 3) if options.quick else (3, 20)
    return (
        _cells(cells, names),
        _first(options.trials, trials),
        _first(options.configs, configs),
    )


def _first(value: int | None, default: int) -> int:
    return default if value is None else value


def _preset(name: str) -> Preset:
    if name not in PRESETS:
        raise ValueError(f"preset is {name!r}: choose {' or '.join(PRESETS)}.")
    return PRESETS[name]


def _cells(text: str, known: Sequence[str]) -> list[int]:
    names = [name.strip() for name in text.split(",")]
    if not set(names) <= set(known):
        raise ValueError(f"cells are {text!r}: choose from {','.join(known)}.")
    return [known.index(name) for name in names]


def show(screen: Screen, run: Run, result: Reproduction) -> None:
    """Our rows below the published ones that matter, the spread, the time and the files."""
    benchmark = result.benchmark
    names = benchmark.environments
    ours = {**result.baselines, result.label: result.selection}
    rows = [_our_row(label, selection, benchmark) for label, selection in ours.items()]
    heads = ("test accuracy (%)", *names, *summary_heads(benchmark))
    screen.table(heads, _published(benchmark), rows)
    for env, cell in result.selection.cells.items():
        low, high = cell.spread
        screen.say(
            f"{names[env]}: {100 * low:.1f} to {100 * high:.1f} over all configurations and trials"
        )
    seconds = ", ".join(f"{part} {spent:.1f} s" for part, spent in result.seconds.items())
    screen.say("", f"Time: {seconds}")
    run.finish(screen, result.to_dict(), result.files)


def _our_row(label: str, selection: Selection, benchmark: Benchmark) -> Sequence[str]:
    cells = [selection.cells.get(env) for env in range(len(benchmark.environments))]
    means = [100 * cell.mean if cell else None for cell in cells]
    average = None if selection.average is None else 100 * selection.average
    return (label, *map(_percent, (*means, *summarize(means, average, benchmark))))


def _published(benchmark: Benchmark) -> list[Sequence[str]]:
    """ERM, the best other algorithm of DomainBed and the paper's own row."""
    by_name = {row.algorithm: row for row in benchmark.published}
    others = [row for row in benchmark.published if row.algorithm not in ("ERM", "CRO")]
    best = max(others, key=lambda row: row.average)
    return [_row(row, benchmark) for row in (by_name["ERM"], best, by_name["CRO"])]


def _row(row: Published, benchmark: Benchmark) -> Sequence[str]:
    means = [row.cells[env][0] for env in benchmark.environments]
    numbers = (*means, *summarize(means, row.average, benchmark))
    return (f"{row.algorithm} ({row.source})", *map(_percent, numbers))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
