"""What a model says about rows: labels, probabilities and intervals, as columns and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regraft.core.intervals import Interval
    from regraft.estimators.linear import SoftmaxHead


@dataclass(frozen=True)
class Predicted:
    """The answers of a model to n rows; ``bounds`` is None where no interval was asked for."""

    classes: NDArray[Any]  # (C,)
    labels: NDArray[Any]  # (n,)
    probabilities: NDArray[Any]  # (n, C)
    bounds: Interval | None

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of the file of predictions, by name."""
        columns = {"label": self.labels.tolist()}
        columns |= self._by_class("probability", self.probabilities)
        if self.bounds is not None:
            columns |= self._by_class("least", self.bounds.lower)
            columns |= self._by_class("largest", self.bounds.upper)
            columns["decided"] = self.bounds.decided.astype(int).tolist()
        return columns

    def to_dict(self) -> dict[str, list[Any]]:
        """Return lists by row, for JSON."""
        document = {"labels": self.labels.tolist(), "probabilities": self.probabilities.tolist()}
        if self.bounds is not None:
            document["least"] = self.bounds.lower.tolist()
            document["largest"] = self.bounds.upper.tolist()
            document["decided"] = self.bounds.decided.tolist()
        return document

    def _by_class(self, what: str, values: NDArray[Any]) -> dict[str, list[Any]]:
        """Return the columns of ``values`` (n, C) with their names."""
        names = (f"{what}_{name}" for name in self.classes)
        return dict(zip(names, values.T.tolist(), strict=True))


def predict_rows(model: SoftmaxHead, X: NDArray[Any], *, interval: bool) -> Predicted:
    """Ask the model about the rows ``X`` (n, d), and for the interval of each if wanted."""
    bounds = _interval_of(model, X) if interval else None
    return Predicted(model.classes_, model.predict(X), model.predict_proba(X), bounds)


def _interval_of(head: SoftmaxHead, X: NDArray[Any]) -> Interval:
    from regraft.estimators.adapted import AdaptedClassifier
    from regraft.estimators.cro import CROClassifier

    if isinstance(head, AdaptedClassifier):
        raise ValueError(
            "an adapted model speaks of one domain, so it has no interval: leave out --interval, "
            "or pass the model that it was made from."
        )
    if not isinstance(head, CROClassifier):
        raise ValueError(
            f"{type(head).__name__} has no family of plausible domains: leave out --interval, or "
            "pass a model made by regraft fit."
        )
    return head.predict_interval(X)
