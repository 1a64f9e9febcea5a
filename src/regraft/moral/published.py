"""The paper's own numbers (section 5.4), to print beside ours."""

from __future__ import annotations

from regraft.support.data_files import read_toml

_TABLES = read_toml(__package__, "published.toml")

# By panel, then "factorized" or "direct": mean prediction, Brier score, accuracy, log-loss.
CLOSURE = {
    panel: {kind: tuple(numbers) for kind, numbers in kinds.items()}
    for panel, kinds in _TABLES["closure"].items()
}
# By pair of panels: the smallest, median and largest principal angle, in degrees.
ANGLES = {frozenset(row["panels"]): tuple(row["degrees"]) for row in _TABLES["angles"]}
# By weight: the residual to I for each A, the norm of L, the Hausdorff term.
BASIS = {row["weight"]: tuple(row["numbers"]) for row in _TABLES["basis"]}
