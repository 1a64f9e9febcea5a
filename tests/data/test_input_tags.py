"""Which inputs have labels and domains, and what is said about those that have none."""

from pathlib import Path

import pytest

from regraft.data.input_tags import choose_tags
from tests.helpers.errors import one_sentence
from tests.helpers.toy_encoders import write_images

pytestmark = pytest.mark.filterwarnings("error")

BOTH = {"label": "label", "domain": "domain"}
NONE = {"label": None, "domain": None}


def test_folders(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r")
    assert choose_tags(root, "label", "domain") == BOTH
    assert choose_tags(root / "a", "label", "domain") == BOTH  # refused when it is listed
    assert choose_tags(root, "label", "domain", unlabelled=True) == NONE
    assert choose_tags(root / "a/x/0000.png", "label", "domain") == NONE
    with pytest.warns(UserWarning, match="images and no folders of domains") as warned:
        assert choose_tags(root / "a/x", "label", "domain") == NONE
    one_sentence(warned[0].message)


@pytest.mark.parametrize(
    ("header", "given", "expected", "warning"),
    [
        ("text,label,domain", BOTH, BOTH, None),
        ("text", BOTH, NONE, "no column 'label' and 'domain', so the bank has no labels and no"),
        ("text,label", BOTH, {"label": "label", "domain": None}, "so the bank has no domains: "),
        (
            "text,stars",
            {"label": "stars", "domain": "shop"},
            {"label": "stars", "domain": "shop"},
            None,
        ),
    ],
)
def test_tables(
    tmp_path: Path,
    header: str,
    given: dict[str, str],
    expected: dict[str, str | None],
    warning: str | None,
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n")
    assert choose_tags(path, **given, unlabelled=True) == NONE
    if warning is None:
        assert choose_tags(path, **given) == expected  # what was typed is looked for later
        return
    with pytest.warns(UserWarning, match=warning) as warned:
        assert choose_tags(path, **given) == expected
    one_sentence(warned[0].message, path)


def test_lines_of_text(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("a text")
    assert choose_tags(path, "label", "domain") == NONE
