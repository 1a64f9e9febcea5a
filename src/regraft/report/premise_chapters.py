"""Chapters on the premises and on moral questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from regraft.core.certificates import certificate_from_dict
from regraft.estimators.audit import AuditCurve
from regraft.report.elements import Chapter, Document, Section, Text
from regraft.report.sections import proof_sections, stress_section, tables_sections
from regraft.support.table import Table, percent

# By key in the document: the premise, and what is the case where it is violated.
_PREMISES = {
    "heterogeneity": ("sources disagree", "the sources do not disagree"),
    "closure": ("factorization closes", "the factorization does not close"),
    "angles": ("abductions differ", "abductions do not differ"),
    "invariance": ("deduction is invariant", "the deduction is not invariant"),
    "basis": ("a transplant basis exists", "no transplant basis exists"),
}
_MARKS = {"consistent": "✓ looks true", "violated": "✗ violated", "undecided": "? cannot tell"}


def diagnosis_chapter(document: Document) -> Chapter:
    """Build the chapter for ``diagnosis.json``."""
    found = {key: document[key]["verdict"] for key in _PREMISES}
    violated = [_PREMISES[key][1] for key, verdict in found.items() if verdict == "violated"]
    undecided = [_PREMISES[key][0] for key, verdict in found.items() if verdict == "undecided"]
    if violated:
        verdict = f"What the method needs is not given: {', '.join(violated)}"
    elif undecided:
        verdict = f"No premise is violated, undecided are: {', '.join(undecided)}"
    else:
        verdict = "All premises look satisfied on these data"
    shifts = document["shifts"]
    return Chapter(
        "Do the premises hold?",
        f"Do the premises of the method look satisfied on {document['rows']} rows of "
        f"{len(document['domains'])} domains?",
        f"{verdict}; correlation shift, which the method is made for, is "
        f"{shifts['correlation']:.2f}, diversity shift, which it is not, "
        f"{shifts['diversity']:.2f}.",
        (_verdicts_section(document, found), *tables_sections(document["tables"])),
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


def _verdicts_section(document: Document, found: Mapping[str, str]) -> Section:
    rows = tuple((_PREMISES[key][0], _MARKS[verdict]) for key, verdict in found.items())
    violated = frozenset(i for i, v in enumerate(found.values()) if v == "violated")
    table = Table("Verdicts", ("premise", "verdict"), rows, violated)
    return Section("The premises", (table, *map(Text, document["summary"])))
