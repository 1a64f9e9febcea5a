"""The paper's experiments from pixels to tables and figures, on coloured digits and on images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regraft.bench.datasets import open_dataset
from regraft.bench.datasets.folders import ImageFolders, Listing
from regraft.bench.networks.featurizers import load_featurizer
from regraft.bench.paper import picture_store, pretraining
from regraft.bench.paper.benchmark import COLORED_MNIST, Benchmark
from regraft.bench.paper.experiment import (
    DATA,
    PARTS,
    ExperimentPlan,
    Reproduction,
    conduct,
    own_folder,
)
from regraft.bench.paper.fine_tuning import ImageTrainer, Recipe, make_pool
from regraft.bench.paper.phase1 import PhaseOne
from regraft.data.image_folders import list_entries
from regraft.encoders.weights import fingerprint as weights_digest
from regraft.support.progress import OnProgress, Stopwatch, ignore_progress

STEPS = 5000
SIZE = 224


def reproduce(
    images: NDArray[np.uint8],
    digits: NDArray[np.uint8],
    *,
    preset: pretraining.Preset,
    out: Path,
    stopwatch: Stopwatch | None = None,
    on_progress: OnProgress = ignore_progress,
    **settings: Any,
) -> Reproduction:
    """Reproduce the paper's experiment on Colored MNIST.

    Stopped at any moment, it goes on from there when called again; cells, trials, configurations,
    families, surrogates, presets and types of devices can be added to a folder, in which each
    preset, family and surrogate has a folder of its own.

    ``images`` (n, 28, 28) and ``digits`` (n,) are MNIST, ``preset`` says how Phase 1 trains, and
    ``settings`` are the further fields of an ``ExperimentPlan``: what is run, and on which device.
    Raises ``ValueError`` with one sentence if an argument is wrong, if the folder ``out`` was made
    with other images or another preset of the same name, or if another process is at work in it.
    """
    plan = ExperimentPlan(COLORED_MNIST, preset.name, out, **settings)
    plan.check()
    watch = stopwatch or Stopwatch(*PARTS)
    with watch.part(DATA):
        data = pretraining.fingerprint(images, digits)
    trainer = pretraining.DigitTrainer(images, digits, preset, torch.device(plan.device))
    with own_folder(out, data, preset):
        return conduct(plan, PhaseOne(COLORED_MNIST, trainer, data, out), watch, on_progress)


def reproduce_images(
    benchmark: Benchmark,
    data: Path,
    *,
    encoder: str,
    out: Path,
    weights: Path | None = None,
    steps: int = STEPS,
    size: int = SIZE,
    on_progress: OnProgress = ignore_progress,
    **settings: Any,
) -> Reproduction:
    """Reproduce the paper's experiment on PACS or OfficeHome.

    Stopped at any moment, it goes on from there when called again.

    ``data`` holds a folder of class folders for each environment, or has such a folder under
    DomainBed's name. Phase 1 fine-tunes the network ``encoder`` on images of ``size`` x ``size``
    pixels, from its own pretrained parameters or from those in the file ``weights``. Raises
    ``ValueError``, ``FileNotFoundError`` or ``MissingExtra`` with one sentence.
    """
    recipe = Recipe(encoder, "", steps, size)
    plan = ExperimentPlan(benchmark, recipe.name, out, **settings)
    plan.check()
    if steps < 1:
        raise ValueError(f"steps is {steps}: pass at least 1.")
    if size < 32:
        raise ValueError(f"size is {size}: pass at least 32 pixels.")
    watch = Stopwatch(*PARTS)
    with watch.part(DATA):
        listings = list_images(benchmark, data)
        on_progress(f"loading {encoder}")
        featurizer = load_featurizer(encoder, weights)
        featurizer.n_features(size)  # refuses a size before anything is written
        recipe = replace(recipe, weights=weights_digest(featurizer.network))
        on_progress("reading the images")
        files = picture_store.fingerprint(listings)
    with own_folder(out, files, recipe):
        with watch.part(DATA):
            pictures = picture_store.load_pictures(
                listings, files, size, out / "pictures", on_progress
            )
            pool = make_pool(pictures, torch.device(plan.device))
        sizes = tuple(len(listing.labels) for listing in listings)
        trainer = ImageTrainer(pool, sizes, benchmark.n_classes, featurizer, recipe)
        return conduct(plan, PhaseOne(benchmark, trainer, files, out), watch, on_progress)


def list_images(benchmark: Benchmark, data: Path) -> list[Listing]:
    """List the images of every environment, of all classes in each.

    ``data`` is the folder of the dataset, or the one that holds it. Raises ``FileNotFoundError``
    or ``ValueError`` with one sentence.
    """
    dataset = open_dataset(benchmark.name, data)
    assert isinstance(dataset, ImageFolders)
    if data.is_dir() and not dataset.root.is_dir():
        dataset.root = data
    for listing in dataset.listings:
        environment = Path(listing.paths[0]).parents[1]
        names = list_entries(environment).folders
        absent = [name for label, name in enumerate(names) if label not in listing.labels]
        if absent:
            raise ValueError(
                f"{environment} has no images of {', '.join(absent)}: put some there, for every "
                "environment needs all classes."
            )
    return dataset.listings
