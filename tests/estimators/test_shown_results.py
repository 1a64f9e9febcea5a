"""Every result that a user gets has a short repr, a page for notebooks and a data frame."""

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas
import pytest

from regraft import (
    CROClassifier,
    abduct,
    adapt,
    audit,
    audit_free,
    audit_groups,
    diagnose,
    frontier,
    place,
)
from regraft.support.shown import ShownResult
from tests.helpers.problems import make_problem


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    problem = make_problem(n=150, d=4)
    X, y = problem.X, problem.y
    rows = X, y, np.where(problem.domain == "source 0", "<b>one</b>", "two")
    latent, hull = CROClassifier().fit(*rows), CROClassifier("hull").fit(*rows)
    return {
        "GroupCertificate": latent.certificate_,
        "HeadCertificate": hull.certificate_,
        "TargetCertificate": adapt(latent, X[:60] + 1e-3, y[:60]).certificate_,
        "Placement": place(latent, X[:60]),
        "Abduction": abduct(*rows),
        "AuditCurve": audit(latent, *rows, radii=(0.0, 1.0)),
        "GroupAudit": audit_groups(latent, *rows),
        "FreeAudit": audit_free(latent, *rows),
        "Frontier": frontier(*rows, prior_shifts=(0.0, 1.0)),
        "Diagnosis": diagnose(*rows),
    }


class Tags(HTMLParser):
    """Counts the tags of a page that is closed properly."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_all_results_can_be_shown(results: dict[str, Any]) -> None:
    for name, result in results.items():
        assert isinstance(result, ShownResult) and type(result).__name__ == name
        lines = repr(result).splitlines()
        assert lines[0] == name and 2 <= len(lines) <= 9 and max(map(len, lines)) <= 88
        assert "array(" not in repr(result)
        page = Tags()
        page.feed(result._repr_html_())
        assert page.open == [] and "table" in page.seen and "b" not in page.seen
        table, frame = result.table(), result.to_frame()
        assert isinstance(frame, pandas.DataFrame) and frame.columns.is_unique
        assert frame.shape == (len(table.rows), len(table.columns))


def test_frames_hold_the_numbers_themselves(results: dict[str, Any]) -> None:
    curve, certificate = results["AuditCurve"], results["HeadCertificate"]
    frame = curve.to_frame()
    assert frame["lowest accuracy"].tolist() == [p.accuracy for p in curve.points]
    frame = certificate.to_frame().set_index("measured in")
    assert frame.loc["two", "ERM's risk"] == certificate.pooled_sources[1].risk
    assert any("with the sources' inputs" in name for name in frame.index)
    shares = results["Abduction"].to_frame().groupby("source")["all rows"].sum()
    assert shares.to_list() == pytest.approx([1, 1])
    assert "What should I do?" in results["Diagnosis"].to_frame()["question or premise"].tolist()
