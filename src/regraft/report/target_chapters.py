"""The chapters on a new domain: where it lies, and a head adapted to it."""

from __future__ import annotations

from dataclasses import replace

from regraft.core.certificates import certificate_from_dict
from regraft.core.group_certificate import GroupCertificate
from regraft.estimators.abduction_ends import ShownRow
from regraft.estimators.learning_curve import LearningCurve
from regraft.estimators.placing import LEVEL, Placement
from regraft.estimators.source_mixtures import check_sources
from regraft.estimators.target_certificate import TargetCertificate
from regraft.estimators.target_tables import adapted_table, place_table, placement_table
from regraft.report.elements import (
    Chapter,
    Chart,
    Document,
    Figure,
    Part,
    Picture,
    Section,
    Strip,
    Text,
)
from regraft.report.factor_sections import source_shares
from regraft.report.prevalence import (
    accuracies_of,
    heads_of,
    new_place,
    prevalence_section,
    source_places,
)
from regraft.support.charts import labels_chart
from regraft.support.factor_charts import PlacedDomain
from regraft.support.measured import MeasuredShare, around
from regraft.support.measured_charts import accuracy_chart, share_chart
from regraft.support.table import percent, write_p_value

_NEW = "new domain"
_NO_MIXTURE = (
    "The rows do not look like a mixture of what the sources hold, so what follows from the groups "
    "may not hold there. Only rows with labels tell."
)
_LABEL_SOME = "Label some rows of it: nothing else can tell how good the model is there."
_ALIEN = (
    "A classifier was fitted to tell rows of the new domain from the mixture of the sources' rows "
    "that is nearest to them. These rows it finds least like the mixture, by a score that was "
    "fitted without them; the first row is 1."
)
_CURVE = (
    "A random half of the labelled rows is judged, and the labels come from the other half. Adapt "
    "starts from the model and also takes the rows without labels; refit knows the labels alone; "
    "no adaptation is the model as it was."
)


def place_chapter(document: Document) -> Chapter:
    """Build the chapter for ``place.json``."""
    placement = Placement.from_dict(document)
    closure, place, accuracy = document["summary"]
    alien = Section("The rows least like the sources", (Text(_ALIEN), _show_rows(document)))
    sections: list[Section] = []
    if len(placement.shares) > 1:
        model = document.get("model")
        shares = _shares_section(placement, model)
        if placement.is_mixture:
            sections.append(shares)
            sections += _prevalence(model, new_place(_NEW, placement), placement.is_placed)
        else:  # shares of a mixture that it is not
            sections.append(replace(shares, parts=(Text(place), *shares.parts), folded=True))
    good = Section("How good is the model there?", (Text(accuracy),))
    return Chapter(
        "Where a new domain lies",
        f"Is the new domain ({placement.rows:,} rows, no labels used) a mixture of what the "
        "sources hold, and in which shares?",
        f"{closure} {place}" if placement.is_mixture else closure,
        (*sections, good, alien) if placement.is_mixture else (alien, good, *sections),
        _share_figure(placement),
        () if placement.is_mixture else (_LABEL_SOME,),
    )


def adapt_chapter(document: Document) -> Chapter:
    """Build the chapter for ``adapt.json``."""
    certificate = TargetCertificate.from_dict(document["certificate"])
    measured = adapted_table(certificate)
    added: list[Part] = [Text(certificate.added())]
    if measured is not None:
        added += [_heads_chart(certificate), measured]
    sections = [Section("What the rows of the domain added", tuple(added))]
    sections += _prevalence(document.get("model"), *_adapted_place(certificate))
    if document["curve"] is not None:
        sections.append(_curve_section(LearningCurve.from_dict(document["curve"])))
    sections += [
        Section("Where the domain lies", (place_table(certificate),)),
        Section("The certificate", (Text(certificate.claim()), Text(certificate.limits()))),
    ]
    is_doubted = certificate.p_value is not None and certificate.p_value <= LEVEL
    return Chapter(
        "A model for a new domain",
        f"How good is the model that {certificate.rows:,} rows of the domain lead to, "
        f"{certificate.labels:,} of them with labels?",
        _short_claim(certificate),
        tuple(sections),
        _adapted_figure(certificate),
        (_NO_MIXTURE,) if is_doubted else (),
    )


def _adapted_place(certificate: TargetCertificate) -> tuple[PlacedDomain, bool]:
    """Return where the domain of an adapted head lies, and whether its rows tell."""
    c = certificate
    ends = [next(reversed(each.values()), 0.0) for each in (c.weights, c.lower, c.upper)]
    is_known = bool(c.lower) and (c.p_value is None or c.p_value > LEVEL)
    return PlacedDomain(_NEW, MeasuredShare(*ends), {}, is_new=True), is_known


