"""Engines by name: where and how the runs of a sweep are executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regraft.bench.engines.base import Engine, EngineOptions
from regraft.bench.engines.local import LocalEngine
from regraft.bench.engines.ray import RayEngine
from regraft.bench.engines.slurm import SlurmEngine

__all__ = ["ENGINES", "Engine", "EngineOptions", "make_engine"]


@dataclass(frozen=True)
class _EngineEntry:
    """Engine with the options that not all engines have."""

    make: Callable[[EngineOptions], Engine]
    own: tuple[str, ...] = ()


ENGINES = {
    "local": _EngineEntry(lambda o: LocalEngine(o.device, o.workers)),
    "ray": _EngineEntry(RayEngine, ("address", "gpus_per_worker")),
    "slurm": _EngineEntry(SlurmEngine, ("gpus_per_worker", "slurm_partition", "slurm_time")),
}


def make_engine(name: str, options: EngineOptions) -> Engine:
    """Return the engine ``name``.

    An unknown name, or an option that this engine does not use, raises ``ValueError``; a package
    that is not installed raises ``MissingExtra``.
    """
    if name not in ENGINES:
        raise ValueError(f"engine is {name!r}: choose from {', '.join(ENGINES)}.")
    for option in sorted({option for kind in ENGINES.values() for option in kind.own}):
        value = getattr(options, option)
        if value is None:
            continue
        if option not in ENGINES[name].own:
            flag = option.replace("_", "-")
            raise ValueError(f"--{flag} means nothing to the {name} engine: leave it out.")
        if not isinstance(value, str) and value <= 0:
            raise ValueError(f"{option} is {value}: pass a number above 0.")
    if options.workers is not None and options.workers < 1:
        raise ValueError(f"workers is {options.workers}: pass at least 1.")
    return ENGINES[name].make(options)
