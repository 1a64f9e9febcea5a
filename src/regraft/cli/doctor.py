"""``regraft doctor``: what is installed here, and what to fix first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import typer

from regraft.cli.command import command
from regraft.cli.failures import complain
from regraft.cli.session import Session
from regraft.support.checkup import FOLDER, NEEDED, Checkup, Finding, Package, examine

_GOOD = "All good: regraft demo shows what it does."


@command(traced=False, loading=None)
def doctor(session: Session) -> None:
    """See whether everything is installed and in order, and what to fix first."""
    with session.working("looking around") as step:
        checkup = examine(find_data, step)
    if session.as_json:
        # Not as other documents are printed, which takes the libraries that may be broken.
        typer.echo(json.dumps(checkup.to_dict() | {"files": []}))
    _show(session, checkup)
    if session.quiet and checkup.first_fault:
        complain(checkup.first_fault)
    if not checkup.is_usable:  # nothing else works
        raise typer.Exit(1)


def find_data(folder: Path) -> Iterator[Finding]:
    """Look for the datasets of the protocol, by their own checks, and for files of features."""
    if not folder.is_dir():
        remark = f"{FOLDER} is {folder}, which is no folder: name the one that holds your datasets."
        yield Finding(FOLDER, False, remark, is_fault=True)
        return
    from regraft.bench.datasets import datasets
    from regraft.bench.datasets.features import list_banks

    for name, make in datasets().items():
        try:
            make(folder).check()
        except FileNotFoundError as error:
            yield Finding(name, False, str(error))
        except (ValueError, RuntimeError, OSError) as error:
            yield Finding(name, False, str(error), is_fault=True)
        else:
            yield Finding(name, True)
    yield from (Finding(name, True, "features") for name in list_banks(folder))


def _show(session: Session, checkup: Checkup) -> None:
    session.say(f"regraft {checkup.regraft}, Python {checkup.python}, {checkup.system}")
    rows = [
        (package.name, package.version or "not installed", _state(package))
        for package in checkup.libraries
    ]
    session.table(("library", "version", "state"), rows)
    session.say("Devices", *(f"  {device}" for device in checkup.devices))
    extras = [
        (extra.name, ", ".join(package.name for package in extra.packages), extra.state)
        for extra in checkup.extras
    ]
    session.table(("extra", "packages", "state"), extras)
    if checkup.folder is None:
        session.say(
            f"Data: {FOLDER} is not set; name the folder of your datasets in it, or with --data. "
            "MNIST is downloaded when it is first needed."
        )
    else:
        session.say(f"Data in {checkup.folder}")
        session.table(("dataset", "state"), _findings(checkup.data))
    session.table(("shipped in packages", "state"), _findings(checkup.weights))
    faults = [
        *(package.problem for package in checkup.libraries),
        *(extra.problem for extra in checkup.extras),
        *(finding.remark for finding in (*checkup.data, *checkup.weights) if finding.is_fault),
    ]
    session.say(*(fault for fault in faults if fault and fault != checkup.first_fault))
    if not checkup.is_usable:
        session.say(f"Without {', '.join(NEEDED[:-1])} and {NEEDED[-1]} nothing works.")
    session.say(f"Fix first: {checkup.first_fault}" if checkup.first_fault else _GOOD)


def _state(package: Package) -> str:
    return "broken" if package.problem else "loads" if package.version else "missing"


def _findings(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [
        (each.name, "found" if each.found else "of no use" if each.is_fault else "not found")
        for each in findings
    ]
