"""What a fit answers, in words for people who do not know the method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from regraft.core.certificate import Certificate
from regraft.core.evidence import accuracy_interval
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate
from regraft.core.latent_game import NO_OVERLAP
from regraft.estimators.abduction import describe_lone_group, is_weak
from regraft.estimators.source_mixtures import check_sources, describe_outside
from regraft.premises.sample_size import describe_small_cells
from regraft.support.measured import MeasuredShare
from regraft.support.table import at_least, is_useful, percent

_NOT_SETTLED = "The search for the robust model had not settled, so a better one may exist."
_NEW = "a new domain that"


@dataclass(frozen=True)
class FitAnswer:
    """The first screen of a page, and the first lines in a terminal."""

    verdict: str  # which model it is, and why
    number: str  # the one to quote
    meaning: str  # of what the number is, with its interval
    doubts: tuple[str, ...]  # that change the answer

    def lines(self) -> tuple[str, ...]:
        """Return the answer for a terminal, a paragraph each."""
        doubts = (f"But: {doubt}" for doubt in self.doubts)
        number = f"{self.number[0].upper()}{self.number[1:]}"
        return self.verdict, f"{number} {self.meaning}", *doubts


def answer_fit(
    certificate: Certificate, rows: Mapping[str, Mapping[str, int]] | None = None
) -> FitAnswer:
    """Say which model a fit returns, how good it is, and what speaks against relying on that.

    ``rows`` are counted by source and class, where they are known.
    """
    c = certificate
    few = describe_small_cells(rows or {})
    number, meaning = _number(c)
    found = c.abduction["warnings"] if isinstance(c, GroupCertificate) else ()
    outside = describe_outside(check_sources(c))
    doubts = few, outside, *found, "" if c.converged else _NOT_SETTLED
    return FitAnswer(_verdict(c), number, meaning, tuple(filter(None, doubts)))


def source_accuracies(certificate: Certificate) -> tuple[MeasuredShare, MeasuredShare]:
    """Return the accuracy of a head and of ERM's on the sources, mean over them."""
    c = certificate
    rows = len(c.sources) ** 2 / sum(1 / each.rows for each in c.sources)
    own, pooled = (
        MeasuredShare(accuracy, *accuracy_interval(accuracy, rows))
        for accuracy in (c.source_accuracy, c.pooled_source_accuracy)
    )
    return own, pooled


def _verdict(c: Certificate) -> str:
    """Say which model it is, and why."""
    if isinstance(c, GroupCertificate) and c.n_groups == 1:
        why = "No hidden factor was found that the sources differ in"
        if len(c.sources) == 1:
            why = "There is one source only, which cannot show a hidden factor"
        return (
            f"{why}, so this is the ordinary model. Nothing is known about domains unlike the "
            "sources."
        )
    differ, reason = "The sources differ in a hidden factor", c.reason
    alone = describe_lone_group(c.abduction) if isinstance(c, GroupCertificate) else ""
    if alone and reason == NO_OVERLAP:
        reason = f"{alone}, so the groups may be the sources"
    if isinstance(c, GroupCertificate) and is_weak(c.abduction):
        differ = "The sources seem to differ in a hidden factor, though the signs are weak"
    elif alone:
        differ = "The sources seem to differ in a hidden factor, but do not share all its groups"
    if isinstance(c, HeadCertificate):
        differ = "The sources differ in how their rows go with their labels"
    if c.reason:
        return f"{differ}. This is the ordinary model all the same, because {reason}."
    kept = ", which does not lean on it" if isinstance(c, GroupCertificate) else ""
    gains = f"{differ}. This is the robust model{kept}"
    if not is_useful(c.accuracy_bound):
        return f"{gains}."
    ordinary = at_least(c.pooled_accuracy_bound)
    if not is_useful(c.pooled_accuracy_bound):
        ordinary = f"{ordinary} there"
    return (
        f"{gains}: in the worst case {at_least(c.accuracy_bound)} of its answers are right, of the "
        f"ordinary model's {ordinary}."
    )


def _number(c: Certificate) -> tuple[str, str]:
    """Return the number to quote, and of what it is: measured, or certified."""
    own, ordinary = source_accuracies(c)
    sure = f"with {c.confidence:.0%} confidence"
    on_sources = "on rows of the sources that were set aside to measure it (mean over the sources"
    if isinstance(c, GroupCertificate) and c.n_groups == 1:
        meaning = f"of its answers are right {on_sources}, 95 % interval {own.interval})"
        return percent(own.value), f"{meaning}.{_worst_source(c)}"
    beside = "" if c.reason else f", the ordinary model {ordinary}"
    measured = f"Measured {on_sources}): {own}{beside}; in brackets, 95 % intervals."
    bound, where = percent(c.accuracy_bound), _where(c)
    if not is_useful(c.accuracy_bound):
        nothing = f"can be certified in {where}: the bound, {sure}, is 0 %"
        return "nothing useful", f"{nothing}. {measured}"
    if (worse := c.worse_source) is not None:
        own_interval = worse.measured.interval
        return percent(worse.accuracy), (
            f"of its answers are right in {worse.name}, measured on rows set aside (95 % interval "
            f"{own_interval}): it is the source in which the model is worst. In {where}, at least "
            f"{bound} are, {sure}. Mean over the sources: {own}{beside}."
        )
    return f"at least {bound}", f"of its answers are right in {where}, {sure}. {measured}"


def _where(c: Certificate) -> str:
    """Name the domains that the number holds in."""
    if isinstance(c, GroupCertificate):
        if c.prior_shift is not None:
            return f"{_NEW} holds the sources' groups of rows, in shares not too far from theirs"
        return f"{_NEW} holds the sources' groups of rows, in whatever shares"
    assert isinstance(c, HeadCertificate)
    if c.radius is None:
        return "the worst domain that was found, and in each source"
    return f"{_NEW} differs from the sources in the way they differ, within {c.radius:.3g} nats"


def _worst_source(c: Certificate) -> str:
    worst = min(c.sources, key=lambda each: each.accuracy)
    if len(c.sources) == 1:
        return ""
    return f" It is worst in {worst.name}: {percent(worst.accuracy)} ({worst.measured.interval})."
