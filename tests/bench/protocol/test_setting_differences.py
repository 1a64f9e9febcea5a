"""The settings in which two runs differ."""

from typing import Any

import pytest

from regraft.bench.protocol.setting_differences import describe_differences


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"steps": 21}, {"steps": 51}, "steps 21 and 51"),
        ({"steps": 21}, {"steps": 21}, ""),
        ({"steps": None}, {"steps": 51}, "steps unset and 51"),
        ({"compat": True}, {"compat": False}, "compat true and false"),
        ({}, {"swad": True}, "swad false and true"),
        # What one program leaves out, the other writes.
        ({"uda_holdout_fraction": 0, "swad": False, "hparams": "{}"}, {"hparams": None}, ""),
        ({"seed": 0}, {"seed": 7}, "seed 0 and 7"),
        ({"output_dir": "a"}, {"output_dir": "b"}, ""),
        ({"hparams": "{}"}, {"hparams": "x" * 50}, f"hparams {{}} and {'x' * 40}…"),
        (
            dict.fromkeys("abcde", 1),
            dict.fromkeys("abcde", 2),
            "a 1 and 2, b 1 and 2, c 1 and 2, 2 more",
        ),
    ],
)
def test_what_differs_is_told(first: dict[str, Any], second: dict[str, Any], expected: str) -> None:
    assert describe_differences(first, second) == expected


def test_only_the_settings_that_are_asked_for_count() -> None:
    first, second = {"steps": 21, "task": "one"}, {"steps": 51, "task": "two"}
    assert describe_differences(first, second, ["task", "swad"]) == "task one and two"
