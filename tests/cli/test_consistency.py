"""The same option means the same, is there and reads the same on every command."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from regraft.cli.app import app
from regraft.moral.elicitation import DEFAULT_MODEL
from tests.helpers.commands import Run, run_apart

SHARED = ("--out", "--html", "--json", "--quiet", "--device", "--seed")

NOTHING_RANDOM = "nothing is drawn at random"
NO_TORCH = "nothing is computed that a GPU would speed up"
FEW_ROWS = "rows of one domain and a few of the sources, done where they are"
AS_IN_FIT = "named for data, or as in fit for a model that knows its columns"
NO_PAGE = "report has no chapter for it"
# What a command does without, and why. A new command must be written down here.
ABSENT: dict[str, dict[str, str]] = {
    "demo": {},
    "fit": {"--seed": NOTHING_RANDOM},
    "predict": {
        "--html": "labels are for a table, not for a page",
        "--seed": NOTHING_RANDOM,
    },
    "place": {"--seed": NOTHING_RANDOM},
    "adapt": {"--device": FEW_ROWS},
    "drift": {
        "--device": "batches are small, and read from a file",
        "--seed": NOTHING_RANDOM,
    },
    "abduct": {"--seed": "only its test draws at random, with a seed that is fixed"},
    "audit": {"--seed": NOTHING_RANDOM},
    "frontier": {"--seed": NOTHING_RANDOM},
    "compare": {"--seed": "each domain is left out whole"},
    "diagnose": {},
    "download": {
        "--out": "the folder of all data takes its place",
        "--html": NO_PAGE,
        "--device": NO_TORCH,
        "--seed": NOTHING_RANDOM,
    },
    "export": {"--html": NO_PAGE, "--device": NO_TORCH, "--seed": NOTHING_RANDOM},
    "serve": {
        "--out": "it writes nothing",
        "--html": NO_PAGE,
        "--device": NO_TORCH,
        "--seed": NOTHING_RANDOM,
    },
    "report": {
        "--html": "it writes nothing else",
        "--device": NO_TORCH,
        "--seed": NOTHING_RANDOM,
    },
    "doctor": {
        "--out": "it is about this machine, now",
        "--html": NO_PAGE,
        "--device": "it looks at all of them",
        "--seed": NOTHING_RANDOM,
    },
    "reproduce": {},
    "train": {"--html": "one run is no result: collect has the page"},
    "sweep": {"--html": "collect has the page"},
    "collect": {"--device": NO_TORCH, "--seed": NOTHING_RANDOM},
    "compare-sweeps": {"--html": NO_PAGE, "--device": NO_TORCH, "--seed": NOTHING_RANDOM},
    "embed images": {"--html": NO_PAGE, "--seed": NOTHING_RANDOM},
    "embed text": {"--html": NO_PAGE, "--seed": NOTHING_RANDOM},
    "embed verify": {
        "--out": "it writes nothing",
        "--html": NO_PAGE,
        "--device": NO_TORCH,
        "--seed": NOTHING_RANDOM,
    },
    "moral run": {},
    "moral elicit": {
        "--html": "answers are for moral run, which has the page",
        "--device": "the model is elsewhere",
        "--seed": "every question is asked, and the model answers as it likes",
    },
}

# Options whose help differs between commands, and why.
DIFFERENT = {
    "--label": AS_IN_FIT,
    "--domain": AS_IN_FIT,
    "--id": AS_IN_FIT,
    "--out": "a bank is a folder of its own kind, a report or an exported model one file, and one "
    "default has a name",
    "--workers": "of a sweep, or of a server",
    "--interval": "for all rows of a file, or for requests that ask for it",
    "--seed": "of a draw, or of a trial, as DomainBed numbers them",
    "--data": "each reads other files",
    "--radii": "compare always takes some, the others only for the hull",
    "--encoder": "images and texts have other encoders, and a model has its own",
    "--steps": "defaults of another kind",
    "--trial-seed": "of one run, or of the first trial of several",
    "--test-envs": "held out together, or in turn",
    "--scenarios": "only one of the two can download them",
    "--engine": "for runs, for rows, or for an encoder",
    "--family": "of a head, or of the paper's games",
    "--model": "to ask, or whose answers to take",
}


def commands() -> dict[str, Any]:
    """All commands that do something, by their path."""

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        children = getattr(command, "commands", None)
        if children is None:
            yield " ".join(path), command
        for name, child in (children or {}).items():
            yield from walk(child, (*path, name))

    return dict(walk(typer.main.get_command(app), ()))


def options(command: Any) -> dict[str, Any]:
    return {
        name: parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in parameter.opts
    }


def test_every_command_is_in_the_table_and_options_read_the_same(run: Run) -> None:
    assert commands().keys() == ABSENT.keys()
    shown = run("--help")
    assert shown.code == 0 and all(name.split()[0] in shown.out for name in ABSENT)
    texts: dict[str, set[str]] = defaultdict(set)
    for command in commands().values():
        for name, parameter in options(command).items():
            texts[name].add(parameter.help)
    assert {name for name, found in texts.items() if len(found) > 1} == DIFFERENT.keys()
    assert len(texts["--out"]) == 5 and len(texts["--seed"]) == 3


@pytest.mark.parametrize("name", ABSENT)
def test_a_command_has_the_shared_options_with_their_defaults_and_help(name: str, run: Run) -> None:
    known = options(commands()[name])
    assert {option for option in SHARED if option not in known} == ABSENT[name].keys()
    assert all(ABSENT[name].values())
    for switch in ("--json", "--quiet", "--html"):
        assert switch not in known or known[switch].default is False
    assert "--device" not in known or known["--device"].default == "cpu"
    assert "--seed" not in known or known["--seed"].default in (0, None)
    assert "--label" not in known or known["--label"].default in ("label", None)
    assert "--domain" not in known or known["--domain"].default in ("domain", None)
    command = commands()[name]
    assert command.help.strip().partition("\n")[0].endswith(".")
    for parameter in command.params:
        if parameter.name != "help":
            assert parameter.help and parameter.help.endswith(".")
    shown = run(*name.split(), "--help")
    assert shown.code == 0 and all(option in shown.out for option in options(commands()[name]))
    assert name != "moral elicit" or DEFAULT_MODEL in "".join(shown.out.split())


def test_help_does_not_wait_for_libraries() -> None:
    """All commands are imported for the help of one."""
    slow = "{'torch', 'numpy', 'sklearn', 'anthropic', 'rich'}"
    code = "import sys\nfrom regraft.cli.app import app\ntry: app(sys.argv[1:])\n"
    code += f"finally: print({slow} & set(sys.modules))"
    for words in (["--help"], *([*name.split(), "--help"] for name in ("fit", "moral elicit"))):
        assert run_apart(*words, code=code).out.splitlines()[-1] == "set()"
