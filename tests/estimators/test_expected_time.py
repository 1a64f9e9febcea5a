"""Long fits are announced, short ones are not."""

from regraft.estimators.expected_time import describe_wait


def test_only_long_fits_are_announced() -> None:
    assert describe_wait(20_000, 50, 2) == describe_wait(100_000, 2, 10) == ""
    assert describe_wait(20_000, 50, 200).startswith("This takes about 1 minute on one core")
    assert "1,000 classes of 20 features in 20,000 rows" in describe_wait(20_000, 20, 1000)
