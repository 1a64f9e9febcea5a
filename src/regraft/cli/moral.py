"""What ``regraft moral run`` does: scenarios in, the tables of section 5.4 and a transfer out."""

from __future__ import annotations

import functools
from pathlib import Path

from regraft.cli.console import Screen
from regraft.cli.diagnose import show_diagnosis, show_tables, write_diagnosis
from regraft.cli.session import Run
from regraft.core.hull import check_radius
from regraft.encoders import load_text_encoder
from regraft.estimators.plots import plot_audit
from regraft.moral.answers import read_answers, usable
from regraft.moral.experiment import MoralResult, Probabilities, run_moral
from regraft.moral.library import make_library
from regraft.moral.process import Records
from regraft.moral.responses import MECHANISM, response_probabilities
from regraft.moral.scenarios import TOPICS, Library, download_library, read_library
from regraft.moral.tables import paper_tables, targets_table, transfer_table
from regraft.moral.values import PROFILES, profile_name
from regraft.premises.diagnosis_tables import markdown
from regraft.support.files import write_text
from regraft.support.json_files import write_result
from regraft.support.table import Table

DOWNLOAD = "download"


def run_moral_command(
    screen: Screen,
    run: Run,
    *,
    scenarios: str | None,
    answers: Path | None,
    model: str | None,
    records: int,
    encoder: str,
    radius: float,
    seed: int,
    device: str,
    out: Path,
) -> None:
    """Run the process and its checks; raises ``ValueError`` with one sentence."""
    if records < 1:
        raise ValueError(f"records is {records}: pass 1 or more of each panel.")
    if seed < 0:
        raise ValueError(f"seed is {seed}: pass 0 or more.")
    if model is not None and answers is None:
        raise ValueError(
            "--model chooses among elicited answers: pass their folder with --answers."
        )
    check_radius(radius)
    with screen.working("reading the scenarios"):
        library = choose_library(scenarios, out)
        library, probabilities, mechanism = choose_responses(library, answers, model)
    screen.say(f"Scenarios: {library.origin}.", mechanism, "")
    with screen.working("loading the encoder") as step:
        result, drawn = run_moral(
            library,
            probabilities,
            mechanism,
            load_text_encoder(encoder, device=device),
            records=records,
            radius=radius,
            seed=seed,
            device=device,
            on_step=step,
        )
    files = _write(out, result, library, drawn)
    show_diagnosis(screen, result.diagnosis)
    show_tables(screen, _tables(result))
    screen.say(*_remarks(result))
    run.finish(screen, result.to_dict(), files)


def choose_library(scenarios: str | None, out: Path) -> Library:
    """The scenarios in a file or folder, downloaded ones, or generated ones if None."""
    if scenarios is None:
        return make_library()
    if scenarios == DOWNLOAD:
        return download_library(out)
    return read_library(Path(scenarios))


def choose_responses(
    library: Library, answers: Path | None, model: str | None
) -> tuple[Library, Probabilities, str]:
    """Probabilities of action 1 by elicited answers, or by the documented model if None.

    With them the scenarios that have them, and a sentence that says what made the labels.
    """
    if answers is None:
        return library, response_probabilities(library), MECHANISM
    elicited = read_answers(answers, library, model=model)
    library, probabilities = usable(library, elicited)
    return library, probabilities, elicited.mechanism


def _tables(result: MoralResult) -> list[Table]:
    transfer = result.transfer
    return [*paper_tables(result), transfer_table(transfer), targets_table(transfer)]


def _remarks(result: MoralResult) -> list[str]:
    angles = ", ".join(f"{angle:.1f}° at {n}" for n, angle in result.median_angles.items())
    return [
        f"On scenarios that no map has seen: {result.new_scenarios.sentence}",
        f"Median principal angle by records a panel: {angles}.",
        *result.transfer.certificate.summary(),
        *result.transfer.sentences(),
    ]


def _write(out: Path, result: MoralResult, library: Library, drawn: Records) -> list[Path]:
    files = write_diagnosis(out, result.diagnosis)
    draw = functools.partial(plot_audit, result.transfer.curves)
    document = result.to_dict() | {"tables": [table.to_dict() for table in _tables(result)]}
    files += write_result(out, "moral.json", document, "stress_curve.png", draw)
    head = [f"Scenarios: {result.origin}.", result.mechanism, *_remarks(result)]
    words = "\n".join(f"- {sentence}" for sentence in head)
    write_text(out / "moral.md", f"# Moral questions\n\n{words}\n\n{markdown(_tables(result))}")
    rows = tuple(
        (
            drawn.names[panel],
            profile_name(PROFILES[profile]),
            TOPICS[library.topics[scenario]],
            library.scenarios[scenario].id,
            int(y),
        )
        for panel, profile, scenario, y in zip(
            drawn.panel, drawn.profile, drawn.scenario, drawn.y, strict=True
        )
    )
    columns = "panel", "profile", "topic", "scenario", "action1"
    write_text(out / "records.csv", Table("Records", columns, rows).csv())
    return [*files, out / "moral.md", out / "records.csv"]
