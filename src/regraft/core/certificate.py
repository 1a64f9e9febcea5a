"""What the certificates of all families share: evidence on rows held out, and the game behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from regraft.core.evidence import (
    CONFIDENCE,
    Evidence,
    HeldOutRows,
    mean_accuracy,
    measure_sources,
    pair_table,
)
from regraft.core.game import GameOutcome, Round
from regraft.core.guard import Advantage
from regraft.core.heads import SourceHeads
from regraft.support.plain_data import PlainData
from regraft.support.shown import ShownResult
from regraft.support.table import Table, at_least, is_useful, percent

_EVIDENCE = tuple(
    f"{of}{kind}" for of in ("", "pooled_") for kind in ("targets", "sources", "kept", "groups")
)
# What a document holds beside the evidence that it follows from; older ones without "_bound".
_DERIVED = {
    "worst_source",
    *(f"{of}{kind}" for of in ("", "pooled_") for kind in ("risk_bound", "accuracy_bound")),
    *(f"{of}{kind}" for of in ("", "pooled_") for kind in ("risk", "accuracy")),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate(ShownResult, PlainData):
    """How good a head is in every plausible domain of its family.

    No plausible domain's risk is above ``risk_bound``, and no plausible domain's accuracy is below
    ``accuracy_bound``, each with a confidence of 95 %. ``worst_source`` was measured, and may be
    below that bound if it is no plausible domain. Everything is measured on rows that the measured
    heads were not fitted on; the head itself was fitted on all rows.
    """

    family: str
    confidence: float
    targets: tuple[Evidence, ...]  # the domains that decide
    sources: tuple[Evidence, ...]
    reason: str  # why the head is ERM's; empty if it is the game's
    source_accuracy: float  # mean over the sources
    pooled_targets: tuple[Evidence, ...]  # ERM's evidence, in the order of this head's
    pooled_sources: tuple[Evidence, ...]
    pooled_source_accuracy: float
    advantage: float | None  # of the game's head over ERM's in the worst case (nats)
    advantage_error: float | None  # its paired standard error
    gap: float  # duality gap of the game's answer
    converged: bool
    rounds: tuple[Round, ...]
    source_rows: tuple[int, ...]
    notes: tuple[str, ...] = ()  # what to know of the rows: classes that sources lack, weights

    # Follow from the evidence.
    risk_bound: float = field(init=False)  # nats, in every plausible domain
    accuracy_bound: float = field(init=False)
    pooled_risk_bound: float = field(init=False)  # of ERM's head, by the same rule
    pooled_accuracy_bound: float = field(init=False)
    worst_source: Evidence = field(init=False)  # with the lowest accuracy

    def __post_init__(self) -> None:
        own = self._bounded(self.targets, self.sources)
        pooled = self._bounded(self.pooled_targets, self.pooled_sources)
        for name, evidence in (("", own), ("pooled_", pooled)):
            risk = max(each.risk_bound for each in evidence)
            accuracy = min(each.accuracy_bound for each in evidence)
            object.__setattr__(self, f"{name}risk_bound", risk)
            object.__setattr__(self, f"{name}accuracy_bound", accuracy)
        worst = min(self.sources, key=lambda each: each.accuracy)
        object.__setattr__(self, "worst_source", worst)

    @property
    def worse_source(self) -> Evidence | None:
        """The worst source, if its accuracy was measured below the bound."""
        return self.worst_source if self.worst_source.accuracy < self.accuracy_bound else None

    def _bounded(
        self, targets: tuple[Evidence, ...], sources: tuple[Evidence, ...]
    ) -> tuple[Evidence, ...]:
        """Return the evidence whose bounds are certified."""
        return (*targets, *sources)

    def to_json(self) -> str:
        """Return the certificate as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Rebuild a certificate from :meth:`to_dict`, also after a round trip through JSON.

        Bounds follow from the evidence, also those of certificates that older versions wrote.
        """
        kinds = [kind for kind in _EVIDENCE if kind in data]
        changed: dict[str, Any] = {
            **{kind: tuple(Evidence(**each) for each in data[kind]) for kind in kinds},
            "rounds": tuple(Round(**{**r, "risks": tuple(r["risks"])}) for r in data["rounds"]),
            "source_rows": tuple(data["source_rows"]),
            "notes": tuple(data.get("notes", ())),
        }
        return cls(**{name: x for name, x in (data | changed).items() if name not in _DERIVED})

    def paragraphs(self) -> tuple[str, ...]:
        """Return the certificate in plain words, one paragraph each."""
        notes = (f"{note[0].upper()}{note[1:]}" for note in self.notes)
        return self.claim(), self.choice(), *notes, self.limits()

    def table(self) -> Table:
        """Show accuracy and risk with their bounds wherever they were measured, beside ERM's."""
        return pair_table("Measured on held-out rows", self.pair_evidence(), "ERM's")

    def pair_evidence(self) -> Iterator[tuple[str, Evidence, Evidence]]:
        """Yield a name with the evidence of the head and of ERM's: targets, then sources."""
        names = {each.name for each in self.targets}
        for ours, theirs in zip(self.targets, self.pooled_targets, strict=True):
            yield ours.name, ours, theirs
        yield from self._pair_more()
        for ours, theirs in zip(self.sources, self.pooled_sources, strict=True):
            yield f"{ours.name} (source)" if ours.name in names else ours.name, ours, theirs

    def _pair_more(self) -> Iterator[tuple[str, Evidence, Evidence]]:
        """Yield what a family has measured elsewhere."""
        yield from ()

    def scope(self) -> str:
        """Name the domains that it covers, as in "in every domain that ..."."""
        raise NotImplementedError

    def limits(self) -> str:
        """Say what is not certified."""
        raise NotImplementedError

    def claim(self) -> str:
        """Say what is certified, beside ERM's, and which source was measured to be worse."""
        own = f"and an accuracy of {at_least(self.accuracy_bound)}"
        if not is_useful(self.accuracy_bound):
            own = f"({at_least(0.0)} about its accuracy)"
        pooled = percent(self.pooled_accuracy_bound)
        if not is_useful(self.pooled_accuracy_bound):
            pooled = "nothing useful about its accuracy"
        claim = (
            f"Certified: {self.scope()}, this head has a risk of at most {self.risk_bound:.3f} "
            f"nats {own} ({self.confidence:.0%} confidence, held-out rows); ERM's head is "
            f"certified at {self.pooled_risk_bound:.3f} nats and {pooled}."
        )
        if (worse := self.worse_source) is None:
            return claim
        return f"{claim} {describe_worse(worse, self.accuracy_bound)}"

    def choice(self) -> str:
        """Say which head it is, and why."""
        if self.reason:
            return f"The head is ERM's: {self.reason}."
        better = ""
        if self.advantage is not None:
            better = (
                f": its risk there, measured on held-out rows, is lower than ERM's by "
                f"{self.advantage:.3f} ± {self.advantage_error:.3f} nats (± one standard error)"
            )
        return (
            f"The head is the one that won the game against the worst domain{better}. On the "
            f"sources it has {self.source_accuracy:.1%} where ERM has "
            f"{self.pooled_source_accuracy:.1%} (measured on held-out rows, mean over the sources)."
        )


