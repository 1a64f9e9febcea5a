"""Write gallery/*.ipynb from the gallery's scripts, without outputs.

python benchmarks/notebooks.py
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

GALLERY = Path(__file__).resolve().parent.parent / "gallery"
_CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def convert(text: str) -> str:
    """Return a script in the percent format as the text of a notebook."""
    _, *parts = _CELL.split(text)
    cells = []
    for number, (kind, body) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        make, source = new_code_cell, body.strip("\n")
        if "[markdown]" in kind:
            make, source = new_markdown_cell, re.sub(r"^# ?", "", source, flags=re.MULTILINE)
        cells.append(make(source, id=f"cell-{number}"))  # the same at every run
    notebook = new_notebook(cells=cells, metadata={"kernelspec": _KERNEL})
    nbformat.validate(notebook)
    return f"{nbformat.writes(notebook).rstrip()}\n"


def main() -> None:
    for script in sorted(GALLERY.glob("*.py")):
        path = script.with_suffix(".ipynb")
        path.write_text(convert(script.read_text(encoding="utf-8")), encoding="utf-8")
        print(path.name)


if __name__ == "__main__":
    main()
