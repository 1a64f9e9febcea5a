"""Chapters on the premises and on moral questions."""

from __future__ import annotations

from dataclasses import replace

from regraft.core.certificates import certificate_from_dict
from regraft.estimators.audit import AuditCurve
from regraft.premises.diagnose import PREMISES
from regraft.premises.diagnosis_tables import PREMISES_NOTE
from regraft.report.elements import Chapter, Document, Section, Text
from regraft.report.sections import proof_sections, stress_section, tables_sections
from regraft.support.table import Table, percent

_MARKS = {"consistent": "✓ consistent", "violated": "✗ violated", "undecided": "? undecided"}


def diagnosis_chapter(document: Document) -> Chapter:
    """Build the chapter for ``diagnosis.json``."""
    answers, names = document["answers"], document["domains"]
    sources = "1 source" if len(names) == 1 else f"{len(names)} sources"
    rows = tuple((each["question"], each["answer"], each["number"]) for each in answers)
    table = Table("Answers", ("question", "answer", "number"), rows, align="lll")
    sentences = [Text(each["sentence"]) for each in answers]
    return Chapter(
        "What do these data allow?",
        f"What do {document['rows']} rows of {sources} show, and what should be done?",
        answers[-1]["sentence"],
        (
            Section("Four answers", (table, *sentences)),
            replace(_verdicts_section(document), folded=True),
            *tables_sections(document["tables"]),
        ),
    )


def moral_chapter(document: Document) -> Chapter:
    """Build the chapter for ``moral.json``; the diagnosis has its own."""
    transfer = document["transfer"]
    proofs = [
        replace(section, title=f"{name}: {section.title}")
        for name, head in transfer["bounded"].items()
        for section in proof_sections(certificate_from_dict(head["certificate"]))
    ]
    curves = {name: AuditCurve.from_dict(curve) for name, curve in transfer["curves"].items()}
    heads = {head["name"]: head for head in transfer["heads"]}
    texts = (f"{example['scenario']}: {example['text']}" for example in document["examples"])
    said = document["scenarios"], document["labels"], *texts
    accuracies = ", ".join(
        f"{name} has {percent(head['target_accuracy'])} there and "
        f"{percent(head['source_accuracy'])} on known panels"
        for name, head in heads.items()
    )
    return Chapter(
        "Moral questions",
        f"Do panels of people with known values fit the method, and does a head "
        f"trained without the {transfer['target']} panel hold in it?",
        f"Without the {transfer['target']} panel, {accuracies}.",
        (
            Section("The records", tuple(map(Text, said))),
            *tables_sections(document["tables"]),
            stress_section(curves, "new records of the known panels"),
            *proofs,
        ),
    )


def _verdicts_section(document: Document) -> Section:
    found = {name: document[key]["verdict"] for key, name in PREMISES.items()}
    rows = tuple((name, _MARKS[verdict]) for name, verdict in found.items())
    violated = frozenset(i for i, v in enumerate(found.values()) if v == "violated")
    table = Table("Verdicts", ("premise", "verdict"), rows, violated, note=PREMISES_NOTE)
    sentences = document["summary"][len(document["answers"]) :]
    return Section("The premises", (table, *map(Text, sentences)))
