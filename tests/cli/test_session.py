"""How commands end: those at the same time in one folder wait for each other, and results stay."""

import json
import sys
from pathlib import Path
from threading import Thread

import pytest

from regraft.cli.session import Invocation, Session
from regraft.support.files import exclusive
from tests.helpers.errors import refused


def finish(out: Path, name: str, *, html: bool | None = None) -> None:
    session = Session(Invocation(name, ("regraft", name), {}, []), quiet=True, html=html)
    session.write_to(out)
    written = session.write_json(f"{name}.json", {"name": name})
    session.finish({}, written)


@pytest.mark.skipif(sys.platform == "win32", reason="a process there has its own locks twice")
def test_provenance_is_written_by_one_at_a_time(tmp_path: Path) -> None:
    finish(tmp_path, "fit")
    with exclusive(tmp_path):
        late = Thread(target=finish, args=(tmp_path, "audit"))
        late.start()
        late.join(0.5)
        assert late.is_alive()
        assert not (tmp_path / "audit.json").exists()
    late.join(60)
    kept = json.loads((tmp_path / "provenance.json").read_text())
    assert {"fit", "audit"} <= kept.keys()


def test_commands_at_once_all_leave_their_provenance(tmp_path: Path) -> None:
    names = [f"command-{i}" for i in range(8)]
    threads = [Thread(target=finish, args=(tmp_path, name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    kept = json.loads((tmp_path / "provenance.json").read_text())
    assert set(names) <= kept.keys()
    expected = {f"{name}.json" for name in names} | {"provenance.json"}
    assert {path.name for path in tmp_path.iterdir()} == expected


def test_results_stay_where_the_page_cannot_be_written(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    finish(tmp_path, "fit")
    (tmp_path / "fit.json").write_text("[]")
    with refused("all is written but the page: .*fit.json is damaged"):
        finish(tmp_path, "audit", html=True)
    assert json.loads((tmp_path / "audit.json").read_text())["name"] == "audit"
    assert not (tmp_path / "report.html").exists()
