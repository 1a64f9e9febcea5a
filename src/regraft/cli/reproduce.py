"""``regraft reproduce``: one of the paper's experiments, our numbers beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.names import BENCHMARKS, FAMILIES, PRESETS, SURROGATES
from regraft.cli.options import Device, TrialSeed, Weights, among, choice, one_of, path_option
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.bench.paper.experiment import Reproduction

CMNIST = "cmnist"
_QUICK_STEPS = 20  # of images


@command("reproduce", resumes=True, html=True, traced=False, loading="loading torch")
def reproduce_command(
    session: Session,
    benchmark: Annotated[
        str,
        typer.Argument(
            help="cmnist (Colored MNIST), pacs or officehome, from pixels.",
            autocompletion=among(*BENCHMARKS),
        ),
    ],
    preset: Annotated[
        str | None, choice("How Phase 1 of cmnist trains: paper (default) or best.", *PRESETS)
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="What Phase 1 of images fine-tunes: efficientnet_lite0 or a name of timm's. "
            "Default: resnet50.ram_in1k."
        ),
    ] = None,
    weights: Weights = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps of Phase 1 of images. Default: 5000.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Pixels of images on each side. Default: 224.")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Default: 3.")] = None,
    seed: TrialSeed = 0,
    configs: Annotated[int | None, typer.Option(help="Default: 20 a trial.")] = None,
    cells: Annotated[
        str | None,
        typer.Option(help='Held-out domains, such as "+90%,-90%" or A,S. Default: all.'),
    ] = None,
    family: Annotated[
        str, choice(f"The adversary's domains: {one_of(*FAMILIES)}.", *FAMILIES)
    ] = "hull",
    surrogate: Annotated[
        str | None,
        choice(
            "What the learner sees of them: reweighted (of the hull, by default), relabelled (of "
            "the free family) or transplanted.",
            *SURROGATES,
        ),
    ] = None,
    device: Device = "cpu",
    data: Annotated[
        Path | None, path_option("Folder of MNIST's four files, or of images as domain/class/file.")
    ] = None,
    out: Annotated[
        Path | None, path_option("Folder for the files. Default: regraft-BENCHMARK.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="One cell (the last), one trial, three configurations, 20 steps of images.",
        ),
    ] = False,
) -> None:
    """Run one of the paper's experiments and set our numbers beside the published ones.

    Stopped at any moment, it goes on from there when the same command is run again.
    """
    from regraft.bench.networks.featurizers import PAPERS
    from regraft.bench.paper.benchmark import COLORED_MNIST, IMAGE_BENCHMARKS
    from regraft.bench.paper.reproduce import SIZE, STEPS, reproduce_images

    out = out or Path(f"regraft-{benchmark}")
    session.write_to(out)
    known = {CMNIST: COLORED_MNIST, **IMAGE_BENCHMARKS}
    if benchmark not in known:
        raise ValueError(f"benchmark is {benchmark!r}: choose {one_of(*known)}.")
    names = known[benchmark].environments
    most_trials, most_configs = (1, 3) if quick else (3, 20)
    settings: dict[str, Any] = {
        "cells": _find_cells(cells, names, names[-1:] if quick else names),
        "trials": _first(trials, most_trials),
        "configs": _first(configs, most_configs),
        "seed": seed,
        "family": family,
        "surrogate": surrogate,
        "device": device,
        "out": out,
    }
    if benchmark == CMNIST:
        _refuse("images", "a --preset", encoder=encoder, weights=weights, steps=steps, size=size)
        result = _reproduce_cmnist(session, preset, data, settings)
    else:
        _refuse("cmnist", "an --encoder", preset=preset)
        if data is None:
            title = known[benchmark].title
            raise ValueError(f"--data is missing: name the folder of {title}'s images.")
        settings |= {"encoder": encoder or PAPERS, "weights": weights, "size": _first(size, SIZE)}
        settings["steps"] = _first(steps, _QUICK_STEPS if quick else STEPS)
        with session.working("listing the images") as step:
            result = reproduce_images(known[benchmark], data, **settings, on_progress=step)
    show(session, result, data)


def _reproduce_cmnist(
    session: Session, preset: str | None, data: Path | None, settings: dict[str, Any]
) -> Reproduction:
    from regraft.bench.datasets.mnist import load_mnist
    from regraft.bench.paper.benchmark import COLORED_MNIST
    from regraft.bench.paper.experiment import DATA, PARTS, ExperimentPlan
    from regraft.bench.paper.pretraining import PRESETS as PRETRAININGS
    from regraft.bench.paper.reproduce import reproduce
    from regraft.support.progress import Stopwatch

    name = preset or "paper"
    if name not in PRETRAININGS:
        raise ValueError(f"preset is {name!r}: choose {' or '.join(PRETRAININGS)}.")
    ExperimentPlan(COLORED_MNIST, name, **settings).check()
    watch = Stopwatch(*PARTS)
    with session.working("reading MNIST") as step:
        with watch.part(DATA):
            images, digits = load_mnist(data)
        return reproduce(
            images,
            digits,
            preset=PRETRAININGS[name],
            stopwatch=watch,
            on_progress=step,
            **settings,
        )


def _refuse(meant_for: str, instead: str, **options: Any) -> None:
    """Refuse options that are for other benchmarks."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"--{name} is for {meant_for}: leave it out, or choose {instead}.")


def _first(value: int | None, default: int) -> int:
    return default if value is None else value


def _find_cells(text: str | None, known: Sequence[str], default: Sequence[str]) -> list[int]:
    names = list(default) if text is None else [name.strip() for name in text.split(",")]
    if not set(names) <= set(known):
        raise ValueError(f"cells are {text!r}: choose from {','.join(known)}.")
    return [known.index(name) for name in names]


def show(session: Session, result: Reproduction, data: Path | None = None) -> None:
    """Print our rows below the published ones that matter, the spread, the time and the files."""
    from regraft.bench.paper.report import short_rows, summary_heads

    names = result.benchmark.environments
    heads = ("test accuracy (%)", *names, *summary_heads(result.benchmark))
    session.table(heads, *short_rows(result.selections, result.benchmark))
    for env, cell in result.selection.cells.items():
        low, high = cell.spread
        session.say(
            f"{names[env]}: {100 * low:.1f} to {100 * high:.1f} over all configurations and trials"
        )
    seconds = ", ".join(f"{part} {spent:.1f} s" for part, spent in result.seconds.items())
    session.say("", f"Time: {seconds}")
    session.finish(result.to_dict(), result.files, read=[data])
