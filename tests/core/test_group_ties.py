"""Ties of groups to classes: errors of shares are those of counts, and ends are told apart."""

import numpy as np
import pytest

from regraft import abduct, make_confounded_domains


@pytest.mark.parametrize("n_classes", [2, 3])
def test_errors_of_shares_are_at_least_those_of_known_groups(n_classes: int) -> None:
    data = make_confounded_domains(
        600, strengths=(0.9, 0.6), n_classes=n_classes, n_features=8, random_state=0
    )
    found = abduct(data.X, data.y, data.sample_domain)
    rows = np.array(
        [
            [np.sum((data.sample_domain == s) & (data.y == c)) for c in found.classes]
            for s in found.domains
        ]
    )[..., None]
    known = np.sqrt(found.class_shares * (1 - found.class_shares) / rows)
    assert (found.class_share_errors > 0.8 * known).all()
    assert (found.class_share_errors < 3 * known).all()
    assert (found.share_errors < found.class_share_errors.max(axis=1)).all()


def test_a_factor_that_predicts_the_label_turns_round_from_class_to_class() -> None:
    data = make_confounded_domains(400, strengths=(0.9, 0.6), n_features=8, random_state=1)
    for order in (slice(None), slice(None, None, -1)):  # whichever source is the first
        names = np.where(data.sample_domain == np.unique(data.sample_domain)[order][0], "a", "b")
        first, second = abduct(data.X, data.y, names).alignment
        assert first > 0.8 and second < -0.8
