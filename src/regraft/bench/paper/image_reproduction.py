"""The paper's experiments on folders of images: PACS and OfficeHome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from regraft.bench.algorithms.games import default_surrogate
from regraft.bench.datasets.folders import PACS, ImageFolders, Listing, OfficeHome
from regraft.bench.networks.featurizers import load_featurizer
from regraft.bench.paper.benchmark import Benchmark
from regraft.bench.paper.experiment import (
    DATA,
    PARTS,
    ExperimentPlan,
    Reproduction,
    check_arguments,
    conduct,
    own_folder,
)
from regraft.bench.paper.fine_tuning import Recipe
from regraft.bench.paper.image_phase1 import ImageTrainer, make_pool
from regraft.bench.paper.phase1 import PhaseOne
from regraft.bench.paper.picture_store import fingerprint, load_pictures
from regraft.core.certificate import Family
from regraft.core.surrogates import SurrogateKind
from regraft.data.image_folders import list_entries
from regraft.encoders.weights import fingerprint as weights_digest
from regraft.support.progress import Stopwatch

STEPS = 5000
SIZE = 224
_DATASETS: dict[str, type[ImageFolders]] = {"PACS": PACS, "OfficeHome": OfficeHome}


def reproduce_images(
    benchmark: Benchmark,
    data: Path,
    *,
    encoder: str,
    out: Path,
    weights: Path | None = None,
    steps: int = STEPS,
    size: int = SIZE,
    cells: Sequence[int],
    trials: int = 3,
    seed: int = 0,
    configs: int = 20,
    family: Family = "hull",
    surrogate: SurrogateKind | None = None,
    device: str = "cpu",
    on_progress: Callable[[str], None] | None = None,
) -> Reproduction:
    """Reproduce the paper's experiment on PACS or OfficeHome.

    Stopped at any moment, it goes on from there when called again. Parameters that are not listed
    are those of :func:`~regraft.bench.paper.reproduce.reproduce`.

    Parameters
    ----------
    benchmark
        Which of the two.
    data
        The folder with a folder of class folders for each environment, or the one that holds it
        under DomainBed's name.
    encoder
        The network that Phase 1 fine-tunes.
    weights
        The file of its pretrained parameters; None takes its own.
    steps, size
        How long it is trained, and the pixels on each side of what it sees.

    Returns
    -------
    Reproduction
        The records, what was selected among them, and the files.

    Raises
    ------
    ValueError, FileNotFoundError, MissingExtra
        With one sentence.
    """
    check_arguments(cells, trials, configs, family, surrogate, device, benchmark, seed=seed)
    check_training(steps, size)
    tell = on_progress or (lambda _: None)
    watch = Stopwatch(*PARTS)
    surrogate = surrogate or default_surrogate(family)
    with watch.part(DATA):
        listings = list_images(benchmark, data)
        tell(f"loading {encoder}")
        featurizer = load_featurizer(encoder, weights)
        featurizer.n_features(size)  # refuses a size before anything is written
        recipe = Recipe(encoder, weights_digest(featurizer.network), steps, size)
        tell("reading the images")
        files = fingerprint(listings)
    plan = ExperimentPlan(
        benchmark, recipe.name, cells, trials, configs, family, surrogate, device, out, seed
    )
    with own_folder(out, files, recipe):
        with watch.part(DATA):
            pictures = load_pictures(listings, files, size, out / "pictures", tell)
            pool = make_pool(pictures, torch.device(device))
        sizes = tuple(len(listing.labels) for listing in listings)
        trainer = ImageTrainer(pool, sizes, benchmark.n_classes, featurizer, recipe)
        return conduct(plan, PhaseOne(benchmark, trainer, files, out), watch, tell)


def check_training(steps: int, size: int) -> None:
    """Raise ``ValueError`` with one sentence for a training that cannot be."""
    if steps < 1:
        raise ValueError(f"steps is {steps}: pass at least 1.")
    if size < 32:
        raise ValueError(f"size is {size}: pass at least 32 pixels.")


def list_images(benchmark: Benchmark, data: Path) -> list[Listing]:
    """List the images of every environment, of all classes in each.

    ``data`` is the folder of the dataset, or the one that holds it. Raises ``FileNotFoundError``
    or ``ValueError`` with one sentence.
    """
    dataset = _DATASETS[benchmark.name](data)
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
