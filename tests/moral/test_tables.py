"""The tables of the moral experiment on made-up results, cell by cell."""

from dataclasses import replace

import pytest

from regraft import CROClassifier, diagnose
from regraft.moral.examples import Example
from regraft.moral.experiment import MoralResult
from regraft.moral.tables import paper_tables, published_spread, targets_table, transfer_table
from regraft.moral.transfer import BoundedHead, HeadRow, MeanLoss, TargetRow, Transfer
from regraft.premises.abduction_angles import AnglePair
from regraft.premises.deduction_invariance import DeductionCell
from regraft.premises.factorization_closure import Prediction
from regraft.premises.grouped_audit import AbductionPlacement, GroupedAudit
from regraft.premises.placement import HullPlacement
from regraft.premises.transplant_basis import BasisPoint
from regraft.support.table import Table
from tests.helpers.certificates import with_risk_bound
from tests.helpers.factorized_domains import draw_domains
from tests.helpers.problems import make_problem


@pytest.fixture(scope="module")
def transfer() -> Transfer:
    problem = make_problem(n=60, d=3)
    fitted = CROClassifier("hull", radius=2.0).fit(problem.X, problem.y, problem.domain)
    certificate = with_risk_bound(fitted.certificate_, 0.7001)
    audit = GroupedAudit(
        2.5, 0.8002, {"Pragmatist": 2.0, "Idealist": -1.0}, "(+1,0,-1)", 0.9003, 27
    )
    return Transfer(
        sources=("Pragmatist", "Idealist"),
        target="Centrist",
        radius=2.5,
        heads=(
            HeadRow("ERM", 0.8125, 0.5, 0.45678, 0.98765),
            HeadRow("CRO, hull", 0.75, 0.6666, 0.5, 0.6),
        ),
        bounded={"CRO, hull": BoundedHead(certificate, audit)},
        targets=(
            TargetRow(
                panel="Centrist",
                risks={"CRO, hull": MeanLoss(0.6, 0.01)},
                placement=HullPlacement(1.234, {}, risk=0.65, own_risk=0.6),
                abduction=AbductionPlacement(along=0.567, off=2.891),
                is_plausible=False,
            ),
        ),
        curves={},
    )


