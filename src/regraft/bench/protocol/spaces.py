"""Hyperparameters with DomainBed's names, defaults and ranges, each drawn from its own seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from regraft.bench.protocol.seeds import hparam_state

Draw = Callable[[np.random.RandomState], Any]
# Which ranges of the common hyperparameters a dataset takes.
Group = Literal["small images", "images", "features", "trained features"]


class Hparam(NamedTuple):
    """A default and how to draw another value."""

    default: Any
    draw: Draw


Space = Mapping[str, Hparam]


def constant(value: Any) -> Hparam:
    """Take the same in every configuration."""
    return Hparam(value, lambda state: value)


def uniform(default: float, low: float, high: float) -> Hparam:
    """Draw a number between ``low`` and ``high``."""
    return Hparam(default, lambda state: state.uniform(low, high))


def whole_uniform(default: int, low: float, high: float) -> Hparam:
    """Draw a number between ``low`` and ``high``, rounded down."""
    return Hparam(default, lambda state: int(state.uniform(low, high)))


def ten_to(default: float | None, low: float, high: float) -> Hparam:
    """Draw ten to a power between ``low`` and ``high``."""
    return Hparam(default, lambda state: 10 ** state.uniform(low, high))


def whole_power(default: int, base: int, low: float, high: float) -> Hparam:
    """Draw ``base`` to a power between ``low`` and ``high``, rounded down."""
    return Hparam(default, lambda state: int(base ** state.uniform(low, high)))


def choice(default: Any, values: list[Any]) -> Hparam:
    """Draw one of ``values`` as NumPy does, which gives a NumPy scalar."""
    return Hparam(default, lambda state: state.choice(values))


def whole_choice(default: int, values: list[int]) -> Hparam:
    """Draw one of ``values`` as a plain integer."""
    return Hparam(default, lambda state: int(state.choice(values)))


_COMMON: Space = {
    "data_augmentation": constant(True),
    "resnet18": constant(False),
    "resnet50_augmix": constant(True),
    "vit": constant(False),
    "dinov2": constant(False),  # with vit
    "vit_attn_tune": constant(False),
    "vit_dropout": choice(0.0, [0.0, 0.1, 0.5]),
    "freeze_bn": constant(False),
    "lars": constant(False),  # these two are of ERM++, but all algorithms' records have them
    "linear_steps": constant(500),
    "pretrained": constant(True),
    "resnet_dropout": choice(0.0, [0.0, 0.1, 0.5]),
    "class_balanced": constant(False),
    "nonlinear_classifier": constant(False),
}
_SMALL_LR, _LARGE_LR = ten_to(1e-3, -4.5, -2.5), ten_to(5e-5, -5, -3.5)
_NO_DECAY, _SOME_DECAY = constant(0.0), ten_to(0.0, -6, -2)
_BY_GROUP: Mapping[Group, Space] = {
    "small images": {
        **_COMMON,
        "lr": _SMALL_LR,
        "weight_decay": _NO_DECAY,
        "batch_size": whole_power(64, 2, 3, 9),
    },
    "images": {
        **_COMMON,
        "lr": _LARGE_LR,
        "weight_decay": _SOME_DECAY,
        "batch_size": whole_power(32, 2, 3, 5.5),
    },
    # DomainBed has no frozen features. Their networks are small, as those of small images are, and
    # start from nothing, so they take those learning rates; the rows are few, as in its folders.
    "features": {
        **_COMMON,
        "lr": _SMALL_LR,
        "weight_decay": _SOME_DECAY,
        "batch_size": whole_power(32, 2, 3, 5.5),
        "featurizer_width": constant(64),
    },
    "trained features": {},  # on which heads are found without steps
}


def common_space(group: Group) -> dict[str, Hparam]:
    """Return what every algorithm has on datasets of a group."""
    return dict(_BY_GROUP[group])


def draw_configuration(space: Space, hparams_seed: int, trial_seed: int) -> dict[str, Any]:
    """Draw configuration ``hparams_seed``, 0 for defaults, in JSON's types."""
    values = {
        name: draw(hparam_state(hparams_seed, trial_seed, name)) if hparams_seed else default
        for name, (default, draw) in space.items()
    }
    return {name: v.item() if isinstance(v, np.generic) else v for name, v in values.items()}
