"""Results as whole files: JSON, CSV, and a picture beside them."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regraft.support.extras import MissingExtra
from regraft.support.files import write_text


def write_result(
    folder: Path | None,
    name: str,
    result: dict[str, Any],
    picture: str,
    plot: Callable[[Path], None],
) -> list[Path]:
    """Write a result as JSON and as a picture, if a folder is given; the files written.

    Without vl-convert the picture is left out with a warning.
    """
    if folder is None:
        return []
    write_text(folder / name, dumps(result))
    try:
        plot(folder / picture)
    except MissingExtra as error:
        warnings.warn(f"{picture} is not drawn: {error}", stacklevel=2)
        return [folder / name]
    return [folder / name, folder / picture]


def dumps(document: Any, indent: int | None = 2) -> str:
    """JSON with null for infinity and NaN, which it does not have."""
    return json.dumps(_finite(document), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
