"""The hyperparameters of a sweep: named, ranged, each drawn from a random state of its own.

Of the hull they are the learner's ridge, the objective and the stop rule; its radius is an
assumption about the deployment, which no source validation can judge, and is not among them. Of
the free adversary they are those of `tab:hp-search-cro` and `tab:hp-search-phase2`; a learner that
is solved does not read the three of its own that they list.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from regraft.bench.protocol.spaces import Hparam, Space, choice, draw_configuration
from regraft.core.certificate import Family
from regraft.core.free_adversary import FreeAdversaryOptions
from regraft.core.surrogates import SurrogateKind


def log_uniform(default: float | None, low: float, high: float) -> Hparam:
    """A number whose logarithm is uniform."""
    bounds = math.log10(low), math.log10(high)
    return Hparam(default, lambda state: 10 ** state.uniform(*bounds))


SPACES: Mapping[Family, Space] = {
    "hull": {
        "cro_gap_eps": log_uniform(1e-3, 1e-3, 1e-2),
        "objective": choice("risk", ["risk", "regret"]),
        "ridge": log_uniform(None, 1e-5, 1e-2),
    },
    "free": {
        "cro_rank": choice(FreeAdversaryOptions.cro_rank, [4, 8, 16]),
        "cro_gap_eps": log_uniform(3e-3, 1e-3, 1e-2),
        "cro_adv_lr": log_uniform(FreeAdversaryOptions.cro_adv_lr, 1e-3, 1e-2),
        "cro_learner_lr": log_uniform(3e-3, 1e-3, 1e-2),
        "cro_lambda_hausdorff": log_uniform(FreeAdversaryOptions.cro_lambda_hausdorff, 0.1, 1.0),
        "cro_lambda_consist": log_uniform(FreeAdversaryOptions.cro_lambda_consist, 10.0, 100.0),
        "cro_lambda_op": log_uniform(FreeAdversaryOptions.cro_lambda_op, 0.1, 1.0),
        "cro_val_frac": choice(FreeAdversaryOptions.cro_val_frac, [0.1]),
        "cro_max_outer_iters": choice(10, [5, 10]),
        "cro_adv_epochs": choice(FreeAdversaryOptions.cro_adv_epochs, [5, 10]),
        "cro_learner_epochs": choice(10, [5, 10]),
        "cro_adv_batch": choice(FreeAdversaryOptions.cro_adv_batch, [32, 64]),
        "cro_learner_batch": choice(64, [32, 64]),
    },
}


def default_surrogate(family: Family) -> SurrogateKind:
    """What the learner sees of a family's targets unless something else is asked for."""
    return "reweighted" if family == "hull" else "relabelled"


def draw_hparams(family: Family, hparams_seed: int, trial_seed: int) -> dict[str, Any]:
    """The configuration ``hparams_seed`` of a trial; number 0 has the defaults."""
    return draw_configuration(SPACES[family], hparams_seed, trial_seed)
