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
    groups: NDArray[Any] | None = None  # (n, G) P(u | x), None without hidden groups

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of the file of predictions, by name."""
        columns = {"label": self.labels.tolist()}
        columns |= self._by_class("probability", self.probabilities)
        if self.groups is not None:
            columns |= {f"group_{u}": column for u, column in enumerate(self.groups.T.tolist())}
        if self.bounds is not None:
            columns |= self._by_class("least", self.bounds.lower)
            columns |= self._by_class("largest", self.bounds.upper)
            columns["decided"] = self.bounds.decided.astype(int).tolist()
        return columns

    def describe_columns(self) -> str:
        """Say what the columns of the file of predictions are."""
        parts = [
            "label is the predicted class",
            "probability_<class> its probabilities",
        ]
        if self.groups is not None:
            parts.append("group_<number> the probability that the row is of that hidden group")
        return f"In predictions.csv, {'; '.join(parts)}."

    def to_dict(self) -> dict[str, list[Any]]:
        """Return lists by row, for JSON."""
        document = {"labels": self.labels.tolist(), "probabilities": self.probabilities.tolist()}
        if self.groups is not None:
            document["groups"] = self.groups.tolist()
        if self.bounds is not None:
            document |= self.bounds.to_dict()
        return document

    def _by_class(self, what: str, values: NDArray[Any]) -> dict[str, list[Any]]:
        """Return the columns of ``values`` (n, C) with their names."""
        names = (f"{what}_{name}" for name in self.classes)
        return dict(zip(names, values.T.tolist(), strict=True))


def describe_decided(share: float) -> str:
    """Say how many rows have one answer whatever the target, of which ``share`` is the share."""
    from regraft.support.table import percent

    return (
        f"Decided: {percent(share)} of the rows have the same most probable class in every "
        "plausible domain. least_ and largest_ are the smallest and the largest probability that a "
        "class has if the plausible domain is known. The model does not know it and has one answer "
        "for all, so that its own probability may be below the least or above the largest."
    )


def predict_rows(model: SoftmaxHead, X: NDArray[Any], *, interval: bool) -> Predicted:
    """Ask the model about the rows ``X`` (n, d), and for the interval of each if wanted."""
    bounds = _interval_of(model, X) if interval else None
    answers = model.predict(X), model.predict_proba(X), bounds, _groups_of(model, X)
    return Predicted(model.classes_, *answers)


def _groups_of(head: SoftmaxHead, X: NDArray[Any]) -> NDArray[Any] | None:
    """Return P(u | x) (n, G) of the pooled sources, None for heads without hidden groups."""
    from regraft.estimators.cro import CROClassifier
    from regraft.estimators.placing import joint_of

    is_latent = isinstance(head, CROClassifier) and head.family == "latent"
    if not is_latent or len(head.group_heads_) == 1:
        return None
    groups: NDArray[Any] = joint_of(head, X).exp().sum(dim=2).numpy()
    return groups


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
