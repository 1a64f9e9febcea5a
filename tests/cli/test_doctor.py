"""``regraft doctor``: what it finds here, and what it says where something is broken."""

import json
import os
from importlib.metadata import metadata, version
from pathlib import Path

import pytest

from regraft._version import __version__
from regraft.cli.doctor import find_data
from regraft.support.checkup import Checkup, Finding, examine
from tests.helpers.commands import Ran, Run, run_apart
from tests.helpers.small_pictures import write_pacs

METADATA = """Metadata-Version: 2.1
Name: regraft
Version: {version}
Requires-Dist: torch>=2.6
Requires-Dist: numpy>=1.26
Requires-Dist: scikit-learn>=1.6
Requires-Dist: pytest; extra == "test"
{extras}"""


def ask(folder: Path, *options: str, extras: str = "", **broken: str) -> Ran:
    """Run the doctor where regraft has these extras, and modules with this code come first."""
    home = folder / f"regraft-{__version__}.dist-info"
    home.mkdir(parents=True)
    (home / "METADATA").write_text(METADATA.format(version=__version__, extras=extras))
    for module, code in broken.items():
        (folder / f"{module}.py").write_text(code)
    return run_apart("doctor", *options, path=[folder], REGRAFT_DATA="")


@pytest.fixture(scope="module")
def here() -> Checkup:
    """This installation, as it is."""
    return examine(find_data, lambda step: None)


def test_what_is_found_and_shown(
    here: Checkup, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert here.is_usable and here.regraft == __version__
    versions = {package.name: package.version for package in here.libraries}
    assert {"torch", "numpy", "scikit-learn", "scipy", "typer", "rich"} <= versions.keys()
    assert all(found == version(name) for name, found in versions.items())
    extras = metadata("regraft").get_all("Provides-Extra") or []
    assert {extra.name for extra in here.extras} == {*extras} - {"docs", "test"}
    by_name = {extra.name: extra for extra in here.extras}
    names = [package.name for package in by_name["images"].packages]
    assert names == ["pillow", "timm", "torchvision"]
    assert by_name["parquet"].state == "installed"
    assert here.devices[0].startswith(f"cpu: {os.cpu_count()} cores, of which torch uses ")
    found = {finding.name: finding for finding in here.weights}
    assert found.keys() == {"demo", "efficientnet_lite0", "minilm"} and found["demo"].found
    assert not any(finding.is_fault for finding in here.weights)
    ran = run("doctor")
    assert ran.code == 0 and ran.err == ""
    for package in here.libraries:
        assert f"{package.name} " in ran.out and str(package.version) in ran.out
    assert "loading the extra images ..." in ran.out
    last = ran.out.splitlines()[-1]
    assert last.startswith(f"Fix first: {here.first_fault}" if here.first_fault else "All good")
    assert run("doctor", "--quiet") == Ran(0, "", "")
    ran = run("doctor", "--json", "--quiet")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == json.loads(json.dumps(here.to_dict() | {"files": []}))
    monkeypatch.setenv("REGRAFT_DATA", str(tmp_path / "absent"))
    ran = run("doctor", "--quiet")
    assert ran.code == 0 and not ran.out and "absent" in ran.err and ran.err.count("\n") == 1


def test_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(folder: Path) -> tuple[dict[str, Finding], str | None]:
        monkeypatch.setenv("REGRAFT_DATA", str(folder))
        checkup = examine(find_data, lambda step: None)
        assert checkup.folder == str(folder) and checkup.is_usable
        return {finding.name: finding for finding in checkup.data}, checkup.first_fault

    (tmp_path / "VLCS" / "only").mkdir(parents=True)
    (tmp_path / "mine.csv").write_text("f,label,domain\n")
    write_pacs(tmp_path / "PACS")
    found, mend = look(tmp_path)
    assert found["mine"] == Finding("mine", True, "features")
    assert found["PACS"] == Finding("PACS", True)
    assert not found["DomainNet"].found and not found["DomainNet"].is_fault
    assert found["ColoredMNIST"].remark.startswith("there is no train-images-idx3-ubyte")
    assert found["VLCS"].is_fault and found["VLCS"].remark == mend
    assert mend is not None and mend.startswith("VLCS has 4 environments but")

    found, mend = look(tmp_path / "nowhere")
    assert list(found) == ["REGRAFT_DATA"] and mend is not None
    assert mend.endswith("nowhere, which is no folder: name the one that holds your datasets.")


@pytest.mark.slow
def test_without_torch_it_still_answers(tmp_path: Path) -> None:
    extras = 'Requires-Dist: timm>=1.0; extra == "images"\n'
    broken = {"torch": "raise OSError('libtorch.so: undefined symbol')"}
    ran = ask(tmp_path / "a", extras=extras, **broken)
    assert ran.code == 1 and ran.err == ""
    assert "Without torch, numpy and scikit-learn nothing works." in ran.out
    assert ran.out.splitlines()[-1] == (
        "Fix first: torch does not load (libtorch.so: undefined symbol): reinstall it with pip "
        "install --force-reinstall regraft."
    )
    ran = ask(tmp_path / "b", "--json", "--quiet", **broken)
    assert ran.code == 1 and ran.err.startswith("regraft: torch does not load")
    document = json.loads(ran.out)
    assert not document["is_usable"] and "libtorch.so" in document["mend"]
    states = {package["name"]: package["problem"] for package in document["libraries"]}
    assert states["numpy"] is None and states["torch"] == document["mend"]


@pytest.mark.slow
def test_a_missing_extra_is_no_fault_and_a_broken_one_is(tmp_path: Path) -> None:
    extras = (
        'Requires-Dist: no-such-package>=1; extra == "magic"\n'
        'Requires-Dist: jinja2>=3.1; extra == "report"\n'
        'Requires-Dist: submitit>=1.5; extra == "slurm"\n'
    )
    ran = ask(tmp_path / "a", extras=extras, submitit="raise ValueError('built for another')")
    assert ran.code == 0 and "REGRAFT_DATA is not set" in ran.out
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["magic", "no-such-package", "pip", "install", '"regraft[magic]"'] in lines
    assert ["report", "jinja2", "installed"] in lines
    assert ["slurm", "submitit", "broken"] in lines
    assert ran.out.splitlines()[-1] == (
        "Fix first: submitit does not load (built for another): reinstall it with pip install "
        '--force-reinstall "regraft[slurm]".'
    )
