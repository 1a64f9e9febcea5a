"""Which inputs have labels and domains: columns of a table, folders of images, or none."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from regraft.data.image_folders import is_flat, is_image_name
from regraft.data.table_rows import read_names
from regraft.data.text_inputs import is_plain

_USES = "regraft predict and regraft place take such a bank, regraft fit does not"


def choose_tags(
    path: Path, label: str, domain: str, *, unlabelled: bool = False
) -> Mapping[str, str | None]:
    """Return the columns of labels and domains to read; None for what the inputs do not have.

    A folder in the layout domain/class/file has both, and stands for columns of these names. One
    with images and no folders has none; nor has a .txt file or an image. A table may lack a column
    of the default name, but not one that was typed. Warns of what is missing, unless the inputs are
    said to be ``unlabelled``.
    """
    asked = {"label": label, "domain": domain}
    if unlabelled or is_plain(path) or (path.is_file() and is_image_name(path.name)):
        return dict.fromkeys(asked)
    if path.is_dir():
        if not is_flat(path):
            return asked
        warnings.warn(
            f"{path} holds images and no folders of domains, so the bank has no labels and no "
            f"domains: {_USES}.",
            stacklevel=2,
        )
        return dict.fromkeys(asked)
    names = read_names(path)
    missing = [name for name, column in asked.items() if column == name and column not in names]
    if missing:
        columns = " and ".join(repr(name) for name in missing)
        options = " and ".join(f"--{name}" for name in missing)
        warnings.warn(
            f"{path} has no column {columns}, so the bank has no {'s and no '.join(missing)}s: "
            f"{_USES}, so name the column with {options} if it is there.",
            stacklevel=2,
        )
    return {name: None if name in missing else column for name, column in asked.items()}