def describe_worse(source: Evidence, bound: float) -> str:
    """Say that less than an accuracy ``bound`` was measured in a source, and what follows."""
    own = source.measured
    less = f"In the source {source.name}, {own.value:.1%} was measured, less than that"
    if own.high >= bound:
        return f"{less}, which may be chance (95 % interval {own.low:.1%} to {own.high:.1%})."
    return (
        f"{less}: as far as its rows tell, it is no such domain, and the bound does not speak "
        "about it."
    )


@dataclass(frozen=True)
class MeasuredHead:
    """Evidence for one head on rows held out."""

    targets: tuple[Evidence, ...]
    sources: tuple[Evidence, ...]
    source_accuracy: float  # mean over the sources


def measure_heads(
    measure_targets: Callable[[HeldOutRows], tuple[Evidence, ...]],
    held_out: HeldOutRows,
    pooled: HeldOutRows,
    sources: SourceHeads,
    names: Sequence[str],
) -> tuple[MeasuredHead, MeasuredHead]:
    """Measure a head and ERM's on rows held out, in targets and in the sources of these names."""

    def collect(rows: HeldOutRows) -> MeasuredHead:
        in_sources = measure_sources(rows, sources.slices, names, sources.row_weight)
        accuracy = mean_accuracy(rows, sources.slices, sources.row_weight)
        return MeasuredHead(measure_targets(rows), in_sources, accuracy)

    ours = collect(held_out)
    return ours, ours if pooled is held_out else collect(pooled)


def join_evidence(
    ours: MeasuredHead,
    erm: MeasuredHead,
    *,
    notes: tuple[str, ...],
    game: GameOutcome | None,
    source_rows: tuple[int, ...],
    reason: str = "",
    advantage: Advantage | None = None,
) -> dict[str, Any]:
    """Return the fields that all certificates share, of a head and of ERM's, measured already.

    ``notes`` say what to know of the rows.
    """
    return (
        vars(ours)
        | {f"pooled_{name}": value for name, value in vars(erm).items()}
        | {
            "confidence": CONFIDENCE,
            "reason": reason,
            "advantage": None if advantage is None else advantage.gain,
            "advantage_error": None if advantage is None else advantage.standard_error,
            "gap": 0.0 if game is None else game.rounds[-1].gap,
            "converged": game is None or game.converged,
            "rounds": () if game is None else game.rounds,
            "source_rows": source_rows,
            "notes": notes,
        }
    )
