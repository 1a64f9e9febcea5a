"""Models that DomainBed has trained, as ``regraft/domainbed/export_model.py`` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regraft.bench.algorithms import Task
from regraft.bench.algorithms.erm import ERM
from regraft.bench.algorithms.uniform_features import URM
from regraft.bench.networks.weights import FEATURIZER, rename_digits, strip
from regraft.bench.protocol.models import TrainedModel
from regraft.bench.protocol.spaces import common_space, draw_configuration
from regraft.encoders.weights import put_weights, read_weights
from regraft.support.json_files import parse_object
from regraft.support.reading import read_file

# How the names of the two parts begin whose composition answers, where not as in ERM.
_USUAL = FEATURIZER, "classifier."
_PARTS = {
    "ADRMX": ("featurizer_label.", "classifier_label_1."),
    "ERMPlusPlus": ("network_sma.0.", "network_sma.1."),
    "Fish": ("network.net.0.", "network.net.1."),
    "SagNet": ("network_f.", "network_c."),
}
_OTHERWISE = ("ARM", "MTL")  # whose inputs and features are joined by a context


def load_domainbed_model(path: str | Path, device: str = "cpu") -> TrainedModel:
    """Load a converted ``model.pkl``: the safetensors file, with its JSON file beside it.

    The network must be one that the protocol has, and the algorithm one that answers with a
    classifier on features, as all of DomainBed's do but ARM and MTL. Raises
    ``FileNotFoundError`` or ``ValueError`` with one sentence.
    """
    path = Path(path)
    state, facts = read_weights(path), _read_facts(path.with_suffix(".json"))
    name = facts["args"].get("algorithm")
    featurizer, classifier = (strip(state, prefix) for prefix in _PARTS.get(name, _USUAL))
    if name in _OTHERWISE or not featurizer or not classifier:
        raise ValueError(
            f"{path} is a model of {name}, which does not answer by a classifier on features: only "
            "models that do can be read, such as those of ERM."
        )
    shape = tuple(facts["model_input_shape"])
    task = Task(shape, facts["model_num_classes"], facts["model_num_domains"], torch.device(device))
    defaults = draw_configuration(common_space("images"), 0, 0)
    # Of networks pretrained elsewhere only the form is needed.
    hparams = {**defaults, **facts["model_hparams"], "pretrained": False}
    if hparams["resnet50_augmix"]:  # which wins over resnet18 there
        hparams["resnet18"] = False
    if name == "ADRMX":
        hparams["nonlinear_classifier"] = True
    make = URM if name == "URM" else ERM
    with torch.random.fork_rng(devices=[]):
        algorithm = make(task, hparams, torch.Generator(device))
    put_weights(algorithm.featurizer, rename_digits(featurizer, algorithm.featurizer), str(path))
    put_weights(algorithm.classifier, classifier, str(path))
    return TrainedModel(algorithm.to(device), None)


def _read_facts(path: Path) -> dict[str, Any]:
    numbers = {"model_input_shape", "model_num_classes", "model_num_domains"}
    needed = {"args", "model_hparams", *numbers}
    try:
        facts = parse_object(read_file(path))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no {path}: keep it beside the safetensors file."
        ) from None
    except ValueError:
        facts = {}
    if not needed <= facts.keys():
        raise ValueError(f"{path} is not what export_model.py writes: convert the model again.")
    return facts