def _short_claim(certificate: TargetCertificate) -> str:
    """Say what accuracy is certified, and leave risks to the certificate."""
    c = certificate
    said = []
    if c.labelled is not None:
        bound = percent(c.labelled.accuracy_bound)
        said.append(f"at least {bound} accuracy in the domain that the labels were drawn from")
    if c.mixture is not None:
        bound = percent(c.mixture.accuracy_bound)
        said.append(f"at least {bound} accuracy if the domain is a mixture of the groups found")
    each = " each" if len(said) > 1 else ""
    return f"Certified: {', and '.join(said)} (95 % confidence{each})." if said else c.claim()


def _share_figure(placement: Placement) -> Figure | None:
    if not placement.is_mixture:
        chance = write_p_value(placement.p_value)
        return Figure(
            "Not a mixture",
            f"of what the sources hold: a classifier tells the new rows from the nearest mixture "
            f"of the sources' ({chance}).",
        )
    if not placement.is_placed:
        return None
    share = new_place(_NEW, placement).share
    return Figure(
        percent(share.value),
        f"of the new domain's rows are in {_last_group(placement)} (95 % interval "
        f"{share.interval}); the sources have {_list_shares(placement)}.",
    )


def _adapted_figure(certificate: TargetCertificate) -> Figure | None:
    """Return the accuracy on labels of the domain, else that in the worst mixture left."""
    kinds = (
        (certificate.labelled, "on labelled rows of the domain that it had not seen"),
        (certificate.mixture, "in the worst mixture that the rows leave possible"),
    )
    for evidence, where in kinds:
        if evidence is not None:
            interval = f"(95 % interval {evidence.measured.interval})"
            meaning = f"of its answers are right {where} {interval}."
            return Figure(percent(evidence.accuracy), meaning)
    return None


def _heads_chart(certificate: TargetCertificate) -> Chart:
    """Draw the adapted head beside the model before."""
    c = certificate
    pairs = (c.labelled, c.labelled_before), (c.mixture, c.mixture_before)
    both = [(now, before) for now, before in pairs if now is not None and before is not None]
    heads = {
        "adapted": {now.name: now.measured for now, _ in both},
        "before": {now.name: before.measured for now, before in both},
    }
    return Chart(
        "Accuracy of the adapted head and of the model before; bars: 95 % intervals, ticks: bounds",
        accuracy_chart(heads),
        c.added(),
    )


def _last_group(placement: Placement) -> str:
    return f"group {len(placement.shares) - 1}"


def _list_shares(placement: Placement) -> str:
    shares = placement.source_shares.items()
    return ", ".join(f"{percent(share[-1])} ({name})" for name, share in shares)


def _shares_section(placement: Placement, model: Document | None) -> Section:
    new, group = new_place(_NEW, placement).share, _last_group(placement)
    sources = {name: around(shares[-1], None) for name, shares in placement.source_shares.items()}
    if model is not None:
        sources = source_shares(model["abduction"])
    return Section(
        "Which groups it mixes",
        (
            Chart(
                f"Share of {group}; bars: 95 % intervals",
                share_chart({_NEW: new, **sources}, group),
                f"The new domain has {new} of {group}; the sources have {_list_shares(placement)}.",
            ),
            placement_table(placement),
        ),
    )


def _prevalence(
    model: Document | None, place: PlacedDomain, is_placed: bool
) -> tuple[Section, ...]:
    """Show every head of the model over the share of the last group, and the domain's place."""
    if model is None or not is_placed:
        return ()
    certificate = certificate_from_dict(dict(model))
    if not isinstance(certificate, GroupCertificate) or not certificate.groups:
        return ()  # made by a version that did not measure each group alone
    found = certificate.abduction
    checks = check_sources(certificate)
    places = [*source_places(found, accuracies_of(certificate), checks), place]
    return (prevalence_section(found, heads_of(certificate), places),)


def _show_rows(document: Document) -> Strip:
    rows = [ShownRow(**row) for row in document["alien"]]
    pictures = tuple(
        Picture(row.picture, f"{row.describe()} of the {_NEW}") for row in rows if row.picture
    )
    lines = () if pictures else tuple(row.describe() for row in rows)
    return Strip("Least alike first", pictures, lines)


def _curve_section(curve: LearningCurve) -> Section:
    lines = {
        head: {
            n: around(accuracy, error)
            for n, accuracy, error in zip(curve.labels, row, curve.error[head], strict=True)
            if accuracy is not None
        }
        for head, row in curve.accuracy.items()
    }
    most = curve.labels[-1]
    described = ", ".join(
        f"{head} {percent(line[most].value)}" for head, line in lines.items() if most in line
    )
    chart = Chart(
        "Accuracy over the number of labels; bars: 95 % intervals over the draws",
        labels_chart(lines),
        f"With {most} labels: {described}.",
    )
    return Section("What labels are worth", (Text(_CURVE), chart, curve.table()))
