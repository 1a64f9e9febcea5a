"""Where a new domain lies among the mixtures of a fitted model, from unlabelled rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regraft.core.closure_test import ClosureTest, compare_with_mixture
from regraft.core.evidence import CONFIDENCE
from regraft.core.features import iterate_row_chunks
from regraft.core.group_shares import (
    ShareLikelihood,
    ShareRegion,
    chances,
    estimate_shares,
    expected_accuracy,
    log_ratios,
)
from regraft.core.reference import Reference
from regraft.estimators.linear_maps import apply_maps
from regraft.support.plain_data import PlainData
from regraft.support.plurals import count
from regraft.support.shown import ShownResult
from regraft.support.table import Table, write_p_value
from regraft.support.threads import threads_by_size

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from regraft.estimators.cro import CROClassifier

MIN_ROWS = 10
_WIDE = 0.9  # a share whose interval is this wide is unknown
LEVEL = 1 - CONFIDENCE
_ALIEN_ROWS = 6
_DIFFERENT = 0.9  # share of different rows from which a row can be recognized
_INNOCENT, _FEWEST_KNOWN = 0.05, 5  # of known rows: a share and a number without a warning


@dataclass(frozen=True, repr=False)
class Placement(ShownResult, PlainData):
    """Where a domain lies among the mixtures of the groups, by its rows alone.

    Shares are those of the groups, in the order of their numbers, with 95 % confidence intervals.
    """

    rows: int
    shares: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    told: float  # how much of its group a row tells: 1 all of it, 0 nothing
    p_value: float  # of "the domain is a mixture of the groups"
    gap: float  # how far a classifier tells it from the nearest mixture, in standard deviations
    alien_rows: tuple[int, ...]  # numbers of the rows (from 0) that look least like the mixture
    expected_accuracy: float  # of the model's head at these shares, if the domain is a mixture
    source_shares: dict[str, tuple[float, ...]]  # of the groups in each source

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Placement:
        """Read what ``to_dict`` returns, also after a round trip through JSON."""
        plain = {f.name: document[f.name] for f in fields(cls)}
        plain |= {name: tuple(each) for name, each in plain.items() if isinstance(each, list)}
        plain["source_shares"] = {k: tuple(v) for k, v in plain["source_shares"].items()}
        return cls(**plain)

    @property
    def is_mixture(self) -> bool:
        """Whether the rows look like a mixture of the groups that the sources have."""
        return self.p_value > LEVEL

    @property
    def is_placed(self) -> bool:
        """Whether the rows say anything about the shares."""
        widths = [high - low for low, high in zip(self.lower, self.upper, strict=True)]
        return len(widths) > 1 and min(widths) < _WIDE

    def paragraphs(self) -> tuple[str, ...]:
        """Say in plain words where the domain lies, one sentence each."""
        return self._closure(), self._place()

    def headline(self) -> tuple[str, ...]:
        """Return both sentences."""
        return self.paragraphs()

    def table(self) -> Table:
        """Show the share of each group with its interval, beside the sources'."""
        from regraft.estimators.target_tables import placement_table

        return placement_table(self)

    def _place(self) -> str:
        if len(self.shares) == 1:
            return "No hidden factor was found in the sources, so there are no shares to estimate."
        if not self.is_placed:
            return (
                f"These {self.rows:,} rows tell nothing about the mixture: the groups look alike "
                f"without labels (a row tells {self.told:.1%} of its group). Label some rows."
            )
        parts = [
            f"group {u} is {share:.0%} ({low:.0%} to {high:.0%})"
            for u, (share, low, high) in enumerate(
                zip(self.shares, self.lower, self.upper, strict=True)
            )
        ]
        doubt = "" if self.is_mixture else "If it were one all the same: "
        by = "by" if doubt else "By"
        return (
            f"{doubt}{by} {self.rows:,} rows, {', '.join(parts)} of the new domain, with 95 % "
            "confidence."
        )

    def _closure(self) -> str:
        chance = write_p_value(self.p_value)
        if self.is_mixture:
            return f"Nothing speaks against a mixture of what the sources hold ({chance})."
        return (
            f"Your domain is not a mixture of what the sources hold ({chance}): no certificate of "
            "this model speaks of it. Look at the rows that are least alike."
        )


