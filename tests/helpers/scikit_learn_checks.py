"""Checks of scikit-learn that cannot hold, with the reason."""

from typing import Any

_FOLDS = (
    "regularization is cross-validated, and a row that is repeated is in several folds where a row "
    "with a weight is in one"
)


def expected_failures(estimator: Any) -> dict[str, str]:
    """Return the names of such checks, for ``parametrize_with_checks``."""
    return {
        "check_sample_weight_equivalence_on_dense_data": _FOLDS,
        "check_sample_weight_equivalence_on_sparse_data": _FOLDS,
    }
