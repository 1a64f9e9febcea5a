"""Options that always come together: a parameter of this type declares all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regraft.cli.names import ROW_ENGINES
from regraft.cli.options import (
    Address,
    Categorical,
    ClassGroups,
    Compat,
    Device,
    Domain,
    Drop,
    Features,
    Holdout,
    Id,
    Label,
    Memory,
    ModelDomain,
    ModelLabel,
    NewEncoder,
    NewPath,
    NewText,
    NGroups,
    OnBroken,
    PerDomain,
    PriorShift,
    Rank,
    RowEngineName,
    Swad,
    Task,
    UdaHoldout,
    Weights,
    Workers,
    choose_columns,
)

if TYPE_CHECKING:
    from regraft.data.columns import ColumnChoice
    from regraft.data.labelled import LabelledTable
    from regraft.encoders.new_inputs import NewInputs

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table of sources, as a user names them."""

    label: Label = "label"
    domain: Domain = "domain"
    features: Features = None
    drop: Drop = None
    categorical: Categorical = None
    id_column: Id = None

    def choose(self) -> ColumnChoice:
        """Return which columns are features, and how they are read."""
        return choose_columns(self.features, self.drop, self.categorical, self.id_column)

    def read(self, data: Path, group: str | None = None) -> LabelledTable:
        """Read a table, with the column of an observed ``group`` if it has one."""
        from regraft.data.labelled import read_labelled

        return read_labelled(data, self.label, self.domain, group, self.choose())


@dataclass(frozen=True)
class ModelColumns:
    """The columns of a table for a model, where they are not called as in fit."""

    label: ModelLabel = None
    domain: ModelDomain = None


@dataclass(frozen=True)
class Mixtures:
    """Which mixtures of hidden groups are plausible."""

    prior_shift: PriorShift = None
    class_groups: ClassGroups = False


@dataclass(frozen=True)
class Hulls:
    """How hulls of heads, and of abductions, are made."""

    rank: Rank = None
    n_groups: NGroups = 2


@dataclass(frozen=True)
class NewInputOptions:
    """How new images and texts are read and encoded."""

    text: NewText = "text"
    path: NewPath = "path"
    encoder: NewEncoder = None
    weights: Weights = None
    on_broken: OnBroken = "stop"
    device: Device = "cpu"

    def open(self, data: Path) -> NewInputs:
        """Describe the inputs in ``data``."""
        from regraft.encoders.new_inputs import NewInputs

        return NewInputs(
            data,
            self.text,
            self.path,
            self.encoder,
            self.weights,
            self.device,
            self.on_broken,
        )


@dataclass(frozen=True)
class RunSettings:
    """What all runs of the protocol that a command starts have in common."""

    holdout_fraction: Holdout = 0.2
    compat: Compat = False
    per_domain_forward: PerDomain = False
    swad: Swad = False
    task: Task = "domain_generalization"
    uda_holdout_fraction: UdaHoldout = 0.0
    weights: Weights = None
    device: Device = "cpu"

    def check(self, **others: Any) -> None:
        """Raise ``ValueError`` with one sentence if these, or ``others``, cannot be."""
        from regraft.bench.protocol.settings import check_settings

        shared = ("holdout_fraction", "task", "uda_holdout_fraction")
        check_settings(**{name: getattr(self, name) for name in shared}, **others)

    def of_jobs(self) -> dict[str, Any]:
        """Return them as fields of a job."""
        from regraft.bench.protocol.models import weights_checksum

        same = ("holdout_fraction", "compat", "swad", "task", "uda_holdout_fraction")
        checksum = weights_checksum(self.weights) if self.weights else ""
        others = {"per_domain": self.per_domain_forward, "weights": checksum}
        return {name: getattr(self, name) for name in same} | others


@dataclass(frozen=True)
class EngineSettings:
    """How a table is read in parts, as a user says it."""

    engine: RowEngineName = None
    memory: Memory = None
    address: Address = None
    workers: Workers = None

    @property
    def is_streamed(self) -> bool:
        """Whether it is read in parts at all; raises ``ValueError`` for what does not fit."""
        self.check()
        return self.engine is not None

    def check(self) -> None:
        """Raise ``ValueError`` with one sentence for what does not fit."""
        if self.engine not in (None, *ROW_ENGINES):
            raise ValueError(f"engine is {self.engine!r}: pass {' or '.join(ROW_ENGINES)}.")
        for name, owner in (("memory", "local"), ("address", "ray"), ("workers", "ray")):
            if getattr(self, name) is not None and self.engine != owner:
                raise ValueError(f"--{name} is for --engine {owner}: add that, or leave it out.")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers is {self.workers}: pass 1 or more.")

    @property
    def memory_bytes(self) -> int | None:
        """The memory as a number."""
        if self.memory is None:
            return None
        found = re.fullmatch(r"([0-9]*\.?[0-9]+) ?([KMGT]B|)", self.memory.strip().upper())
        if found is None or float(found[1]) == 0:
            raise ValueError(f"memory is {self.memory!r}: pass a size such as 500MB or 2GB.")
        return int(float(found[1]) * _UNITS[found[2]])
