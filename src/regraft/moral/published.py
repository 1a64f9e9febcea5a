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
# By number of the text: its range over the panels, or one value for all.
TEXT = {name: tuple(numbers) for name, numbers in _TABLES["text"].items()}
# By panel: a scenario's id and topic, the profile asked, and its choice: A is action 1, B action 2.
EXAMPLES = {
    row["panel"]: (row["scenario"], row["topic"], tuple(row["profile"]), row["choice"])
    for row in _TABLES["examples"]
}
