"""A parameter of the wrong type takes a sentence, whichever estimator has it."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from regraft import CROClassifier
from regraft.estimators.baselines import GroupDROClassifier, VRExClassifier
from regraft.estimators.group_search import JTTClassifier
from regraft.estimators.parameter_types import check_numbers

ROWS = np.random.default_rng(0).standard_normal((60, 3))
LABELS, DOMAINS = np.arange(60) % 2, np.arange(60) % 3


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (CROClassifier(radius="4", family="hull"), "radius is '4': pass a number or None."),  # type: ignore[arg-type]
        (CROClassifier(ridge=True), "ridge is True: pass a number or None."),
        (CROClassifier(tolerance=None), "tolerance is None: pass a number."),  # type: ignore[arg-type]
        (CROClassifier(max_rounds=2.5), "max_rounds is 2.5: pass a whole number."),  # type: ignore[arg-type]
        (CROClassifier(prior_shift=[1]), r"prior_shift is \[1\]: pass a number or None."),  # type: ignore[arg-type]
        (VRExClassifier(penalty="1"), "penalty is '1': pass a number."),  # type: ignore[arg-type]
        (GroupDROClassifier(ridge="x"), "ridge is 'x': pass a number or None."),  # type: ignore[arg-type]
        (JTTClassifier(upweight=[2]), r"upweight is \[2\]: pass a number or None."),  # type: ignore[arg-type]
    ],
)
def test_what_should_be_a_number_is_told(model: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        model.fit(ROWS, LABELS, DOMAINS)


@pytest.mark.parametrize(
    "model",
    [
        CROClassifier(),
        CROClassifier(ridge=1, max_rounds=np.int64(3), prior_shift=np.float32(1)),  # type: ignore[arg-type]
        CROClassifier(family="hull", rank=np.int8(1), radius=0),  # type: ignore[arg-type]
        VRExClassifier(penalty=np.float64(2)),
    ],
)
def test_numbers_of_every_type_are_taken(model: BaseEstimator) -> None:
    before = model.get_params()
    check_numbers(model)
    assert model.get_params() == before
