"""Options that always come together: a parameter of this type declares all of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regraft.cli.options import (
    Categorical,
    Device,
    Domain,
    Drop,
    Features,
    Id,
    Label,
    NewEncoder,
    NewPath,
    NewText,
    OnBroken,
    Weights,
    choose_columns,
)

if TYPE_CHECKING:
    from regraft.data.columns import ColumnChoice
    from regraft.data.labelled import LabelledTable
    from regraft.encoders.new_inputs import NewInputs


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
