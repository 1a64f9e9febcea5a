import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from regraft.support.extras import MissingExtra, repair_torchvision, require
from tests.helpers.commands import run_apart

# torchvision as it is where its compiled operators do not load.
BROKEN = """
import torch
from torchvision import extension

@torch.library.register_fake("torchvision::nms")
def nms(dets, scores, iou_threshold):
    return dets

@torch.library.register_fake("torchvision::qnms")
def qnms(dets, scores, iou_threshold):
    return dets
"""
OTHERWISE_BROKEN = "raise RuntimeError('built for another torch')"
COMPLAIN = """
from regraft.support.extras import MissingExtra, require
try:
    require("{}", "plots")
except MissingExtra as error:
    print(error)
"""


def test_modules_are_returned_or_their_extra_is_named() -> None:
    assert require("json", "plots").loads("1") == 1
    with pytest.raises(MissingExtra, match=r'run pip install "regraft\[plots\]"') as caught:
        require("no_such_module.part", "plots")
    assert str(caught.value).startswith("no_such_module is not installed")


def test_what_an_installed_package_lacks_is_told(tmp_path: Path) -> None:
    (tmp_path / "halfway.py").write_text("import no_such_dependency")
    (tmp_path / "outdated.py").write_text("from json import no_such_function")
    halfway, outdated = (
        run(COMPLAIN.format(module), tmp_path) for module in ("halfway", "outdated")
    )
    assert halfway == (
        "halfway does not load (No module named 'no_such_dependency'): reinstall it with pip "
        'install "regraft[plots]".'
    )
    assert outdated.startswith("outdated does not load (cannot import name 'no_such_function'")


def run(code: str, *path: Path) -> str:
    """What a process of its own prints, in which ``path`` comes first."""
    ran = run_apart(code=code, path=path)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def make_torchvision(folder: Path, code: str) -> Path:
    package = folder / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    (package / "extension.py").write_text("")
    return folder


def test_torchvision_is_repaired_or_told_of(tmp_path: Path) -> None:
    folder = make_torchvision(tmp_path, BROKEN)
    code = """
from regraft.support.extras import require
for attempt in range(2):
    module = require("torchvision", "images")
print(module.extension.__name__, module.__file__)
"""
    name, file = run(code, folder).split(maxsplit=1)
    assert name == "torchvision.extension"
    assert Path(file).is_relative_to(tmp_path)
    folder = make_torchvision(tmp_path / "other", OTHERWISE_BROKEN)
    assert run(COMPLAIN.format("torchvision.transforms"), folder) == (
        "torchvision.transforms does not load (built for another torch): reinstall it with pip "
        'install "regraft[plots]".'
    )


@pytest.mark.skipif(not find_spec("timm"), reason="timm is not installed")
@pytest.mark.slow
def test_a_library_that_imports_torchvision_loads() -> None:
    code = "from regraft.support.extras import require; print(require('timm', '').__name__)"
    assert run(code) == "timm"


def test_repairing_leaves_a_working_torchvision_alone() -> None:
    repair_torchvision()
    before = pytest.importorskip("torchvision")
    repair_torchvision()
    assert sys.modules["torchvision"] is before
