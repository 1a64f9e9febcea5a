"""How long a fit of many classes takes, told before it begins."""

from __future__ import annotations

_SECONDS = 2e-7  # of one core, for one row, feature and class
_LONG = 20.0  # seconds that need no announcement


def describe_wait(n_rows: int, n_features: int, n_classes: int) -> str:
    """Say how long a fit takes and why; "" if it is soon done."""
    seconds = _SECONDS * n_rows * (n_features + 1) * n_classes
    if seconds <= _LONG:
        return ""
    minutes = max(1, round(seconds / 60))
    return (
        f"This takes about {minutes:,} minute{'s' * (minutes > 1)} on one core, or several times "
        f"that: {n_classes:,} classes of {n_features:,} features in {n_rows:,} rows are fitted in "
        "every fold, with every ridge."
    )
