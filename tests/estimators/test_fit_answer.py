"""What a fit answers: the model, its number, and what speaks against relying on it."""

from regraft import CROClassifier, make_confounded_domains
from regraft.estimators.fit_answer import answer_fit
from regraft.premises.sample_size import describe_small_cells


def test_a_group_of_one_source_is_named_and_no_sign_is_called_weak() -> None:
    data = make_confounded_domains(500, strengths=(1.0, 0.0), random_state=0)
    certificate = CROClassifier().fit(data.X, data.y, data.sample_domain).certificate_
    verdict = answer_fit(certificate).verdict
    assert "seem to differ in a hidden factor, but do not share all its groups." in verdict
    assert "because only source 1 has group 0, so" in verdict and "signs are weak" not in verdict


def test_few_rows_of_a_class_are_the_first_doubt_of_the_answer() -> None:
    data = make_confounded_domains(100, strengths=(0.9, 0.6), random_state=0)
    certificate = CROClassifier().fit(data.X, data.y, data.sample_domain).certificate_
    rows = {"a": {"no": 8, "yes": 40}, "b": {"no": 12, "yes": 90}}
    (_, _, doubt, *_) = answer_fit(certificate, rows).lines()
    assert doubt.startswith("But: class no of source a has 8 rows, and 1 more has fewer than 30:")
    assert "plain logistic regression is safer" in doubt
    enough = answer_fit(certificate, {"a": {"no": 30, "yes": 40}})
    assert not any("fewer than 30" in each for each in enough.doubts)


def test_small_classes_are_counted_and_absent_ones_are_not() -> None:
    one = describe_small_cells({"a": {"no": 1, "yes": 40}, "b": {"no": 0, "yes": 50}})
    assert one.startswith("class no of source a has 1 row: with fewer than 30 rows in each class")
    three = describe_small_cells({"a": {"no": 9, "yes": 4}, "b": {"no": 7, "yes": 50}})
    assert three.startswith("class yes of source a has 4 rows, and 2 more have fewer than 30:")
    assert describe_small_cells({}) == ""
