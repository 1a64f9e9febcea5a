"""Names that would steer a terminal, or that XML and Vega cannot hold, are shown as escapes."""

from pathlib import Path

import pytest

from regraft import make_confounded_domains
from tests.helpers.commands import Run
from tests.helpers.tables import write_columns

pytest.importorskip("vl_convert")

NAMES = "bell \x07 and screen \x1b[2J", "line \u2028 turned \u202e none \ufffe"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources that disagree about a hidden factor, so that charts name them."""
    drawn = make_confounded_domains(300, strengths=(0.95, 0.7), n_features=4, random_state=0)
    names = sorted(set(drawn.sample_domain.tolist()))
    domain = [NAMES[names.index(name)] for name in drawn.sample_domain.tolist()]
    features = {f"x{i}": drawn.X[:, i] for i in range(4)}
    path = tmp_path_factory.mktemp("steering") / "data.csv"
    return write_columns(path, {**features, "label": drawn.y, "domain": domain})


def test_commands_end_well_and_print_no_escapes(run: Run, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for words in (
        ("fit", table, "--out", out, "--html"),
        ("audit", out, table, "--out", out),
        ("predict", out, table),
        ("abduct", table, "--out", tmp_path / "factor", "--html"),
        ("diagnose", table, "--out", tmp_path / "premises", "--html"),
    ):
        ran = run(*words)
        assert ran.code == 0, ran.err
        printed = ran.out + ran.err
        assert not set("\x07\x1b\u2028\u202e\ufffe") & set(printed)
    assert r"bell \x07 and screen \x1b[2J" in run("audit", out, table, "--out", out).out
    assert (out / "audit.png").stat().st_size > 1000
    assert "</html>" in (out / "report.html").read_text(encoding="utf-8")