@threads_by_size
def place(model: CROClassifier | Pipeline, X: ArrayLike) -> Placement:
    """Place a new domain among the mixtures of the groups that a model found, without labels.

    Parameters
    ----------
    model : CROClassifier or Pipeline
        Fitted with ``family="latent"``, the default; or a pipeline that ends in such a head.
    X : array-like (n, d)
        Rows of the new domain, 10 or more; for a pipeline, what it takes.

    Returns
    -------
    Placement

    Raises
    ------
    ValueError
        If the model or the rows are not usable; the message says how to fix it.
    """
    # Reports read placements, and need not wait for scikit-learn.
    from regraft.estimators.pipelines import split_rows

    model, X = split_rows(model, X)
    reference = reference_of(model)
    features = check_target(model, X)
    check_enough(len(features))
    known = find_known(reference, features)
    check_new(model, reference, known)
    warn_of_known(reference, known, len(features))
    located = locate(model, reference, features, predicted_classes(model, reference.X.numpy()))
    return describe_place(model, located, len(features))


def check_enough(n_rows: int) -> None:
    """Raise ``ValueError`` if there are too few rows to place."""
    if n_rows < MIN_ROWS:
        raise ValueError(
            f"the target has {count(n_rows, 'rows')}: pass {MIN_ROWS} or more to place it."
        )


def describe_place(model: CROClassifier, located: Located, n_rows: int) -> Placement:
    """Return what was found about so many rows, beside what the model says of its sources."""
    region, closure = located.region, located.closure
    certificate: Any = model.certificate_  # of a model with groups
    found = certificate.abduction
    low, high = region.bounds.tolist()
    top = closure.scores.argsort(descending=True)[:_ALIEN_ROWS]
    return Placement(
        rows=n_rows,
        shares=tuple(region.shares.tolist()),
        lower=tuple(low),
        upper=tuple(high),
        told=region.told,
        p_value=closure.p_value,
        gap=closure.gap,
        alien_rows=tuple(closure.rows[top].tolist()),
        expected_accuracy=located.accuracy,
        source_shares={
            name: tuple(share)
            for name, share in zip(found["domains"], found["shares"], strict=True)
        },
    )


@dataclass(frozen=True)
class Located:
    """What unlabelled rows of a domain say about it."""

    region: ShareRegion
    closure: ClosureTest
    accuracy: float  # expected of the model's head at the most likely shares
    accuracy_error: float  # its standard error


def locate(
    model: CROClassifier,
    reference: Reference,
    features: NDArray[np.floating[Any]],
    reference_predicted: Tensor,
) -> Located:
    """Find where rows (n, d) lie; the model predicts the classes (m,) for the reference rows."""
    log_joint = joint_of(model, features)
    likelihood = ShareLikelihood(log_ratios(log_joint, reference.shares))
    region = estimate_shares(likelihood, 0, reference)
    predicted = predicted_classes(model, features)
    chance = chances(log_joint, predicted, region.shares, reference.shares)
    moments = float(chance.mean()), float(chance.var(unbiased=False))
    accuracy = expected_accuracy(region, moments, reference, reference_predicted)
    return Located(region, closure_of(reference, features, region), *accuracy)


def predicted_classes(model: CROClassifier, features: NDArray[np.floating[Any]]) -> Tensor:
    """Return the numbers (n,) of the classes that the model predicts for rows (n, d)."""
    return torch.from_numpy(np.searchsorted(model.classes_, model.predict(features)))


def closure_of(
    reference: Reference, features: NDArray[np.floating[Any]], region: ShareRegion
) -> ClosureTest:
    """Test whether rows (n, d) are a mixture of the groups, in the most likely shares."""
    return compare_with_mixture(
        torch.from_numpy(features), reference.X, region.shares @ reference.laws
    )


