"""Model cards: a saved head and its certificate, described as Markdown for people.

The header is YAML with the fields that Hugging Face's hub reads. Names that come from data are
escaped, so that neither YAML nor Markdown nor HTML interprets a part of them.
"""

from __future__ import annotations

import html
import json
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.pipeline import Pipeline

from regraft._version import __version__
from regraft.core.certificate import Certificate
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate
from regraft.core.reference import MAX_ROWS
from regraft.estimators.abduction import summarize_factor
from regraft.estimators.adapted import AdaptedClassifier
from regraft.estimators.certificate_terms import explain_certificate
from regraft.estimators.evidence_tables import (
    evidence_table,
    name_domains,
    shares_table,
    track_record,
)
from regraft.estimators.game_head import GameHead
from regraft.estimators.linear import SoftmaxHead
from regraft.estimators.model_files import REFERENCE
from regraft.estimators.pipelines import Model, name_features, split_model
from regraft.estimators.table_features import TableFeatures
from regraft.estimators.target_certificate import TargetCertificate
from regraft.estimators.target_tables import adapted_table, place_table
from regraft.support.data_files import read_toml
from regraft.support.table import Table, at_least, percent

_TAGS = (
    "regraft",
    "domain-generalization",
    "distribution-shift",
    "robustness",
    "tabular-classification",
)
_MAX_NAMES = 20  # listed; the others are only counted
# Characters that Markdown interprets within a line; underscores only at the ends of a word.
_MARKDOWN_SIGNS = re.compile(r"[\\`*\[\]{}|~$]|(?<![^\W_])_|_(?![^\W_])")
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"


@cache
def _texts() -> dict[str, Any]:
    return read_toml("regraft.estimators", "card.toml")


def model_card(model: Model) -> str:
    """Return the card of a fitted head of Regraft, or of a pipeline that ends in one.

    Parameters
    ----------
    model : SoftmaxHead or Pipeline
        A fitted model.

    Returns
    -------
    str
        Markdown under a YAML header.

    Raises
    ------
    ValueError
        If the model does not end in a head of Regraft.
    """
    before, head = split_model(model)
    return _write_card(head, before)


def _write_card(model: SoftmaxHead, before: Pipeline | None) -> str:
    sections = [_describe_head(model, before)]
    if before is not None:
        sections.append(_describe_preprocessing(before))
    sections.append(_describe_sources(model))
    if isinstance(model, AdaptedClassifier):
        sections += _describe_adaptation(model.certificate_)
    elif isinstance(model, GameHead):
        c = model.certificate_
        if isinstance(c, GroupCertificate):
            sections.append(_describe_factor(c))
        elif isinstance(c, HeadCertificate):
            sections.append(_describe_radius(c))
        sections += [_describe_certificate(c), _describe_evidence(c)]
        sections += [_describe_price(c), _describe_limits(c)]
    else:
        sections.append(
            f"## Limits\n\n{_texts()['no_certificate']} {_texts()['limits']['features']}"
        )
    if notice := describe_reference(model):
        sections.append(f"## Rows of the sources\n\n{notice}")
    sections += [_describe_loading(model, before), _describe_settings(model)]
    sections += [f"## Licence\n\n{_texts()['licence']}", _describe_versions()]
    return _header(model) + "\n\n".join(sections) + "\n"


def describe_reference(model: SoftmaxHead) -> str:
    """Say that rows of the sources are saved with a model, and why; empty if there are none."""
    reference = getattr(model, "reference_", None)
    if reference is None:
        return ""
    text: str = _texts()["reference"]
    return text.format(file=REFERENCE, rows=f"{len(reference.y):,}", most=f"{MAX_ROWS:,}")


def escape(text: str) -> str:
    """Escape ``text`` for a line or a table of Markdown."""
    line = html.escape(_readable(text), quote=False)
    return _MARKDOWN_SIGNS.sub(lambda sign: f"&#{ord(sign[0])};", line)


def quote(text: str) -> str:
    """Quote ``text`` as a YAML string, on one line."""
    return json.dumps(_readable(text), ensure_ascii=False)


def _readable(text: str) -> str:
    """Return ``text`` on one line, with unprintable characters replaced."""
    line = " ".join(text.split())
    return "".join(sign if sign.isprintable() else _UNREADABLE for sign in line)


def _list_names(names: Iterable[Any], write: Callable[[str], str]) -> str:
    """List the first names, and the number of the others."""
    texts = [str(name) for name in names]
    comma = "; " if any("," in text for text in texts) else ", "
    shown = comma.join(map(write, texts[:_MAX_NAMES]))
    return shown if len(texts) <= _MAX_NAMES else f"{shown} and {len(texts) - _MAX_NAMES} more"


def _count(number: int, noun: str) -> str:
    plural = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{plural if number != 1 else ''}"


def _header(model: SoftmaxHead) -> str:
    lines = ["library_name: regraft", "pipeline_tag: tabular-classification", "tags:"]
    lines += [f"- {tag}" for tag in _TAGS]
    if isinstance(model, GameHead):
        lines += _model_index(model)
    return "\n".join(["---", *lines, "---", "", ""])


