import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from regraft import CROClassifier, ERMClassifier, audit, audit_groups
from regraft.estimators.unseen import judge_unseen, remembers
from tests.helpers.problems import Problem


def test_a_model_is_told_from_its_own_rows(three_sources: Problem) -> None:
    p, model = three_sources, CROClassifier().fit(*three_sources.data)
    noise = np.random.default_rng(0).standard_normal((len(p.y), 300))
    X = np.hstack([p.X, noise])
    erm = ERMClassifier().fit(X, p.y, p.domain)
    fitted = CROClassifier("hull", radius=0.0).fit(X, p.y, p.domain)
    with pytest.warns(UserWarning, match="fitted on these very rows"):
        unseen = judge_unseen(fitted, X, p.y, p.domain)
    assert isinstance(unseen, np.ndarray) and unseen.shape == (len(p.y), 3)
    np.testing.assert_allclose(unseen.sum(axis=1), 1)
    right = np.mean(unseen.argmax(axis=1) == p.y)
    assert right < erm.score(X, p.y) - 0.02  # which remembers
    assert right == pytest.approx(fitted.certificate_.source_accuracy, abs=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert judge_unseen(model, p.X[5:], p.y[5:], p.domain[5:]) is model  # audits warn
        assert judge_unseen(model, p.X + 1e-3, p.y, p.domain) is model
        assert judge_unseen(erm, X, p.y, p.domain) is erm  # which keeps no mean of its rows


def test_a_column_that_is_rare_among_the_rows_looked_at_is_compared_by_its_mean(
    problem: Problem,
) -> None:
    model = CROClassifier().fit(*problem.data)
    some = problem.X[:2].copy()
    some[:, 0] = 0
    rounded = model.feature_mean_ * (1 + 1e-13)
    assert remembers(model, rounded, some)
    rounded[0] *= 1.001
    assert not remembers(model, rounded, some)


def test_an_adapted_model_cannot_be_fitted_again(problem: Problem) -> None:
    adapted = CROClassifier().fit(*problem.data).adapt(problem.X[:60] + 0.1)
    with pytest.warns(UserWarning, match="fitted on these very rows"):
        assert judge_unseen(adapted, problem.X, problem.y, problem.domain) is adapted


def test_audits_in_python_warn_of_rows_that_were_fitted_on(problem: Problem) -> None:
    model = CROClassifier().fit(*problem.data)
    pipe = make_pipeline(StandardScaler(), CROClassifier())
    pipe.fit(problem.X, problem.y, croclassifier__sample_domain=problem.domain)
    for measure in (audit_groups, audit):
        for seen in (model, pipe):
            with pytest.warns(UserWarning, match="fitted on these very rows, where it looks"):
                measure(seen, *problem.data)  # type: ignore[operator]
        with pytest.warns(UserWarning, match="rows of those to audit are rows that the model was"):
            measure(model, *problem.take(np.arange(5, len(problem.y))).data)  # type: ignore[operator]
        tenth = problem.X + 1e-3
        tenth[::10] = problem.X[::10]
        count = len(tenth[::10])
        with pytest.warns(UserWarning, match=f"^{count} rows of those to audit are rows that"):
            measure(model, tenth, problem.y, problem.domain)  # type: ignore[operator]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            measure(model, problem.X + 1e-3, problem.y, problem.domain)  # type: ignore[operator]
            measure(model.predict_proba(problem.X), *problem.data)  # type: ignore[operator]