def reference_of(model: CROClassifier) -> Reference:
    """Return the source rows that stayed with ``model``; raise ``ValueError`` if it has none."""
    from regraft.estimators.cro import CROClassifier

    if not isinstance(model, CROClassifier):
        raise ValueError(
            f"{describe_other(model)} has no hidden groups: pass a model made by regraft fit."
        )
    if model.family != "latent":
        raise ValueError(
            f"the family {model.family} learns nothing from unlabelled rows: pass labels to adapt, "
            'or fit with the family "latent".'
        )
    if not hasattr(model, "reference_"):
        raise ValueError(
            "the model has no reference rows of its sources: fit it again with this version, and "
            "keep reference.safetensors in its folder."
        )
    return model.reference_


def describe_other(model: object) -> str:
    """Name a model that is no CROClassifier, for a sentence."""
    name = type(model).__name__
    return "an adapted model" if name == "AdaptedClassifier" else name


def check_target(model: CROClassifier, X: ArrayLike) -> NDArray[np.floating[Any]]:
    """Validate rows of a new domain, and return them."""
    return model._check_rows(X)


def check_new(model: CROClassifier, reference: Reference, known: NDArray[np.bool_]) -> None:
    """Raise ``ValueError`` if all reference rows of a source are ``known`` (m,) among the rows.

    Where rows are often alike, new ones are like old ones by chance, and nothing is said.
    """
    domain = reference.domain.numpy()
    for k, name in enumerate(model.domains_):
        own = known[domain == k]
        if len(own) and own.all() and _are_different(reference):
            raise ValueError(
                f"the target holds the rows of the source {name}, which the model was fitted on: "
                "pass rows of a new domain."
            )


def warn_of_known(
    reference: Reference, known: NDArray[np.bool_], n_rows: int, what: str = "the target"
) -> None:
    """Warn if some of ``n_rows`` are likely to be rows that the model was fitted on.

    ``known`` (m,) are the reference rows that are among them. The model keeps only a part of its
    rows, so it knows only a part of them again. Rows that are often alike say nothing.
    """
    n_known = count_known(reference, known, n_rows)
    if n_known > max(_FEWEST_KNOWN, _INNOCENT * n_rows):
        about = "about " if float(reference.sampled) < 1 else ""
        warnings.warn(
            f"{about}{n_known:,} rows of {what} are rows that the model was fitted on: pass rows "
            "that are new to it.",
            stacklevel=3,
        )


def count_known(reference: Reference, known: NDArray[np.bool_], n_rows: int) -> int:
    """Estimate how many of ``n_rows`` the model was fitted on, by the reference rows among them.

    None are counted if the rows of the reference are often alike.
    """
    if not _are_different(reference):
        return 0
    found = {row.tobytes() for row in reference.X.numpy()[known]}
    return min(round(len(found) / float(reference.sampled)), n_rows)


def _are_different(reference: Reference) -> bool:
    rows = {row.tobytes() for row in reference.X.numpy()}
    return len(rows) >= _DIFFERENT * len(reference.X)


def find_known(reference: Reference, features: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Return which of the reference rows (m,) are among the rows (n, d)."""
    return find_rows(reference.X.numpy(), features)


def find_rows(
    sources: NDArray[np.float32], features: NDArray[np.floating[Any]]
) -> NDArray[np.bool_]:
    """Return which of some rows (m, d) are among the rows (n, d), as numbers of 32 bits."""
    alike = features[np.isin(features[:, 0].astype(np.float32), sources[:, 0])]
    rows = {row.tobytes() for row in alike.astype(np.float32)}
    return np.array([row.tobytes() in rows for row in sources])


def joint_of(model: CROClassifier, features: NDArray[np.floating[Any]]) -> Tensor:
    """Return log P(y, u | x) (n, G, C) of the pooled sources for rows (n, d)."""
    G, C, _ = model.group_heads_.shape
    joint = torch.empty((len(features), G, C), dtype=torch.float64)
    for rows in iterate_row_chunks(features):
        joint[rows] = joint_of_chunk(model.group_heads_, torch.from_numpy(features[rows]))
    return joint


def joint_of_chunk(maps: NDArray[np.float64], X: Tensor) -> Tensor:
    """Return the same (b, G, C) for few rows (b, d), by maps (G, C, d + 1) on ``[x, 1]``."""
    values = apply_maps(maps, X.double())
    return torch.log_softmax(values.flatten(1), dim=1).reshape(values.shape)
