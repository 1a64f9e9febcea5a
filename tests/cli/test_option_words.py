"""Sentences of the library name options as they are typed, and nothing else is touched."""

import pytest

from regraft.cli.option_words import speak_of_options

OPTIONS = {
    "prior_shift": "--prior-shift",
    "class_groups": "--class-groups",
    "id_column": "--id",
    "family": "--family",
    "drop": "--drop",
}


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("prior_shift is -1: pass 0.", "--prior-shift is -1: pass 0."),
        ('prior_shift is of family="latent".', "--prior-shift is of --family latent."),
        ("class_groups=True and family='hull'.", "--class-groups and --family hull."),
        ("drop names 'a', which is none.", "--drop names 'a', which is none."),
        ("id_column, or class_groups.", "--id, or --class-groups."),
        ("(1) drop names 'a'; (2) drop names 'b'", "(1) --drop names 'a'; (2) --drop names 'b'"),
        (
            'drop is a setting of family="hull": pass that, or leave drop out.',
            "--drop is a setting of --family hull: pass that, or leave --drop out.",
        ),
        ("y has one class only ('a').", "the label column has one class only ('a')."),
        ("sample_domain has 9 values.", "the domain column has 9 values."),
    ],
)
def test_parameters_become_options(sentence: str, said: str) -> None:
    assert speak_of_options(sentence, OPTIONS) == said


@pytest.mark.parametrize(
    "sentence",
    [
        "column 'prior_shift' holds numbers.",
        "data/prior_shift.csv, and my_prior_shift, and prior_shift.csv are gone.",
        "--prior-shift is for the family latent: drop the row.",
        "the family that y has names 'a'.",
        "the family names 'a', 'A' differ in case only, and leave drop out of this.",
        "column 'sample_domain' is constant, as is \"y\".",
    ],
)
def test_other_words_stay(sentence: str) -> None:
    assert speak_of_options(sentence, OPTIONS) == sentence
