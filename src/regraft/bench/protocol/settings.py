"""Settings of runs that can be checked before anything that computes is imported."""

from __future__ import annotations

from typing import Any

from regraft.support.json_files import load_json

HOLDOUT = 0.2  # share of the rows that are held out
GENERALIZATION, ADAPTATION = "domain_generalization", "domain_adaptation"
UDA = "uda_holdout_fraction"


def read_hparams(text: str) -> dict[str, Any]:
    """Read a JSON object of hyperparameters, or raise ``ValueError`` with one sentence."""
    try:
        values = load_json(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise ValueError(f"hparams are {text!r}: pass a JSON object such as '{{\"lr\": 0.001}}'.")
    return values


def check_settings(
    *,
    steps: int | None = None,
    checkpoint_freq: int | None = None,
    holdout_fraction: float = HOLDOUT,
    task: str = GENERALIZATION,
    uda_holdout_fraction: float = 0.0,
    **seeds: int,
) -> None:
    """Raise ``ValueError`` with one sentence if a run cannot have these settings and seeds."""
    if checkpoint_freq is not None and checkpoint_freq < 1:
        raise ValueError(f"checkpoint_freq is {checkpoint_freq}: pass at least 1.")
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}: pass at least 1.")
    if not 0 < holdout_fraction < 1:
        raise ValueError(f"holdout_fraction is {holdout_fraction}: pass a share between 0 and 1.")
    if task not in (GENERALIZATION, ADAPTATION):
        raise ValueError(f"task is {task!r}: choose {GENERALIZATION} or {ADAPTATION}.")
    if not 0 <= uda_holdout_fraction < 1:
        raise ValueError(f"{UDA} is {uda_holdout_fraction}: pass a share from 0 to below 1.")
    if task == ADAPTATION and not uda_holdout_fraction:
        raise ValueError(f"{UDA} is 0, so there is nothing to adapt to: pass a share such as 0.5.")
    for name, seed in seeds.items():
        if seed < 0:
            raise ValueError(f"{name} is {seed}: pass 0 or more.")
