"""Frozen features on disk as a dataset: one row per example, one environment per domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.bench.datasets.base import Dataset, Environment, data_folder
from regraft.data.banks import is_bank, open_bank
from regraft.data.tables import read_table, to_matrix
from regraft.support.digests import digest_file, digest_parts
from regraft.support.plurals import count

_SUFFIXES = (".npz", ".csv", ".parquet")
_MIN_ROWS = 2  # of an environment: one to train on, one to hold out
# A deviation below this share of the feature's size is the rounding of a constant.
_FLOOR = 1e-6
_MOST_BYTES = 2**29  # of rows kept in the units of several splits
_DIGITS = 12  # of the file's sha256 that tell it from others of the same name


class Vectors(Environment):
    """Rows of features on a device, in ``units`` of a scale about a mean if there are any."""

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        units: tuple[Tensor, Tensor] | None = None,
        is_scaled: bool = False,
    ) -> None:
        self.x, self.y = x, y  # (n, d) float32, (n,) int64
        self.units, self._is_scaled = units, is_scaled  # whether ``x`` is in the units already

    def inputs(self, rows: Tensor, augmentation: int | None = None) -> Tensor:
        """Return features (b, d); they are never augmented."""
        x = self.x.index_select(0, rows)
        return x if self.units is None or self._is_scaled else _scale(x, self.units)


class FeatureBank(Dataset):
    """A file of features, labels and domains; its stem is the dataset's name.

    The file is one that :func:`regraft.data.tables.read_table` reads, of numbers, with a column
    ``label`` and a column ``domain``, or a bank, whose folder names the dataset. In a .npz file an
    array ``domains`` may name the domains that ``domain`` numbers. Classes and environments are in
    sorted order. Raises ``ValueError`` with one sentence.
    """

    group = "features"
    # A small network on frozen features needs far fewer steps than the fine-tuning of a large one.
    steps = 201
    checkpoint_freq = 100

    def __init__(self, path: Path) -> None:
        table = read_table(path, by_option=False)
        # As they are: what is learnt about features is learnt from training rows, in prepare().
        X = to_matrix(table, table.features) if isinstance(table.X, Mapping) else table.X
        assert table.y is not None and table.domain is not None
        classes, y = np.unique(table.y, return_inverse=True)
        names, domain = np.unique(table.domain, return_inverse=True)
        with np.errstate(over="ignore"):  # refused below
            self._X = X.astype(np.float32, copy=False)
        self._y, self._domain = y, domain
        self.name = _name(path)
        self.env_names = tuple(map(str, names.tolist()))
        self.input_shape = (X.shape[1],)
        self.n_classes = len(classes)
        self._units: dict[str, tuple[Tensor, Tensor]] = {}  # known means and scales, by rows
        self._prepared: dict[tuple[str, torch.device], list[Vectors]] = {}  # the latest last
        self._check(path)
        checksum = open_bank(path).checksum if path.is_dir() else digest_file(path)
        self.fingerprint = checksum[:_DIGITS]

    def environments(self, seed: int, device: torch.device) -> list[Vectors]:
        """Return the rows of every domain; nothing is drawn, so ``seed`` does not matter."""
        return [Vectors(env.x.to(device), env.y.to(device)) for env in self._environments]

    def check(self) -> None:
        """Do nothing: the file has been read."""

    def prepare(
        self, environments: Sequence[Environment], rows: Mapping[int, Tensor]
    ) -> list[Vectors]:
        """Divide by the deviation of the training ``rows``, after taking off their mean.

        ``rows`` maps the indices of the environments trained on to rows of theirs. A feature that
        is constant in these rows is only moved to zero.
        """
        key = digest_parts(
            f"{env}:".encode() + kept.numpy().tobytes() for env, kept in sorted(rows.items())
        )
        drawn = cast("Sequence[Vectors]", environments)
        device = drawn[0].x.device
        if key not in self._units:
            training = torch.cat([drawn[env].inputs(kept.to(device)) for env, kept in rows.items()])
            self._units[key] = _units(training.cpu())
        mean, scale = (values.to(device) for values in self._units[key])
        if self._X.nbytes > _MOST_BYTES:
            return [Vectors(env.x, env.y, (mean, scale)) for env in drawn]
        # All jobs of a trial that hold out the same environments share the rows in their units.
        prepared = self._prepared.pop((key, device), None) or [
            Vectors(_scale(env.x, (mean, scale)), env.y, (mean, scale), is_scaled=True)
            for env in drawn
        ]
        while self._prepared and (len(self._prepared) + 1) * self._X.nbytes > _MOST_BYTES:
            del self._prepared[next(iter(self._prepared))]
        self._prepared[key, device] = prepared
        return prepared

    @cached_property
    def _environments(self) -> list[Vectors]:
        masks = (self._domain == env for env in range(len(self.env_names)))
        return [
            Vectors(torch.from_numpy(self._X[rows]), torch.from_numpy(self._y[rows]).long())
            for rows in masks
        ]

    def _check(self, path: Path) -> None:
        _check_finite(path, self._X)
        if self.n_classes < 2:
            raise ValueError(f"{path} has one label only: add rows of another class.")
        if len(self.env_names) < 2:
            raise ValueError(
                f"{path} has one domain only ({self.env_names[0]}): add rows of another, for one "
                "is held out for the test."
            )
        counts = np.bincount(self._domain)
        if counts.min() < _MIN_ROWS:
            name = self.env_names[int(counts.argmin())]
            raise ValueError(
                f"{path} has {counts.min()} row of domain {name}: add rows, at least {_MIN_ROWS} "
                "in all, or drop the domain."
            )


def _check_finite(path: Path, X: NDArray[np.float32]) -> None:
    """Raise ``ValueError`` if there are numbers that do not count, where they are."""
    is_wrong = ~np.isfinite(X)
    if not is_wrong.any():
        return
    columns = np.flatnonzero(is_wrong.all(axis=0)) + 1
    if len(columns) == 0:
        n = int(is_wrong.any(axis=1).sum())
        raise ValueError(
            f"{path} holds features that are no finite numbers of 32 bits, in {count(n, 'rows')} "
            f"of {len(X)}: drop {'this row' if n == 1 else 'these rows'}."
        )
    others = f" and {len(columns) - 1} more" if len(columns) > 1 else ""
    raise ValueError(
        f"{path} holds no finite numbers of 32 bits in feature {columns[0]} of {X.shape[1]}"
        f"{others}: drop {'these columns' if others else 'this column'}."
    )


def _scale(x: Tensor, units: tuple[Tensor, Tensor]) -> Tensor:
    mean, scale = units
    return (x - mean) / scale


def _units(training: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the mean and the deviation (d,) of rows; 1 for a constant feature."""
    mean = training.mean(0)
    deviation = (training - mean).square().mean(0).sqrt()
    varies = deviation > _FLOOR * training.abs().amax(0)
    return mean, torch.where(varies, deviation, torch.ones_like(deviation))


