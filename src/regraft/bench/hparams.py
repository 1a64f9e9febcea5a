"""The hyperparameters of a sweep: named, ranged, each drawn from a random state of its own.

Of the hull they are the learner's ridge, the objective and the stop rule; its radius is an
assumption about the deployment, which no source validation can judge, and is not among them. Of
the free adversary they are those of `tab:hp-search-cro` and `tab:hp-search-phase2`; a learner that
is solved does not read the three of its own that they list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from regraft.bench.seeds import hparam_state
from regraft.certificate import Family
from regraft.free import FreeOptions
from regraft.samples import SurrogateKind

_Draw = Callable[[np.random.RandomState], Any]


def log_uniform(low: float, high: float) -> _Draw:
    """A number whose logarithm is uniform."""
    return lambda state: float(10 ** state.uniform(math.log10(low), math.log10(high)))


def choice(*values: Any) -> _Draw:
    """One of ``values``."""
    return lambda state: values[state.randint(len(values))]


# name: (default, random)
SPACES: Mapping[Family, Mapping[str, tuple[Any, _Draw]]] = {
    "hull": {
        "cro_gap_eps": (1e-3, log_uniform(1e-3, 1e-2)),
        "objective": ("risk", choice("risk", "regret")),
        "ridge": (None, log_uniform(1e-5, 1e-2)),
    },
    "free": {
        "cro_rank": (FreeOptions.cro_rank, choice(4, 8, 16)),
        "cro_gap_eps": (3e-3, log_uniform(1e-3, 1e-2)),
        "cro_adv_lr": (FreeOptions.cro_adv_lr, log_uniform(1e-3, 1e-2)),
        "cro_learner_lr": (3e-3, log_uniform(1e-3, 1e-2)),
        "cro_lambda_hausdorff": (FreeOptions.cro_lambda_hausdorff, log_uniform(0.1, 1.0)),
        "cro_lambda_consist": (FreeOptions.cro_lambda_consist, log_uniform(10.0, 100.0)),
        "cro_lambda_op": (FreeOptions.cro_lambda_op, log_uniform(0.1, 1.0)),
        "cro_val_frac": (FreeOptions.cro_val_frac, choice(0.1)),
        "cro_max_outer_iters": (10, choice(5, 10)),
        "cro_adv_epochs": (FreeOptions.cro_adv_epochs, choice(5, 10)),
        "cro_learner_epochs": (10, choice(5, 10)),
        "cro_adv_batch": (FreeOptions.cro_adv_batch, choice(32, 64)),
        "cro_learner_batch": (64, choice(32, 64)),
    },
}


def default_surrogate(family: Family) -> SurrogateKind:
    """What the learner sees of a family's targets unless something else is asked for."""
    return "reweighted" if family == "hull" else "relabelled"


def draw_hparams(family: Family, hparams_seed: int, trial_seed: int) -> dict[str, Any]:
    """The configuration ``hparams_seed`` of a trial; number 0 has the defaults."""
    return {
        name: draw(hparam_state(hparams_seed, trial_seed, name)) if hparams_seed else default
        for name, (default, draw) in SPACES[family].items()
    }
