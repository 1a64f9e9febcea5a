"""Four answers to act on: the rules that lead from the numbers of a diagnosis to advice."""

from __future__ import annotations

from dataclasses import dataclass

from regraft.core.abduction import LEVEL as FACTOR_LEVEL
from regraft.premises.deduction_invariance import DeductionInvariance
from regraft.premises.heterogeneity import Heterogeneity
from regraft.premises.hidden_factor import HiddenFactor
from regraft.premises.sample_size import COARSE, LEAST_CELL_ROWS, SampleSize
from regraft.premises.shifts import Shifts
from regraft.premises.verdicts import ONE_SOURCE, format_p_value
from regraft.support.plain_data import PlainData
from regraft.support.plurals import count
from regraft.support.table import whole_percent

QUESTIONS = (
    "Is there a hidden factor?",
    "Do the sources differ in inputs only?",
    "Is there enough data?",
    "What should I do?",
)


@dataclass(frozen=True)
class Answer(PlainData):
    """One question with its answer, the number behind it, and a sentence that explains both."""

    question: str
    answer: str
    number: str
    sentence: str


@dataclass(frozen=True)
class Findings:
    """Everything that the answers rest on."""

    factor: HiddenFactor
    heterogeneity: Heterogeneity
    shifts: Shifts
    size: SampleSize
    invariance: DeductionInvariance | None = None  # if U was observed

    @property
    def one_source(self) -> bool:
        """Whether all rows are of one source."""
        return len(self.size.rows) == 1


def answer_questions(evidence: Findings) -> tuple[Answer, ...]:
    """Answer the four questions, in their order."""
    answers = (
        _find_factor(evidence),
        _compare_inputs(evidence),
        _judge_size(evidence),
        _advise(evidence),
    )
    return tuple(
        Answer(question, *answer) for question, answer in zip(QUESTIONS, answers, strict=True)
    )


_Words = tuple[str, str, str]  # the answer, the number behind it, the sentence
_ONE_SOURCE: _Words = ("cannot tell", "1 source", ONE_SOURCE)


def _find_factor(evidence: Findings) -> _Words:
    factor = evidence.factor
    if evidence.one_source:
        return _ONE_SOURCE
    if not factor.found:
        sentence = f"No hidden factor was found ({factor.chance})."
        if factor.p_value <= FACTOR_LEVEL:
            sentence = (
                f"The sources differ given the label ({factor.chance}), but not as mixtures of the "
                "same groups of rows."
            )
        return "none found", factor.chance, sentence
    groups = f"rows fall into {factor.n_groups} groups that the sources hold in different shares"
    begin = f"The {groups} ({factor.chance}):"
    if factor.is_weak:
        weak = "but the signs of a hidden factor are weak"
        begin = f"The sources differ ({factor.chance}), {weak}: the {groups};"
    sentence = (
        f"{begin} {_describe_shares(factor)}. On rows that no step has seen, the groups "
        f"tell {factor.gain:.4f} ± {factor.gain_error:.4f} nats about the source "
        "(± one standard error)"
    )
    sentence += "." if factor.is_clear else ", which may be chance."
    if factor.is_weak:
        apart = f"{factor.separation:.1f} standard deviations apart"
        sentence += f" The groups overlap: they lie {apart}, so many rows cannot be told."
    if factor.lone_holders:
        u, source = factor.lone_holder
        sentence += f" But only {source} has group {u}, so groups may be the sources themselves."
    answer = "maybe"
    if factor.is_clear and factor.is_shared:
        answer = "weak signs" if factor.is_weak else "yes"
    return answer, factor.chance, sentence


def _describe_shares(factor: HiddenFactor) -> str:
    """Name the sources that have the least and the most of the group that varies most."""
    spans = [max(column) - min(column) for column in zip(*factor.shares.values(), strict=True)]
    u = max(range(len(spans)), key=lambda u: (round(spans[u], 6), u))  # the last of equal ones
    share = {name: row[u] for name, row in factor.shares.items()}
    low, high = (choose(share, key=share.__getitem__) for choose in (min, max))
    least, most = (f"{whole_percent(share[name])} of {name}" for name in (low, high))
    return f"group {u} is {least} and {most}"


def _compare_inputs(evidence: Findings) -> _Words:
    found = evidence.heterogeneity
    if evidence.one_source:
        return _ONE_SOURCE
    if not found.draws:
        return "cannot tell", "no common classes", found.sentence
    rows = f"as many as {found.effective_rows:.0f} rows have inputs that other sources have too"
    overlap = f"{found.overlap:.0%} of what sources with the same inputs would have"
    if not found.has_enough_rows:
        sentence = f"The sources share too few inputs to compare their labels: {rows}, {overlap}."
        return "cannot tell", count(round(found.effective_rows), "rows"), sentence
    if found.found:
        source, p = _odd_source(evidence)
        sentence = (
            f"The sources also disagree about the label of like inputs ({found.chance}), most "
            f"clearly {source} ({p} by itself); {rows}, {overlap}."
        )
        return "no", found.chance, sentence
    sentence = (
        f"No disagreement about the label of like inputs was found ({found.chance}); {rows}, "
        f"{overlap}."
    )
    return "as far as seen", found.chance, sentence


