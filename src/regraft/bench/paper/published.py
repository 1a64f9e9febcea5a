"""Published test accuracies (%), to print beside our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from regraft.support.data_files import read_toml

Source = Literal["DomainBed", "CRO paper"]

_TABLES = read_toml(__package__, "published.toml")


@dataclass(frozen=True)
class Published:
    """One row of a published table, in percent."""

    algorithm: str
    source: Source
    cells: Mapping[str, tuple[float, float]]  # held-out environment -> mean, standard error
    average: float


def _rows(name: str) -> tuple[Published, ...]:
    """Build the rows of one table of the data file, in its order."""
    environments = _TABLES[name]["environments"]
    return tuple(
        Published(
            algorithm,
            source,
            dict(zip(environments, map(tuple, row["cells"]), strict=True)),
            row["average"],
        )
        for source, rows in _TABLES[name]["rows"].items()
        for algorithm, row in rows.items()
    )


TRAINING_DOMAIN = _rows("training_domain")  # of Colored MNIST, like ORACLE
ORACLE = _rows("oracle")
PACS = _rows("pacs")
OFFICE_HOME = _rows("office_home")
PACS_ENVIRONMENTS = tuple(_TABLES["pacs"]["environments"])
OFFICE_HOME_ENVIRONMENTS = tuple(_TABLES["office_home"]["environments"])
