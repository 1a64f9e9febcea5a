"""Algorithms as jobs make them, and those that runs have left behind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from regraft.bench.algorithms import Algorithm, Task, find_algorithm
from regraft.bench.cache import KEY, read_cache
from regraft.bench.datasets import Dataset
from regraft.bench.jobs import Job
from regraft.bench.seeds import seed_hash


def make_algorithm(
    job: Job, dataset: Dataset, hparams: Mapping[str, Any], device: torch.device
) -> Algorithm:
    """The job's algorithm before its first step."""
    task = _task(job, dataset, device)
    generator = torch.Generator(device).manual_seed(seed_hash(job.seed, "training"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_hash(job.seed, "weights"))
        algorithm = find_algorithm(job.algorithm).make(task, hparams, generator)
    if device.type == "cuda":  # whose convolutions are fastest with the channels innermost
        algorithm.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return algorithm.to(device)


def describe_model(job: Job, dataset: Dataset, hparams: Mapping[str, Any]) -> dict[str, Any]:
    """What is written beside a trained model, enough to make it again."""
    task = _task(job, dataset, torch.device("cpu"))
    return {
        "args": job.args,
        "hparams": dict(hparams),
        "input_shape": list(task.input_shape),
        "n_classes": task.n_classes,
        "n_domains": task.n_domains,
        "env_names": list(dataset.env_names),
    }


def load_model(path: Path, device: str = "cpu") -> Algorithm:
    """The algorithm in a ``model.safetensors``, ready for ``predict``.

    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}: pass a run's model.safetensors.")
    try:
        with safe_open(path, "pt") as file:
            description = json.loads(file.metadata()[KEY])
        tensors = read_cache(path, description)
        args, hparams = description["args"], description["hparams"]
        shape, n_classes = tuple(description["input_shape"]), description["n_classes"]
        n_domains = description["n_domains"]
    except (SafetensorError, KeyError, TypeError, ValueError):
        tensors = None
    if tensors is None:
        raise ValueError(f"{path} is not a model that a run has left: train it again.")
    place = torch.device(device)
    task = Task(shape, n_classes, n_domains, place, args["compat"])
    with torch.random.fork_rng(devices=[]):
        algorithm = find_algorithm(args["algorithm"]).make(
            task, {**hparams, "pretrained": False}, torch.Generator(place)
        )
    algorithm.load_state_dict(tensors)
    return algorithm.to(place).eval()


def _task(job: Job, dataset: Dataset, device: torch.device) -> Task:
    n_domains = len(dataset.env_names) - len(job.test_envs)
    return Task(dataset.input_shape, dataset.n_classes, n_domains, device, job.compat)
