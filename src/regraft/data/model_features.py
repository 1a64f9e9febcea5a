"""Rows of tables as a fitted model sees them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.data.columns import quoted
from regraft.data.tables import FeatureTable, align
from regraft.estimators.column_roles import ColumnRoles
from regraft.estimators.pipelines import Model, split_model
from regraft.estimators.table_features import TableFeatures

USUAL_ID = "id"  # the column that names rows by default


def features_for(model: Model, table: FeatureTable) -> NDArray[np.floating[Any]]:
    """Return the features (n, d) of a table that the head of the model takes.

    Columns that the model does not know are not read, and a warning says so. Raises ``ValueError``
    with one sentence if the features are not those that it was fitted on.
    """
    before, head = split_model(model)
    _check_encoder(head, table)
    if before is None:
        X = align(table, getattr(head, "feature_names_in_", ()), head.n_features_in_)
    elif isinstance(before.steps[0][1], TableFeatures):
        X = before.transform(table.X)
    else:
        names = getattr(before, "feature_names_in_", ())
        X = before.transform(align(table, names, before.n_features_in_))
    known = known_columns(model)
    unknown = [name for name in table.features if name not in known]
    if unknown and known:
        warnings.warn(
            f"columns that the model does not know are not read: {quoted(unknown)}.", stacklevel=2
        )
    return X


def known_columns(model: Model) -> Sequence[str]:
    """Return the columns of the table that a model was fitted on; empty if they had no names."""
    before, head = split_model(model)
    names = getattr(head if before is None else before, "feature_names_in_", ())
    return [str(name) for name in names]


def read_columns_of(model: Model) -> Sequence[str]:
    """Return the columns of a table that a model reads; empty if they have no names."""
    before, _ = split_model(model)
    first = None if before is None else before.steps[0][1]
    return first.columns_ if isinstance(first, TableFeatures) else known_columns(model)


def find_roles(
    model: Model, label: str | None = None, domain: str | None = None, id: str | None = None
) -> ColumnRoles:
    """Return the columns of a table that are no features: those named here, else those of fit.

    If neither names an id, it is the column ``id``, unless the model reads that one.
    """
    roles: ColumnRoles = getattr(split_model(model)[1], "column_roles_", ColumnRoles())
    roles = ColumnRoles(label or roles.label, domain or roles.domain, id or roles.id)
    is_free = USUAL_ID not in (*roles, *read_columns_of(model))
    return roles if roles.id is not None or not is_free else roles._replace(id=USUAL_ID)


def _check_encoder(head: Any, table: FeatureTable) -> None:
    fitted, found = getattr(head, "encoder_", None), table.encoder
    if fitted and found and fitted.fingerprint != found.fingerprint:
        name = f"other weights of {found.name}" if found.name == fitted.name else found.name
        raise ValueError(
            f"the data are features of {name}, but the model was fitted on those of {fitted.name}: "
            "embed them in the same way."
        )
