"""A parameter of the wrong type takes a sentence, whichever estimator has it."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from regraft import CROClassifier, TableFeatures
from regraft.estimators.audit import check_radii
from regraft.estimators.baselines import GroupDROClassifier, VRExClassifier
from regraft.estimators.frontier import check_prior_shifts
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


@pytest.mark.parametrize("values", ["48", 3, ["a"], [[1]]])
def test_what_should_be_a_list_of_numbers_is_told(values: Any) -> None:
    for check, name in ((check_radii, "radii"), (check_prior_shifts, "prior_shifts")):
        with pytest.raises(ValueError, match=rf"^{name} is .*: pass a list of numbers\.$"):
            check(values)
    assert check_radii((8, 4, 4)) == [4, 8]


def test_what_should_be_a_list_of_names_or_a_column_is_told() -> None:
    table = {"a": ROWS[:, 0], "b": ROWS[:, 1]}
    for name in ("features", "drop", "categorical"):
        for value in ("ab", 3):
            with pytest.raises(ValueError, match=f"^{name} is {value!r}: pass a list of names.$"):
                TableFeatures(**{name: value}).fit(table)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sample_domain is 'site': pass one value for each row"):
        CROClassifier().fit(ROWS, LABELS, "site")
    for value in ("x", float("nan"), [1], 1.5):
        with pytest.raises(ValueError, match=r"class_groups is .*: pass True or False"):
            CROClassifier(class_groups=value).fit(ROWS, LABELS, DOMAINS)  # type: ignore[arg-type]