def test_all_tables_beside_the_papers(transfer: Transfer) -> None:
    data = draw_domains(1, n=100, d=5)
    found = diagnose(data.X, data.y, data.domain, data.group)
    # The paper's mean is that of action 2, which is the first class here.
    factorized = Prediction((0.4012, 0.5988), 0.1234, 0.8765, 0.4321)
    predicted = {"factorized": factorized, "direct": Prediction((0.4, 0.6), 0.2, 0.75, 0.5)}
    panels = tuple(
        replace(
            part,
            domain=panel,
            frequencies=(observed, 1 - observed),
            correlation=0.9444,
            agreement=0.891,
            **predicted,
        )
        for part, panel, observed in zip(
            found.closure.domains, ("Centrist", "Pragmatist"), (0.3456, 0.5), strict=True
        )
    )
    # Sorted as domains are, which is not how the paper names its pairs.
    pairs = (
        AnglePair("Centrist", "Idealist", 1.4, 44.6, 89.9),
        AnglePair("Idealist", "Pragmatist", 10.0, 20.0, 30.0),
    )
    points = (
        BasisPoint(0.0, 1.23e-9, 1.0004, 123.45, 3.4e-16, 1234.5),
        BasisPoint(10.0, 0.567, 1.5, 2.0, 0.0, 3.0),
    )
    closure = replace(found.closure, domains=panels)
    ranks = {"Centrist": 14.6, "Pragmatist": 3.0}
    angles = replace(found.angles, pairs=pairs, stable_ranks=ranks)
    basis = replace(found.basis, points=points)
    cells = tuple(
        DeductionCell("Centrist", str(u), 10, 1.0, cosine, 0.5)
        for u, cosine in enumerate((0.7, 0.1, 0.8))
    )
    invariance = replace(found.invariance, cells=cells)
    diagnosis = replace(found, closure=closure, angles=angles, basis=basis, invariance=invariance)
    examples = (
        Example("Pragmatist", "(0,+1,+1)", "G_1", "A bus. A: I wait. B: I walk.", 0.254, "A"),
        Example("Idealist", "(0,0,0)", "G_2", "A car. A: I wait. B: I walk.", 0.5, ""),
    )
    result = MoralResult(
        "", "", "", "hashed", 100, 0, examples, {}, diagnosis, closure, {}, transfer
    )
    assert paper_tables(result)[0] == Table(
        "One record of each panel",
        ("panel", "values", "scenario", "P(B)", "choice (paper)"),
        (
            ("Pragmatist", "(0,+1,+1)", "G_1", "0.25", "A"),
            ("Idealist", "(0,0,0)", "G_2", "0.50", ""),
        ),
    )
    ours = "0.401 ({})", "0.123 ({})", "0.876 ({})", "0.432 ({})"
    direct = "0.400 ({})", "0.200 ({})", "0.750 ({})", "0.500 ({})"
    centrist, pragmatist = ("Centrist", "0.346"), ("Pragmatist", "0.500")
    rows = [
        (centrist, "factorized", ours, ("0.337", "0.188", "0.708", "0.559")),
        (centrist, "direct", direct, ("0.337", "0.170", "0.761", "0.514")),
        (pragmatist, "factorized", ours, ("0.465", "0.171", "0.809", "0.526")),
        (pragmatist, "direct", direct, ("0.459", "0.148", "0.809", "0.470")),
    ]
    assert paper_tables(result)[1] == Table(
        "Factorization closure: held-out rows (paper)",
        ("panel", "prediction", "observed P(B)", "mean P(B)", "Brier", "accuracy", "log-loss"),
        tuple(
            (name, kind, observed, *map(str.format, cells, paper))
            for (name, observed), kind, cells, paper in rows
        ),
    )
    assert paper_tables(result)[2] == Table(
        "Principal angles in degrees: ours (paper)",
        ("pair", "min", "median", "max"),
        (
            ("Centrist vs. Idealist", "1 (19)", "45 (67)", "90 (90)"),
            ("Idealist vs. Pragmatist", "10 (22)", "20 (66)", "30 (89)"),
        ),
    )
    assert paper_tables(result)[3] == Table(
        "Numbers of the text",
        ("number", "Centrist", "Pragmatist", "paper"),
        (
            ("correlation with direct regression", "0.94", "0.94", "0.93–0.96"),
            ("same class as direct regression", "89%", "89%", "89%–91%"),
            ("stable rank of A", "15", "3", "15"),
            ("median cosine of D's columns, fitted to the panel alone", "0.70", "nan", "0.69–0.72"),
        ),
    )
    first = "lambda_H", "residual to P / A", "norm of D^T L"
    assert paper_tables(result)[4] == Table(
        "Transplant basis: ours (paper)",
        (*first, "residual to I / A", "norm of L", "Hausdorff"),
        (
            ("0", "1.2e-09", "3e-16", "1 (1.06)", "123 (282.8)", "1.23e+03 (998)"),
            ("10", "0.57", "0e+00", "1.5 (1.19)", "2 (210.3)", "3 (377)"),
        ),
    )


def test_heads_and_targets_above_the_bounds(transfer: Transfer) -> None:
    assert transfer_table(transfer) == Table(
        "Without the Centrist panel, new records",
        ("head", "accuracy, known panels", "Centrist", "risk, known", "risk there"),
        (
            ("ERM", "81.2%", "50.0%", "0.457", "0.988"),
            ("CRO, hull", "75.0%", "66.7%", "0.500", "0.600"),
        ),
    )
    assert targets_table(transfer) == Table(
        "Unseen panels, in nats; hulls within 2.5 nats",
        (
            *("panel", "among heads", "misfit", "among abductions", "off their hull"),
            "risk of CRO, hull",
        ),
        (
            ("Centrist", "1.23", "0.050", "0.57", "2.89", "0.600"),
            ("bound: its certificate", "", "", "", "", "0.700"),
            ("bound: the worst abduction (U observed)", "", "", "", "", "0.800"),
            ("bound: any mix of the 27 profiles met", "", "", "", "", "0.900"),
        ),
    )


def test_the_papers_panels_are_as_far_apart_as_stated() -> None:
    assert published_spread() == pytest.approx(0.465 - 0.250)