def _odd_source(evidence: Findings) -> tuple[str, str]:
    """Return the source whose labels depart most clearly, and its own p-value in words."""
    found = evidence.heterogeneity
    p_values = dict(zip(evidence.size.rows, found.source_p_values, strict=True))
    source = min(p_values, key=p_values.__getitem__)
    return source, format_p_value(p_values[source], found.draws)


def _judge_size(evidence: Findings) -> _Words:
    size = evidence.size
    source, label, n = size.smallest_cell
    coarse = size.coarsest_source
    margin = f"± {100 * size.margins[coarse]:.1f} points"
    sentence = (
        f"The smallest part is class {label} of {source} with {count(n, 'rows')}. An accuracy in "
        f"{coarse} ({count(size.n_rows(coarse), 'rows')}) is known to {margin} (two standard "
        "errors, about a 95 % interval)."
    )
    if not evidence.one_source:
        points = f"{100 * evidence.factor.least_difference:.0f} points"
        sentence += (
            f" A hidden factor is lost in noise if its share in {size.smallest_source} differs by "
            f"less than about {points} from that in the others, even if the features show it "
            "without error."
        )
    if size.is_too_small:
        sentence += f" Each class of a source needs {LEAST_CELL_ROWS} rows."
        return "no", count(n, "rows"), sentence
    return "barely" if size.is_coarse else "yes", margin, sentence


def _advise(evidence: Findings) -> _Words:
    answer, number, sentence = _choose_advice(evidence)
    size = evidence.size
    if size.is_coarse and not size.is_too_small:
        source = size.coarsest_source
        sentence += (
            f" To know an accuracy in {source} to ± {100 * COARSE:.0f} points, collect labels of "
            f"about {size.missing_rows(source)} more rows there."
        )
    return answer, number, sentence


def _choose_advice(evidence: Findings) -> _Words:
    """Return the first advice whose condition holds."""
    labels, size = evidence.heterogeneity, evidence.size
    if evidence.one_source:
        sentence = (
            f"Collect labelled rows of a second source: {size.smallest_source} alone does not show "
            "what differs between sources. Until then use ERM."
        )
        return "collect labels", "1 source", sentence
    if size.is_too_small:
        source, label, n = size.smallest_cell
        sentence = (
            f"Collect labels of class {label} in {source}, or leave {source} out: there are {n} "
            f"rows, and {LEAST_CELL_ROWS} are the least. Until then use ERM."
        )
        return "collect labels", count(n, "rows"), sentence
    invariance = evidence.invariance
    if invariance is not None and invariance.verdict == "violated":
        p = format_p_value(invariance.p_value, invariance.draws)
        sentence = (
            f"Use ERM: labels differ by source even within the groups given ({p}), so no mixture "
            "of these groups explains them. Collect another column that may."
        )
        return "use ERM", p, sentence
    if not labels.draws:
        sentence = (
            "Collect rows of the classes that sources lack: fewer than two classes have rows in "
            "every source, so that nobody can tell whether labels differ. Until then use ERM."
        )
        return "collect labels", "no common classes", sentence
    if not labels.has_enough_rows:
        pair = max(evidence.shifts.pairs, key=lambda pair: pair.diversity)
        sentence = (
            f"Collect labelled rows of {pair.first} and {pair.second} with like inputs: "
            f"{pair.diversity:.0%} of their inputs are found in one of them only, so that nobody "
            "can tell whether labels differ. Until then use ERM."
        )
        return "collect labels", count(round(labels.effective_rows), "rows"), sentence
    if not labels.found:
        sentence = (
            "Use ERM: like inputs have like labels in all sources, as far as these rows show "
            f"({labels.chance}), so a robust head has little to guard against."
        )
        return "use ERM", labels.chance, sentence
    return _explain_disagreement(evidence)


def _explain_disagreement(evidence: Findings) -> _Words:
    """Return advice for sources that disagree about the label of like inputs."""
    factor, labels = evidence.factor, evidence.heterogeneity
    if factor.is_clear and factor.is_shared:
        advice, mix = "use CRO", f"mix a hidden factor in different shares ({factor.chance})"
        more = ""
        if factor.is_weak:
            advice, mix = "try CRO", f"seem to {mix}, though the signs are weak"
            more = ", and to cost less on the sources than it gains there"
        sentence = (
            f"{advice[0].upper()}{advice[1:]} (regraft fit): the sources disagree about the label "
            f"of like inputs ({labels.chance}), and {mix}. It returns ERM's head unless rows held "
            f"out show its own to be better in the worst case{more}."
        )
        return advice, f"{labels.chance}, {factor.chance}", sentence
    if factor.is_clear:
        u, source = factor.lone_holder
        sentence = (
            f"Collect labelled rows like group {u} outside of {source} (regraft abduct shows such "
            f"rows): {source} alone has them, so a factor cannot be told from the source. Until "
            "then use ERM."
        )
        return "collect labels", f"{factor.shares[source][u]:.0%} of {source}", sentence
    source, p = _odd_source(evidence)
    sentence = (
        f"Use ERM: the sources disagree about the label of like inputs ({labels.chance}), most "
        f"clearly {source} ({p} by itself), but no groups of rows clearly explain it. Collect a "
        "column that may, such as who labelled the rows or with what device"
    )
    named = "." if evidence.invariance else ", and name it with regraft diagnose --group."
    return "use ERM", labels.chance, sentence + named