def _model_index(model: GameHead) -> list[str]:
    """Return the certified numbers for the hub; their metric types are our own names."""
    c = model.certificate_
    if c.family == "free":  # its worst case may not be the worst, which no table of results says
        return []
    scope = f"in {name_domains(c)} ({c.confidence:.0%} confidence)"
    metrics = [
        ("worst_case_accuracy", c.accuracy_bound, f"Certified accuracy, at least, {scope}"),
        ("worst_case_risk", c.risk_bound, f"Certified risk, at most (nats), {scope}"),
        ("accuracy", c.source_accuracy, "Accuracy on the sources, measured on held-out rows"),
    ]
    dataset = f"Sources: {_list_names(model.domains_, str)}"
    return [
        "model-index:",
        f"- name: {type(model).__name__}",
        "  results:",
        "  - task:",
        "      type: tabular-classification",
        "    dataset:",
        "      type: unknown",  # the hub's word for data that it does not have
        f"      name: {quote(dataset)}",
        "      split: held out",
        "    metrics:",
        *(
            f"    - type: {kind}\n      value: {value:.4f}\n      name: {quote(name)}"
            for kind, value, name in metrics
        ),
    ]


def _describe_head(model: SoftmaxHead, before: Pipeline | None) -> str:
    name, names = type(model).__name__, name_features(before, model)
    features = f" ({_list_names(names, escape)})" if len(names) else ""
    method = _texts()["methods"][name]
    if isinstance(getattr(model, "certificate_", None), GroupCertificate):
        method = _texts()["latent_method"]
    kind, formula = "a linear head fitted", "`coef_ · x + intercept_`"
    if isinstance(model, AdaptedClassifier):
        kind, formula = "a head for one domain, made", _describe_formula(model)
    return (
        f"# {name}: {kind} by Regraft\n\n{method}\n\n"
        f"- {_count(len(model.classes_), 'class')}: {_list_names(model.classes_, escape)}\n"
        f"- {_count(model.n_features_in_, 'feature')}{features}\n"
        f"- {_count(len(model.domains_), 'source domain')}, listed below\n"
        f"- softmax of {formula}, on features as they {'come' if before is None else 'are made'}"
    )


def _describe_preprocessing(before: Pipeline) -> str:
    """Describe what is done to rows before the head sees them."""
    first = before.steps[0][1]
    steps = " → ".join(type(step).__name__ for _, step in before.steps)
    columns: list[str] = []
    said = [f"## Preprocessing\n\nThe features are made by scikit-learn: {steps}."]
    if isinstance(first, TableFeatures):
        said.append(_texts()["table_features"])
        kinds = {"number": first.numeric_, "categorical column": first.categorical_}
        columns = [
            f"- {_count(len(names), kind)}: {_list_names(names, escape)}"
            for kind, names in kinds.items()
            if names
        ]
        if first.left_out_:
            columns.append(f"- left out: {_list_names(first.left_out_, escape)}")
    return "\n\n".join([*said, *(["\n".join(columns)] if columns else [])])


def _describe_formula(model: AdaptedClassifier) -> str:
    """Write the logits of an adapted head, which are linear in x where it has one group."""
    G = len(model.group_heads_)
    base = "`group_heads_[u] · [x, 1]`"
    base = f"the log of the sum over {G} groups u of exp {base}" if G > 1 else f"{base} with u = 0"
    return f"{base}, corrected by `correction_`" if model.certificate_.kind == "corrected" else base


def _describe_sources(model: SoftmaxHead) -> str:
    fitted = "it" if not isinstance(model, AdaptedClassifier) else "the model before"
    return (
        f"## Sources\n\nThe domains that {fitted} was fitted on, and all that it knows of how "
        f"domains differ.\n\n{_cut(_tabulate_sources(model)).markdown()}"
    )


def _describe_adaptation(certificate: TargetCertificate) -> list[str]:
    """Describe where the domain of an adapted head lies, and how good the head is there."""
    c, measured = certificate, adapted_table(certificate)
    certified = [escape(c.claim()), escape(c.added())]
    certified += [] if measured is None else [measured.markdown()]
    limits = [escape(c.limits()), _texts()["limits"]["features"]]
    return [
        f"## Place of the domain\n\n{_cut(place_table(c, escape)).markdown()}",
        "\n\n".join(["## Certificate", *certified]),
        "## Limits\n\n" + "\n".join(f"- {limit}" for limit in limits),
    ]


def _tabulate_sources(model: SoftmaxHead) -> Table:
    names = [escape(str(name)) for name in model.domains_]
    table = {"source": names}
    if isinstance(model, GameHead):
        c = model.certificate_
        if isinstance(c, GroupCertificate):
            return shares_table(c, escape)
        table["rows"] = [f"{n:,}" for n in c.source_rows]
        if isinstance(c, HeadCertificate) and c.radius is not None:
            far, weights = c.distances.values(), c.worst_target.values()
            table["nats from the mean"] = [f"{distance:.2f}" for distance in far]
            table[f"weight of its {_moved(c)} in the worst domain"] = [f"{w:+.2f}" for w in weights]
    return Table("", tuple(table), tuple(zip(*table.values(), strict=True)))


