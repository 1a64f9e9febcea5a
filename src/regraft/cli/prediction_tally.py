"""What is shown of predictions that come block by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regraft.cli.predicted import Predicted, describe_decided
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.data.scoring import Score

_SHOWN = 20  # rows that are printed one by one, at most


class PredictionTally:
    """A summary of predictions, which does not grow with the rows unless their labels are known.

    With ``keeps_rows`` all are kept, for a JSON document.
    """

    def __init__(self, *, keeps_rows: bool) -> None:
        self.n_rows = self._n_decided = 0
        self._keeps_rows, self._has_bounds = keeps_rows, False
        self._counts: Counter[Any] = Counter()
        self._first: list[tuple[str, str, str]] = []
        self._known: list[Mapping[str, Any]] = []  # label and domain of rows
        self._predicted: list[Any] = []  # of the same rows
        self._document: dict[str, list[Any]] = {}

    def add(
        self,
        columns: Mapping[str, list[Any]],
        predicted: Predicted,
        cells: Sequence[Mapping[str, Any]],
    ) -> None:
        """Take in a block of rows: their columns in the file, and the cells of a table."""
        from regraft.support.table import percent

        labels = predicted.labels.tolist()
        self.n_rows += len(labels)
        self._counts.update(dict.fromkeys(predicted.classes.tolist(), 0))
        self._counts.update(labels)
        if predicted.bounds is not None:
            self._has_bounds = True
            self._n_decided += int(predicted.bounds.decided.sum())
        if self.n_rows <= _SHOWN:
            sure = predicted.probabilities.max(axis=1).tolist()
            names = columns["text"] if "text" in columns else columns["path"]
            self._first += zip(map(str, names), map(str, labels), map(percent, sure), strict=True)
        if "label" in cells[0]:
            self._known += cells
            self._predicted += labels
        if self._keeps_rows:
            keys = {"path": "inputs", "row": "inputs", "id": "ids"}
            by_row = {keys[name]: values for name, values in columns.items() if name in keys}
            for name, values in (by_row | predicted.to_dict()).items():
                self._document.setdefault(name, []).extend(values)

    def show(self, session: Session) -> dict[str, Any]:
        """Print the summary, and return it."""
        if self.n_rows <= _SHOWN:
            session.table(("input", "predicted label", "probability"), self._first)
        session.table(
            ("predicted label", "rows"), [(str(name), str(n)) for name, n in self._counts.items()]
        )
        scored = self._score()
        session.say(*scored.sentences(self.n_rows))
        if self._has_bounds:
            session.say(describe_decided(self._n_decided / self.n_rows))
        counts = {str(name): n for name, n in self._counts.items()}
        return {
            "predicted": counts,
            "accuracy": scored.accuracy,
            "accuracy_by_domain": scored.by_domain,
            "labelled_rows": scored.n_labelled,
            **self._document,
        }

    def _score(self) -> Score:
        """Compare the rows that have labels with them."""
        import numpy as np

        from regraft.data.columns import is_missing, typed
        from regraft.data.scoring import score

        truth = [row["label"] for row in self._known] or None
        names = [row.get("domain") for row in self._known]
        domain = None if any(map(is_missing, names)) else typed(list(map(str, names)))
        return score(np.array(self._predicted), truth, domain, np.array(list(self._counts)))
