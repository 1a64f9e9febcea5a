"""Algorithms as jobs make them, and those that runs have left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regraft.bench.algorithms import Algorithm, Task, algorithms, find_algorithm
from regraft.bench.datasets import Dataset
from regraft.bench.networks.weights import WEIGHTS
from regraft.bench.plugins import load_plugins
from regraft.bench.protocol.cache import KEY, read_cache
from regraft.bench.protocol.jobs import PLUGIN, Job
from regraft.bench.protocol.seeds import seed_hash
from regraft.bench.protocol.settings import ADAPTATION
from regraft.support.digests import digest_file
from regraft.support.json_files import load_json

_DIGITS = 12  # of the checksum of a file of weights
_UNITS = ("inputs.mean", "inputs.scale")


def make_algorithm(
    job: Job,
    dataset: Dataset,
    hparams: Mapping[str, Any],
    device: torch.device,
    weights: Path | None = None,
) -> Algorithm:
    """Make the job's algorithm as it is before its first step.

    ``weights`` is the file that its featurizer starts from, which the job knows by its checksum.
    """
    if job.weights:
        if weights is None or weights_checksum(weights) != job.weights:
            raise ValueError(f"{weights} has other weights than the run is for: put those back.")
        hparams = {**hparams, "pretrained": False, WEIGHTS: str(weights)}
    task = _task(job, dataset, device)
    generator = torch.Generator(device).manual_seed(seed_hash(job.seed, "training"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_hash(job.seed, "weights"))
        algorithm = dataset.find_algorithm(job.algorithm).make(task, hparams, generator)
    if device.type == "cuda":  # whose convolutions are fastest with the channels innermost
        algorithm.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return algorithm.to(device)


def weights_checksum(path: Path) -> str:
    """Return what jobs know a file of weights by; ``FileNotFoundError`` if there is none."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: name the weights with --weights.")
    return digest_file(path)[:_DIGITS]


def describe_model(job: Job, dataset: Dataset, hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is written beside a trained model, enough to make it again."""
    task = _task(job, dataset, torch.device("cpu"))
    return {
        "args": job.args,
        "hparams": dict(hparams),
        "input_shape": list(task.input_shape),
        "n_classes": task.n_classes,
        "n_domains": task.n_domains,
        "n_unlabelled": task.n_unlabelled,
        "env_names": list(dataset.env_names),
    }


def model_tensors(algorithm: Algorithm, units: tuple[Tensor, Tensor] | None) -> dict[str, Tensor]:
    """Return a trained model's tensors; ``units`` are those of its inputs, if it has any."""
    tensors = dict(algorithm.state_dict())
    return tensors if units is None else tensors | dict(zip(_UNITS, units, strict=True))


class TrainedModel:
    """An algorithm as a run has left it."""

    def __init__(self, algorithm: Algorithm, units: tuple[Tensor, Tensor] | None) -> None:
        self.algorithm, self._units = algorithm.eval(), units

    @torch.no_grad()
    def logits(self, x: Any) -> Tensor:
        """Return (n, C) for ``x`` (n, ...), rows of one domain: an array or a tensor.

        Features are as they are in the bank; images are as the dataset's ``inputs`` gives them.
        """
        rows = torch.as_tensor(x, dtype=torch.float32, device=self.algorithm.task.device)
        expected = self.algorithm.task.input_shape
        if rows.shape[1:] != expected or rows.ndim == 0:
            raise ValueError(
                f"x has the shape {tuple(rows.shape)}, and the model takes rows of the shape "
                f"{tuple(expected)}: pass an array (n, {', '.join(map(str, expected))})."
            )
        if self._units is not None:
            mean, scale = self._units
            rows = (rows - mean) / scale
        return self.algorithm.predict(rows)

    def predict(self, x: Any) -> Tensor:
        """Return the numbers (n,) of the classes, in their sorted order."""
        return self.logits(x).argmax(dim=1)


def load_model(
    path: str | Path, device: str = "cpu", plugins: str | Path | Sequence[str | Path] = ()
) -> TrainedModel:
    """Load a run's ``model.safetensors``; ``FileNotFoundError`` or ``ValueError`` if it is none.

    The file ``plugins``, or several, are run first: pass those that have the model's algorithm and
    dataset. A text may name several, separated by commas.
    """
    path, place = Path(path), torch.device(device)
    load_plugins(_plugin_files(plugins))
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}: pass a run's model.safetensors.")
    try:
        with safe_open(path, "pt") as file:
            description = load_json(file.metadata()[KEY])
        tensors = read_cache(path, description)
        args, hparams = description["args"], description["hparams"]
        shape, n_classes = tuple(description["input_shape"]), description["n_classes"]
        task = Task(
            shape,
            n_classes,
            description["n_domains"],
            place,
            args["compat"],
            n_unlabelled=description.get("n_unlabelled", 0),
        )
    except (SafetensorError, KeyError, TypeError, ValueError):
        tensors = None
    if tensors is None:
        raise ValueError(f"{path} is not a model that a run has left: train it again.")
    name = args["algorithm"]
    if name not in algorithms() and PLUGIN in args:
        files = "these files" if ", " in args[PLUGIN] else "that file"
        raise ValueError(
            f"{path} is of the algorithm {name} of {args[PLUGIN]}: pass {files} as plugins."
        )
    with torch.random.fork_rng(devices=[]):
        algorithm = find_algorithm(name).make(
            task, {**hparams, "pretrained": False}, torch.Generator(place)
        )
    units = None
    if set(_UNITS) <= tensors.keys():
        mean, scale = (tensors.pop(name).to(place) for name in _UNITS)
        units = mean, scale
    algorithm.load_state_dict(tensors)
    return TrainedModel(algorithm.to(place), units)


def _plugin_files(plugins: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files, of which a text may name several, separated by commas."""
    if isinstance(plugins, str):
        return [Path(name.strip()) for name in plugins.split(",") if name.strip()]
    return [plugins] if isinstance(plugins, Path) else list(map(Path, plugins))


def _task(job: Job, dataset: Dataset, device: torch.device) -> Task:
    n_domains = len(dataset.env_names) - len(job.test_envs)
    return Task(
        dataset.input_shape,
        dataset.n_classes,
        n_domains,
        device,
        job.compat,
        job.seed,
        per_domain=job.per_domain or job.compat,
        n_unlabelled=len(job.test_envs) if job.task == ADAPTATION else 0,
    )
