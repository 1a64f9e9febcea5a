"""Fields of dataclasses are documented by the comments beside them; the site shows these."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Adds the fields of a class, with their comments, to its docstring."""

    def on_class_members(self, *, node: Any, cls: griffe.Class, **_: Any) -> None:
        """Look at one class whose members are known."""
        fields = dict(_fields(node, cls))
        if cls.docstring is None or not any(fields.values()):
            return
        rows = [
            f"{name} : {cls.members[name].annotation}\n    {comment or ' '}"
            for name, comment in fields.items()
        ]
        cls.docstring.value += "\n\nAttributes\n----------\n" + "\n".join(rows)


def _fields(node: Any, cls: griffe.Class) -> Iterator[tuple[str, str]]:
    """Public annotated names in the body of a class, each with the comment behind it."""
    lines = cls.lines_collection[cls.filepath]
    for each in getattr(node, "body", ()):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            name = each.target.id
            if not name.startswith("_"):
                inside = lines[each.lineno - 1 : each.end_lineno]
                comments = [line.partition("  # ")[2].strip() for line in inside]
                yield name, " ".join(filter(None, comments))