def find_bank(name: str, data: Path | None = None) -> Path | None:
    """Find the bank ``name`` or file with that stem in the folder ``data``, or ``data`` itself.

    Without ``data`` the folder is ``$REGRAFT_DATA``, without that the current one. Of several
    with one name a bank comes before .npz, .npz before .csv, and .csv before .parquet.
    """
    return _banks(data).get(name)


def list_banks(data: Path | None = None) -> list[str]:
    """List the names that ``find_bank`` finds, sorted."""
    return sorted(_banks(data))


def _banks(data: Path | None) -> dict[str, Path]:
    place = data_folder(data)
    inside = place.is_dir() and not is_bank(place)
    found = [path for path in (place.iterdir() if inside else [place]) if _rank(path) is not None]
    # The best last, since the last one of a name stays.
    found.sort(key=lambda path: -(_rank(path) or 0))
    return {_name(path): path for path in found}


def _rank(path: Path) -> int | None:
    """0 for a bank, then by the suffix of a file; None for what holds no features."""
    if is_bank(path):
        return 0
    suffix = path.suffix.lower()
    return 1 + _SUFFIXES.index(suffix) if suffix in _SUFFIXES and path.is_file() else None


def _name(path: Path) -> str:
    return path.absolute().name if path.is_dir() else path.stem
