"""What is needed to contribute and to publish agrees with the rest of the repository."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from regraft import __version__
from tests.helpers.paths import ROOT
from tests.project.test_layers import LAYERS

HOME = "https://github.com/regraft/regraft"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def read(name: str) -> dict[Any, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))


def targets() -> set[str]:
    """The targets of the Makefile that people call."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)
    assert phony is not None
    found = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert set(phony[1].split()) == found
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_ask_for_little_and_their_commands_exist(path: Path) -> None:
    workflow = read(path.name)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    commands: list[str] = []
    for name, job in workflow["jobs"].items():
        expected = {"id-token": "write"} if name == "publish" else {}
        assert job.get("permissions", {}) == expected
        for step in job.get("steps", ()):
            assert "@" in step.get("uses", "@")
            commands += step.get("run", "").splitlines()
    for words in map(str.split, commands):
        if words[0] == "make":
            assert set(words[1:]) <= targets()
        elif words[:3] == ["python", "-m", "pytest"]:
            folders = [word for word in words if word.startswith("tests/")]
            assert all((ROOT / folder).is_dir() for folder in folders)
        else:
            assert words[0] in ("test", "uv") or words[:4] == ["python", "-m", "pip", "install"]


def test_tests_run_everywhere_and_only_a_tag_publishes() -> None:
    matrix = read("ci.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    assert matrix["python"] == ["3.11", "3.12", "3.13"]
    prefix = "Programming Language :: Python :: 3."
    promised = [line for line in PROJECT["project"]["classifiers"] if line.startswith(prefix)]
    assert promised == [f"{prefix.rpartition('3.')[0]}{version}" for version in matrix["python"]]
    assert PROJECT["project"]["requires-python"] == f">={matrix['python'][0]}"
    workflow = read("publish.yml")
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads the key "on" as a boolean
    assert workflow["jobs"]["checks"] == {"uses": "./.github/workflows/ci.yml"}
    assert workflow["jobs"]["publish"]["needs"] == "checks"
    publisher = workflow["jobs"]["publish"]["steps"][-1]["uses"]
    assert publisher.startswith("pypa/gh-action-pypi-publish@")


def test_the_version_and_all_addresses_have_one_source() -> None:
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/regraft/_version.py"
    assert "version" not in PROJECT["project"] and "version" in PROJECT["project"]["dynamic"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert citation["repository-code"] == HOME
    assert __version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert all(url.startswith(HOME) for url in PROJECT["project"]["urls"].values())
    for name in ("README.md", "CONTRIBUTING.md"):
        assert HOME in (ROOT / name).read_text(encoding="utf-8")


def test_the_guide_names_what_exists_and_hooks_run_what_ci_runs() -> None:
    paths = re.findall(r"`((?:src|tests|docs|benchmarks|\.github)/[^`]*)`", CONTRIBUTING)
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert set(re.findall(r"`make ([a-z]+)`", CONTRIBUTING)) <= targets()
    layers = re.findall(r"^\| `(\w+)` \|", CONTRIBUTING, re.MULTILINE)
    assert layers == list(LAYERS)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    names = [hook["id"] for repo in hooks["repos"] for hook in repo["hooks"]]
    assert {"ruff-check", "ruff-format", "mypy", "end-of-file-fixer"} <= set(names)
