"""The command line: ``regraft demo | fit | predict | audit | frontier | compare | diagnose``.

The protocol's commands, ``reproduce | train | sweep | collect``, are in ``regraft.cli.bench_app``,
``embed images | text | verify`` in ``regraft.cli.embed_app``, ``moral elicit | run`` in
``regraft.cli.moral_app``. ``report`` and ``doctor`` are the last two here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import regraft.cli.bench_app
import regraft.cli.embed_app
import regraft.cli.moral_app  # noqa: F401 -- their commands join the app
from regraft._version import __version__
from regraft.cli.console import Screen
from regraft.cli.options import (
    Device,
    Domain,
    Folder,
    HoldoutSeed,
    Html,
    Json,
    Label,
    Out,
    Quiet,
    Radius,
    Seed,
    among,
    app,
    command,
    one_of,
)
from regraft.cli.usage import PROGRAM

# The library is imported inside the commands, so that --help does not wait for torch.


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"regraft {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Print it.", callback=_print_version, is_eager=True)
]
Data = Annotated[
    Path, typer.Argument(help="A .npz, .csv or .parquet file, or a bank.", readable=False)
]
Radii = Annotated[str, typer.Option(help="Radii in nats, separated by commas.")]
Kind = Annotated[
    str,
    typer.Option(
        help="Make the worst 'risk' or the worst 'regret' small.",
        autocompletion=among("risk", "regret"),
    ),
]
Rank = Annotated[int | None, typer.Option(help="Transplant dimension.")]
CELLS = "-90%", "+90%"


def main() -> None:
    """Entry point of the ``regraft`` command."""
    app(prog_name=PROGRAM)


@app.callback()
def _options(version: Version = False) -> None:
    pass


@command()
def demo(
    context: typer.Context,
    cell: Annotated[
        str,
        typer.Option(help=f"The unseen domain: {one_of(*CELLS)}.", autocompletion=among(*CELLS)),
    ] = "-90%",
    seed: Seed = 0,
    device: Device = "cpu",
    out: Annotated[Path, Folder] = Path("regraft-demo"),
    html: Html = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """See on Colored MNIST what an unseen domain does to ERM, and what CRO does about it."""
    screen = Screen(as_json, quiet)
    with screen.working("loading the embeddings"):
        from regraft.cli.demo import run_demo_command
        from regraft.cli.session import Run
        from regraft.core.domains import check_device
    check_device(device)  # which only the last of the heads asks for
    run = Run.of(context, out, html=html)
    run_demo_command(screen, run, cell, seed=seed, device=device)


@command()
def fit(
    context: typer.Context,
    data: Data,
    out: Annotated[Path, Folder],
    label: Label = "label",
    domain: Domain = "domain",
    radius: Radius = 8.0,
    rank: Rank = None,
    objective: Kind = "risk",
    ridge: Annotated[float | None, typer.Option(help="Default: cross-validated.")] = None,
    seed: HoldoutSeed = None,
    device: Device = "cpu",
    html: Html = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit the head that is best in the worst plausible unseen domain, and certify it."""
    screen = Screen(as_json, quiet)
    with screen.working("starting"):
        from regraft.cli.fit import run_fit
        from regraft.cli.session import Run
    run_fit(
        screen,
        Run.of(context, out, html=html, data=[data]),
        data,
        label=label,
        domain=domain,
        radius=radius,
        rank=rank,
        objective=objective,
        ridge=ridge,
        seed=seed,
        device=device,
    )


@command()
def predict(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="Folder of a saved model.", readable=False)],
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict labels and probabilities; score them if the data has a label column."""
    screen = Screen(as_json, quiet)
    with screen.working("starting"):
        from regraft.cli.predict import run_predict
        from regraft.cli.session import Run
    run = Run.of(context, out, data=[model, data])
    run_predict(screen, run, model, data, label=label, domain=domain)


@command()
def audit(
    context: typer.Context,
    predictor: Annotated[
        Path, typer.Argument(help="A saved model, or a file of probabilities.", readable=False)
    ],
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    radii: Radii = "0,0.5,1,2,4,8,16",
    rank: Rank = None,
    device: Device = "cpu",
    out: Out = None,
    html: Html = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Worst-case accuracy and risk of a fixed predictor, over how far domains may shift."""
    screen = Screen(as_json, quiet)
    steps = _numbers(radii)
    with screen.working("starting"):
        from regraft.cli.audit import run_audit
        from regraft.cli.session import Run
    run_audit(
        screen,
        Run.of(context, out, html=html, data=[predictor, data]),
        predictor,
        data,
        label=label,
        domain=domain,
        radii=steps,
        rank=rank,
        device=device,
    )


