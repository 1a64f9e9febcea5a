"""A diagnosis as files: JSON for the report, Markdown for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regraft.premises.diagnose import Diagnosis
from regraft.premises.diagnosis_tables import answers, details, markdown, verdicts
from regraft.support.files import write_text
from regraft.support.json_files import dumps


def write_diagnosis(folder: Path, diagnosis: Diagnosis) -> list[Path]:
    """Write diagnosis.json and diagnosis.md into ``folder``; returns the files."""
    files = [folder / "diagnosis.json", folder / "diagnosis.md"]
    write_text(files[0], dumps(diagnosis_document(diagnosis)))
    words = "\n".join(f"- {sentence}" for sentence in diagnosis.summary())
    text = markdown([answers(diagnosis), verdicts(diagnosis), *details(diagnosis)])
    write_text(files[1], f"# Diagnosis\n\n{words}\n\n{text}")
    return files


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return all numbers, and the tables in which they are shown."""
    return diagnosis.to_dict() | {"tables": [table.to_dict() for table in details(diagnosis)]}
