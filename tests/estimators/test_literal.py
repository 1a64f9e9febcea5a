import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from regraft import ERMClassifier, LiteralCROClassifier
from tests.helpers.errors import refused
from tests.helpers.problems import Problem, make_problem

QUICK = {"cro_rank": 2, "cro_adv_epochs": 2, "cro_adv_batch": 32, "cro_gap_eps": 0.05}


@pytest.fixture(scope="module")
def fitted(problem: Problem) -> LiteralCROClassifier:
    return LiteralCROClassifier(**QUICK).fit(*problem.data)


def test_it_shares_the_certificate_of_the_hull(fitted: LiteralCROClassifier) -> None:
    c = fitted.certificate_
    assert (c.family, c.surrogate, c.radius, c.worst_target) == ("free", "relabelled", None, {})
    assert len(fitted.rounds_) >= 2
    assert c.biorthogonality_residual < 1e-8
    assert c.witness_rank == 2
    assert c.gap <= 1e-4
    first, second, last = c.paragraphs()
    assert "that the free adversary found" in first
    assert "won the game against the worst domain" in second and "Not certified" in last


def test_a_fit_repeats_and_another_seed_differs(
    problem: Problem, fitted: LiteralCROClassifier
) -> None:
    again = clone(fitted).fit(*problem.data)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    other = LiteralCROClassifier(**QUICK, random_state=1)
    assert not np.array_equal(other.fit(*problem.data).coef_, fitted.coef_)


def test_at_full_rank_no_transplant_is_left_and_the_head_is_nearly_erm(problem: Problem) -> None:
    """With r = d the basis is square, all abductions coincide and every target is the pool."""
    full = LiteralCROClassifier(**{**QUICK, "cro_rank": problem.X.shape[1]})
    full.fit(*problem.data)
    erm = ERMClassifier().fit(*problem.data)
    agreement = np.mean(full.predict(problem.X) == erm.predict(problem.X))
    assert agreement > 0.95


@pytest.mark.parametrize("surrogate", ["transplanted", "reweighted"])
def test_every_surrogate_plays(problem: Problem, surrogate: str) -> None:
    model = LiteralCROClassifier(surrogate, **QUICK)  # type: ignore[arg-type]
    model.fit(*problem.data)
    assert model.certificate_.surrogate == surrogate
    assert model.score(problem.X, problem.y) > 0.5


def test_it_says_when_the_game_did_not_settle(problem: Problem) -> None:
    model = LiteralCROClassifier(**{**QUICK, "cro_gap_eps": 1e-9}, cro_max_outer_iters=2)
    with pytest.warns(ConvergenceWarning, match="cro_max_outer_iters"):
        model.fit(*problem.data)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"surrogate": "other"}, "surrogate is 'other'"),
        ({"cro_rank": 0}, "rank from 1 to 6"),
        ({"cro_rank": 7}, "rank from 1 to 6"),
        ({"cro_gap_eps": 0.0}, "positive"),
        ({"cro_max_outer_iters": 1}, "2 or more"),
        ({"cro_adv_batch": 0}, "1 or more"),
        ({"cro_lambda_op": -1.0}, "0 or more"),
        ({"cro_lambda_consist": float("nan")}, "0 or more"),
        ({"cro_val_frac": 1.0}, "between 0 and 1"),
    ],
)
def test_impossible_parameters_are_refused_in_one_sentence(
    parameters: dict[str, object], message: str
) -> None:
    p = make_problem(n=40)
    with refused(message):
        LiteralCROClassifier(**parameters).fit(*p.data)  # type: ignore[arg-type]