@command()
def frontier(
    context: typer.Context,
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    radii: Radii = "0,0.5,1,2,4,8,16",
    rank: Rank = None,
    objective: Kind = "risk",
    seed: HoldoutSeed = None,
    device: Device = "cpu",
    out: Out = None,
    html: Html = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """What robustness costs on the sources, and what it buys in the worst case."""
    screen = Screen(as_json, quiet)
    steps = _numbers(radii)
    with screen.working("starting"):
        from regraft.cli.audit import run_frontier
        from regraft.cli.session import Run
    run_frontier(
        screen,
        Run.of(context, out, html=html, data=[data]),
        data,
        label=label,
        domain=domain,
        radii=steps,
        rank=rank,
        objective=objective,
        seed=seed,
        device=device,
    )


@command(resumes=True)
def compare(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Argument(
            help="A .npz, .csv or .parquet file, a bank, or a ready benchmark: amazon, "
            "office-caltech10 or pacs.",
            readable=False,
        ),
    ],
    folder: Annotated[
        Path | None, typer.Option("--data", help="Files of a ready benchmark.", readable=False)
    ] = None,
    label: Label = "label",
    domain: Domain = "domain",
    radii: Radii = "0.5,1,2,4,8,16",
    device: Device = "cpu",
    out: Annotated[Path, Folder] = Path("regraft-compare"),
    html: Html = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Leave each domain out in turn: ERM, GroupDRO, V-REx, IRM and CRO where none has been.

    Finished cells are kept in --out: the same command goes on where it stopped.
    """
    screen = Screen(as_json, quiet)
    steps = _numbers(radii)
    with screen.working("starting"):
        from regraft.cli.compare import run_compare
        from regraft.cli.session import Run
    run_compare(
        screen,
        Run.of(context, out, html=html, data=[folder or data]),
        data,
        folder=folder,
        label=label,
        domain=domain,
        radii=steps,
        device=device,
        out=out,
    )


@command()
def diagnose(
    context: typer.Context,
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    group: Annotated[
        str | None, typer.Option(help="Column of U, where it was observed (not in a bank).")
    ] = None,
    groups: Annotated[
        int, typer.Option(help="Number of unobserved groups to fit without --group.")
    ] = 2,
    seed: Seed = 0,
    device: Device = "cpu",
    out: Out = None,
    html: Html = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Do the premises of the method look satisfied on these data? Verdicts, with their numbers."""
    screen = Screen(as_json, quiet)
    with screen.working("starting"):
        from regraft.cli.diagnose import run_diagnose
        from regraft.cli.session import Run
    run_diagnose(
        screen,
        Run.of(context, out, html=html, data=[data]),
        data,
        label=label,
        domain=domain,
        group=group,
        groups=groups,
        seed=seed,
        device=device,
    )


@command()
def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_DIR", help="Folder that a command wrote to with --out.", readable=False
        ),
    ],
    path: Annotated[
        Path | None,
        typer.Option(
            "--out", help="File for the page. Default: RUN_DIR/report.html.", readable=False
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a page to look at and to pass on from what other commands have written."""
    screen = Screen(as_json, quiet)
    if path is not None and path.is_dir():
        raise ValueError(f"{path} is a folder: name a file with --out, such as {path}/report.html.")
    with screen.working(f"reading {folder}"):
        from regraft.report import write_report

        written = write_report(folder, path)
    screen.finish({"report": str(written)}, [written])


@command()
def doctor(as_json: Json = False, quiet: Quiet = False) -> None:
    """See whether everything is installed and in order, and what to mend first."""
    from regraft.cli.doctor import run_doctor

    run_doctor(Screen(as_json, quiet), as_json=as_json, quiet=quiet)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"radii are {text!r}: pass numbers such as 0,1,2,4,8.") from None
