"""Models with preprocessing: scikit-learn's pipelines that end in one of our heads."""

from __future__ import annotations

from typing import Any, TypeAlias

from sklearn.pipeline import Pipeline

from regraft.estimators.linear import SoftmaxHead

Model: TypeAlias = SoftmaxHead | Pipeline


def split_model(model: Model) -> tuple[Pipeline | None, SoftmaxHead]:
    """Return what comes before the head, None for a head alone, and the head.

    Raises ``ValueError`` with one sentence if the model does not end in a head of Regraft.
    """
    if isinstance(model, SoftmaxHead):
        return None, model
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not isinstance(last, SoftmaxHead):
        raise ValueError(
            f"{type(last).__name__} is no head of Regraft: pass one, such as CROClassifier, or a "
            "Pipeline that ends in one."
        )
    return (model[:-1] if len(model.steps) > 1 else None), last


def split_rows(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the head of a pipeline and the features that it sees of the rows ``X``.

    What is no pipeline that ends in one of our heads is returned as it came, with its rows.
    """
    if not isinstance(model, Pipeline) or not isinstance(model.steps[-1][1], SoftmaxHead):
        return model, X
    before, head = split_model(model)
    return head, X if before is None else before.transform(X)


def join_model(before: Pipeline | None, head: SoftmaxHead, name: str = "head") -> Model:
    """Return the pipeline of the steps ``before`` and a head, the head alone if there are none."""
    if before is None:
        return head
    steps = [*before.steps, (name, head)]
    model: Model = Pipeline(steps, memory=before.memory, verbose=before.verbose)
    return model


def name_features(before: Pipeline | None, head: SoftmaxHead) -> tuple[str, ...]:
    """Return the names of the features that the head sees; empty if they have none."""
    if before is None:
        return tuple(map(str, getattr(head, "feature_names_in_", ())))
    try:
        return tuple(map(str, before.get_feature_names_out()))
    except (AttributeError, ValueError):  # not every transformer names its columns
        return ()
