"""The command line: ``regraft demo | fit | predict | audit | frontier | compare | diagnose``.

The protocol's commands, ``reproduce | train | sweep | collect``, are in ``regraft.bench.cli``,
``embed images | text | verify`` in ``regraft.embedding.cli``, ``moral elicit | run`` in
``regraft.moral.cli``.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import regraft.bench.cli
import regraft.embedding.cli
import regraft.moral.cli  # noqa: F401 -- their commands join the app
from regraft._version import __version__
from regraft.commands import Device, Folder, Json, Out, app, command
from regraft.screen import Screen, percent

# The library is imported inside the commands, so that --help does not wait for torch.
if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regraft.adversary import Objective
    from regraft.auditing import FrontierPoint
    from regraft.linear import LinearHead
    from regraft.tables import Table


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"regraft {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Print it.", callback=_print_version, is_eager=True)
]
# Not even readability is left to typer, whose complaints take four lines.
Data = Annotated[
    Path, typer.Argument(help="A .npz, .csv or .parquet file, or a bank.", readable=False)
]
Label = Annotated[str, typer.Option(help="Column of labels.")]
Domain = Annotated[str, typer.Option(help="Column of domains.")]
Radii = Annotated[str, typer.Option(help="Radii in nats, separated by commas.")]
Kind = Annotated[str, typer.Option(help="Make the worst 'risk' or the worst 'regret' small.")]
Rank = Annotated[int | None, typer.Option(help="Transplant dimension.")]


def main() -> None:
    """Entry point of the ``regraft`` command."""
    app(prog_name="regraft")


@app.callback()
def _options(version: Version = False) -> None:
    pass


@command
def demo(
    cell: Annotated[str, typer.Option(help='The unseen domain: "-90%" or "+90%".')] = "-90%",
    out: Annotated[Path, Folder] = Path("regraft-demo"),
    as_json: Json = False,
) -> None:
    """See on Colored MNIST what an unseen domain does to ERM, and what CRO does about it."""
    screen = Screen(as_json)
    with screen.working("loading the embeddings"):
        from regraft.demo import describe_demo, run_demo
        from regraft.persistence import write_result
        from regraft.plots import plot_audit

        description = describe_demo(cell)
    screen.say(description, "")
    with screen.working("comparing heads") as step:
        result = run_demo(cell, on_step=step, on_round=screen.round)
    draw = functools.partial(plot_audit, result.curves)
    files = write_result(out, "demo.json", result.to_dict(), "stress_curve.png", draw)
    columns = "accuracy", "seen domains (held-out rows)", f"unseen {result.target}"
    rows = [
        (row.name, percent(row.source_accuracy), percent(row.target_accuracy))
        for row in (*result.rows, result.ceiling)
    ]
    screen.table(columns, rows[:-1], rows[-1:])
    screen.say(result.verdict(), "", *result.certificate.summary(), "")
    screen.finish(result.to_dict(), files)
    other = "+90%" if cell == "-90%" else "-90%"
    screen.say(
        f'Next: regraft demo --cell "{other}", or your own table: '
        "regraft fit data.csv --label label --domain domain --out model"
    )


@command
def fit(
    data: Data,
    out: Annotated[Path, Folder],
    label: Label = "label",
    domain: Domain = "domain",
    radius: Annotated[float, typer.Option(help="Largest shift to prepare for, in nats.")] = 8.0,
    rank: Rank = None,
    objective: Kind = "risk",
    ridge: Annotated[float | None, typer.Option(help="Default: cross-validated.")] = None,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Fit the head that is best in the worst plausible unseen domain, and certify it."""
    screen = Screen(as_json)
    with screen.working(f"reading {data}"):
        import numpy as np

        from regraft.estimator import CROClassifier
        from regraft.files import write_text
        from regraft.persistence import check_destination, dumps, save
        from regraft.tables import score

        check_destination(out / "model")
        table, y, groups = _read(data, label, domain)
    kind = cast("Objective", objective)
    model = CROClassifier(radius, rank=rank, objective=kind, ridge=ridge, device=device)
    with screen.working(f"fitting {len(y)} rows of {table.X.shape[1]} features"):
        model.fit(table.X, y, groups, on_round=screen.round)
        _, accuracy = score(table, model.predict(table.X))
    if table.features:
        model.feature_names_in_ = np.array(table.features, dtype=object)
    save(model, out / "model")
    certificate = model.certificate_.to_dict()
    write_text(out / "certificate.json", dumps(certificate))
    files = [out / "model", out / "certificate.json"]
    screen.table(("source", "training accuracy"), [(k, percent(v)) for k, v in accuracy.items()])
    screen.say(*model.certificate_.summary())
    screen.finish({"certificate": certificate, "source_accuracy": accuracy}, files)