def _cut(table: Table) -> Table:
    """Keep the first rows of a table, and the number of the others."""
    others = len(table.rows) - _MAX_NAMES
    if others <= 0:
        return table
    more = (f"and {others} more", *[""] * (len(table.columns) - 1))
    return replace(table, rows=(*table.rows[:_MAX_NAMES], more))


def _describe_factor(certificate: GroupCertificate) -> str:
    found = certificate.abduction
    said = [escape(summarize_factor(found)), *map(escape, found["warnings"])]
    if certificate.n_groups > 1:
        said.append(_texts()["mixtures"])
    return "## Hidden factor\n\n" + "\n\n".join(said)


def _describe_evidence(certificate: Certificate) -> str:
    table = _cut(evidence_table(certificate, escape)).markdown()
    kind = "groups" if isinstance(certificate, GroupCertificate) else "heads"
    return f"## Measured on held-out rows\n\n{_texts()['held_out'][kind]}\n\n{table}"


def _describe_radius(certificate: HeadCertificate) -> str:
    if certificate.radius is None:
        return f"## No radius\n\n{_texts()['free_adversary']}"
    moved = _moved(certificate)
    text = (
        f"## Radius: {certificate.radius:.3g} nats\n\nAn unseen domain counts as plausible if its "
        f"{moved} is an affine combination of the sources' {moved}s, extrapolation included, whose "
        f"logits differ from those of their mean by at most {certificate.radius:.3g} nats (root "
        "mean square), and if it is made of the sources' rows by weights; or if it is a source."
    )
    return text if certificate.dimension else f"{text} {_texts()['no_difference']}"


def _moved(certificate: HeadCertificate) -> str:
    """Name what differs between plausible domains."""
    return "abduction" if certificate.family == "factorized" else "head"


def _describe_certificate(certificate: Certificate) -> str:
    words = "\n\n".join(map(escape, certificate.paragraphs()))
    rows = tuple((t.name, t.value, t.meaning) for t in explain_certificate(certificate))
    table = Table("Certificate", ("term", "value", "meaning"), rows, align="lrl").markdown()
    return f"## Certificate\n\n{words}\n\n{table}"


def _describe_price(certificate: Certificate) -> str:
    c, where = certificate, name_domains(certificate)
    measured = map(percent, (c.source_accuracy, c.pooled_source_accuracy))
    certified = map(at_least, (c.accuracy_bound, c.pooled_accuracy_bound))
    risks = map("{:.3f} nats".format, (c.risk_bound, c.pooled_risk_bound))
    cells = [
        ["accuracy on the sources, measured", *measured],
        [f"certified accuracy in {where}", *certified],
        [f"certified risk in {where}, at most", *risks],
    ]
    columns = ["", "this head", "the ERM head it started from"]
    text = (
        "Measured on held-out rows, each by heads that were fitted without it; mean over sources."
    )
    return f"## Price of robustness\n\n{text}\n\n{_table(columns, cells)}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return Table.from_sections("", columns, rows).markdown()


def _describe_limits(certificate: Certificate) -> str:
    limits = dict(_texts()["limits"])
    if isinstance(certificate, GroupCertificate):
        limits = {**_texts()["latent_limits"], "features": limits["features"]}
    elif certificate.family == "free":
        del limits["radius"]
    elif certificate.family == "factorized":
        del limits["noise"]
        limits |= _texts()["factorized_limits"]
    said = [*limits.values(), track_record(certificate)]
    return "## Limits\n\n" + "\n".join(f"- {limit}" for limit in said if limit)


def _describe_loading(model: SoftmaxHead, before: Pipeline | None) -> str:
    certified = isinstance(model, GameHead | AdaptedClassifier)
    head = "model" if before is None else "model[-1]"
    rows = f"np.zeros((2, {(before or model).n_features_in_}))"
    if before is not None and isinstance(before.steps[0][1], TableFeatures):
        rows = "{name: [None, None] for name in model[0].columns_}"
    return "\n".join(
        [
            "## How to load it\n",
            "```python",
            "import numpy as np",
            "import regraft",
            "",
            'model = regraft.load(".")  # the folder of this file',
            f"X = {rows}  # your rows instead",
            "print(model.predict(X))",
            "print(model.predict_proba(X))  # columns in the order of model.classes_",
            *([f"print({head}.certificate_.summary())"] if certified else []),
            "```",
        ]
    )


def _describe_settings(model: SoftmaxHead) -> str:
    settings = model.get_params()
    if settings.get("family") != "factorized":
        settings.pop("n_groups", None)  # of that family alone: others find their number themselves
    values = [[f"`{name}`", escape(str(value))] for name, value in settings.items()]
    table = _table(["setting", "value"], values) if values else "There are none."
    return f"## Settings\n\n{table}"


def _describe_versions() -> str:
    return (
        f"## Versions\n\nSaved by Regraft {__version__} with Python {platform.python_version()}, "
        f"NumPy {np.__version__}, PyTorch {torch.__version__} and scikit-learn "
        f"{sklearn.__version__}; plain files, no pickle."
    )
