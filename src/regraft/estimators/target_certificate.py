"""The certificate of an adapted head, for the domain that it was adapted to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from regraft.core.evidence import Evidence, pair_table
from regraft.estimators.placing import LEVEL
from regraft.support.plain_data import PlainData
from regraft.support.shown import ShownResult
from regraft.support.table import Table

_KINDS = {
    "kept": "The head is the one that the model had",
    "placed": "The head is the one of the place that the rows point to",
    "corrected": "The head was corrected by the labels, beyond what the family of the model allows",
    "refitted": "The head was fitted on the labels alone",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class TargetCertificate(ShownResult, PlainData):
    """How good an adapted head is in the domain that it was adapted to.

    ``labelled`` is measured on labels of the domain, by heads fitted without each fold of them. It
    assumes nothing but that further rows are drawn as these were. ``mixture`` is measured on source
    rows that the heads have not seen, in the worst mixture that the rows leave possible. It holds
    if the domain is a mixture of the groups. Each bound holds with a confidence of 95 %.
    """

    family: str
    kind: str  # "kept", "placed", "corrected" or "refitted"
    rows: int  # of the domain
    labels: int  # of these rows
    weights: dict[str, float]  # of the groups, or affine ones of the sources; empty if not placed
    lower: dict[str, float]  # ends of the confidence region; empty in the hull
    upper: dict[str, float]
    p_value: float | None  # of "the domain is a mixture of the groups"; None in the hull
    labelled: Evidence | None  # None if labels are too few
    labelled_before: Evidence | None  # of the head that the model had, on the same rows
    # None in the hull, if the head was corrected or refitted, or if the rows are no mixture.
    mixture: Evidence | None
    mixture_before: Evidence | None
    few: Evidence | None = None  # on labels that are too few for bounds, by heads without them
    few_before: Evidence | None = None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TargetCertificate:
        """Rebuild a certificate from :meth:`to_dict`, also after a round trip through JSON."""
        names = "labelled", "labelled_before", "mixture", "mixture_before", "few", "few_before"
        parts = {name: Evidence(**data[name]) if data.get(name) else None for name in names}
        found = cls(**{**data, **parts})
        # Older versions measured a mixture also where the rows are none.
        return replace(found, mixture=None, mixture_before=None) if found.is_refuted else found

    def paragraphs(self) -> tuple[str, ...]:
        """Return the certificate in plain words, one paragraph each."""
        return self.claim(), self.added(), self.limits()

    def table(self) -> Table:
        """Show accuracy and risk with their bounds, beside those of the model before."""
        pairs = (self.labelled, self.labelled_before), (self.mixture, self.mixture_before)
        return pair_table("Measured", [(a.name, a, b) for a, b in pairs if a and b], "before:")

    def claim(self) -> str:
        """Say what is certified."""
        said = []
        if self.is_refuted:
            said.append("The rows do not look like a mixture of what the sources hold.")
        if self.labelled is not None:
            said.append(
                "Certified: in the domain that the labelled rows were drawn from, "
                f"{_bounds(self.labelled)} (95 % confidence, labels that the heads have not seen)."
            )
        if self.mixture is not None:
            said.append(
                "Certified: if the domain is a mixture of the groups found, "
                f"{_bounds(self.mixture)} (95 % confidence, source rows that the heads have not "
                "seen, in the worst mixture that the rows leave possible)."
            )
        if not any(each.startswith("Certified") for each in said):
            said.append("Nothing is certified: that takes more labels of the domain.")
        return " ".join(said)

    @property
    def is_refuted(self) -> bool:
        """Whether the rows speak against a mixture of the groups."""
        return self.p_value is not None and self.p_value <= LEVEL

    def added(self) -> str:
        """Say what the rows of the domain added."""
        what = f"{self.rows:,} rows, {self.labels:,} of them with labels"
        kind = _KINDS[self.kind]
        if self.kind == "placed" and not self.labels:
            kind = "The head is the best one for the worst mixture that the rows leave possible"
        said = [f"{kind}; {what}."]
        for now, before, where in (
            (self.labelled, self.labelled_before, "On labels of the domain"),
            (self.mixture, self.mixture_before, "In the worst mixture that is left"),
        ):
            if now is not None and before is not None:
                said.append(
                    f"{where}, it has {now.accuracy:.1%} and {now.risk:.3f} nats; the model before "
                    f"had {before.accuracy:.1%} and {before.risk:.3f} nats."
                )
        if self.few is not None and self.few_before is not None:
            said.append(
                f"On these {self.few.rows:.0f} labels, each judged by a head that has not seen it, "
                f"it has {self.few.measured} (95 % interval); the model before had "
                f"{self.few_before.measured}. They also chose the head, and are too few to certify."
            )
        return " ".join(said)

    def limits(self) -> str:
        """Say what is not certified."""
        return "Not certified: any other domain, and this one once it changes."


def _bounds(evidence: Evidence) -> str:
    return (
        f"the risk is at most {evidence.risk_bound:.3f} nats and the accuracy at least "
        f"{evidence.accuracy_bound:.1%}"
    )