@command
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model.", readable=False)],
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Predict labels and probabilities; score them if the data has a label column."""
    screen = Screen(as_json)
    with screen.working(f"reading {data}"):
        from regraft.persistence import write_csv
        from regraft.tables import read_table, score

        table = read_table(data, label=label, domain=domain, need_label=False, need_domain=False)
        head, X = _load_for(table, model)
    labels, probabilities = head.predict(X), head.predict_proba(X)
    files = [] if out is None else [out / "predictions.csv"]
    for file in files:
        names = ["label", *(f"probability_{name}" for name in head.classes_)]
        write_csv(file, names, zip(labels.tolist(), *probabilities.T.tolist(), strict=True))
    counts = [(str(name), str((labels == name).sum())) for name in head.classes_]
    screen.table(("predicted label", "rows"), counts)
    accuracy, by_domain = score(table, labels)
    if accuracy is not None:
        screen.say(f"accuracy: {percent(accuracy)}")
    screen.say(*(f"accuracy on {name}: {percent(part)}" for name, part in by_domain.items()))
    document = {
        "classes": head.classes_.tolist(),
        "labels": labels.tolist(),
        "probabilities": probabilities.tolist(),
        "accuracy": accuracy,
        "accuracy_by_domain": by_domain,
    }
    screen.finish(document, files)


@command
def audit(
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
    as_json: Json = False,
) -> None:
    """Worst-case accuracy and risk of a fixed predictor, over how far domains may shift."""
    screen = Screen(as_json)
    steps = _numbers(radii)
    with screen.working(f"auditing {predictor} on {data}"):
        from regraft.auditing import audit, warn_if_fitted_on
        from regraft.persistence import write_result
        from regraft.plots import plot_audit
        from regraft.tables import read_probabilities

        table, y, groups = _read(data, label, domain)
        judged: Any
        if predictor.is_dir():
            judged, X = _load_for(table, predictor)
        else:
            judged, X = read_probabilities(predictor, y), table.X
        curve = audit(judged, X, y, groups, steps, rank=rank, device=device)
    warn_if_fitted_on(judged, X, groups)
    draw = functools.partial(plot_audit, {predictor.stem: curve})
    files = write_result(out, "audit.json", curve.to_dict(), "audit.png", draw)
    columns = "radius (nats)", "effective rows", "worst-case risk", "worst-case accuracy"
    rows = [
        (f"{p.radius:g}", f"{p.sample_size:.0f}", f"{p.risk:.3f}", percent(p.accuracy))
        for p in curve.points
    ]
    screen.table(columns, rows)
    screen.finish(curve.to_dict(), files)


@command
def frontier(
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    radii: Radii = "0,0.5,1,2,4,8,16",
    rank: Rank = None,
    objective: Kind = "risk",
    device: Device = "cpu",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """What robustness costs on the sources, and what it buys in the worst case."""
    screen = Screen(as_json)
    steps = _numbers(radii)
    with screen.working(f"fitting {len(steps)} heads on {data}") as step:
        from regraft.auditing import frontier
        from regraft.persistence import write_result
        from regraft.plots import plot_frontier

        table, y, groups = _read(data, label, domain)

        def tell(point: FrontierPoint) -> None:
            step(f"fitted at radius {point.radius:g}")

        kind = cast("Objective", objective)
        result = frontier(
            table.X, y, groups, steps, objective=kind, rank=rank, device=device, on_point=tell
        )
    draw = functools.partial(plot_frontier, result)
    files = write_result(out, "frontier.json", result.to_dict(), "frontier.png", draw)
    worst = f"worst-case accuracy within {result.audit_radius:g} nats"
    rows = [
        (f"{p.radius:g}", percent(p.source_accuracy), percent(p.worst_case_accuracy))
        for p in result.points
    ]
    screen.table(("training radius", "source accuracy", worst), rows)
    screen.finish(result.to_dict(), files)


@command
def compare(
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
    as_json: Json = False,
) -> None:
    """Leave each domain out in turn: ERM, GroupDRO, V-REx, IRM and CRO where none has been.

    Finished cells are kept in --out: the same command goes on where it stopped.
    """
    screen = Screen(as_json)
    steps = _numbers(radii)
    with screen.working("starting"):
        from regraft.comparison_command import run_compare
    run_compare(
        screen,
        data,
        folder=folder,
        label=label,
        domain=domain,
        radii=steps,
        device=device,
        out=out,
    )


@command
def diagnose(
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    group: Annotated[
        str | None, typer.Option(help="Column of U, where it was observed (not in a bank).")
    ] = None,
    groups: Annotated[
        int, typer.Option(help="Number of unobserved groups to fit without --group.")
    ] = 2,
    seed: Annotated[int, typer.Option(help="Of shuffles, restarts and redrawn domains.")] = 0,
    device: Device = "cpu",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Do the premises of the method look satisfied on these data? Verdicts, with their numbers."""
    screen = Screen(as_json)
    with screen.working("starting"):
        from regraft.diagnostics.command import run_diagnose
    run_diagnose(
        screen,
        data,
        label=label,
        domain=domain,
        group=group,
        groups=groups,
        seed=seed,
        device=device,
        out=out,
    )


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"radii are {text!r}: pass numbers such as 0,1,2,4,8.") from None


def _read(data: Path, label: str, domain: str) -> tuple[Table, NDArray[Any], NDArray[Any]]:
    from regraft.tables import read_table

    table = read_table(data, label=label, domain=domain)
    assert table.y is not None and table.domain is not None  # needed by default
    return table, table.y, table.domain


def _load_for(table: Table, path: Path) -> tuple[LinearHead, NDArray[Any]]:
    """The model in ``path``, or in what ``regraft fit`` made there, and its features (n, d)."""
    from regraft.persistence import is_model, load
    from regraft.tables import align

    head = load(path / "model" if is_model(path / "model") else path)
    return head, align(table, getattr(head, "feature_names_in_", ()), head.n_features_in_)
