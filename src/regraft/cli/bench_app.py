"""The protocol's part of the command line: ``regraft reproduce | train | sweep | collect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regraft.cli.console import Screen
from regraft.cli.options import (
    FIRST_TRIAL,
    Device,
    Folder,
    Html,
    Json,
    Out,
    Quiet,
    among,
    command,
    one_of,
)

# The library is imported inside the commands, so that --help does not wait for torch.

# Names are written out here, because their modules take torch along.
BENCHMARKS = "cmnist", "pacs", "officehome"
PRESETS = "paper", "best"
FAMILIES = "hull", "free"
SURROGATES = "reweighted", "relabelled", "transplanted"
ENGINES = "local", "ray", "slurm"
RULES = "training-domain", "leave-one-domain-out", "oracle"
DATASETS = (
    *("ColoredMNIST", "RotatedMNIST", "PACS", "VLCS"),
    *("OfficeHome", "TerraIncognita", "DomainNet"),
)
ALGORITHMS = (
    *("ERM", "IRM", "GroupDRO", "Mixup", "MLDG", "CORAL", "MMD", "DANN"),
    *("CDANN", "MTL", "SagNet", "ARM", "VREx", "RSC", "CRO"),
)

Dataset = typer.Option(
    help=f"{', '.join(DATASETS)}, or the stem of a file of features in --data.",
    autocompletion=among(*DATASETS),
)
Data = Annotated[
    Path | None, typer.Option(help="Folder of the data. Default: $REGRAFT_DATA.", readable=False)
]
Steps = Annotated[int | None, typer.Option(help="Default: the dataset's.")]
Hparams = Annotated[str, typer.Option(help="Hyperparameters to set, as a JSON object.")]
Holdout = Annotated[float, typer.Option(help="Share of each domain kept for validation.")]
Compat = Annotated[bool, typer.Option("--compat", help="Keep DomainBed's known faults.")]


@command(resumes=True)
def reproduce(
    context: typer.Context,
    benchmark: Annotated[
        str,
        typer.Argument(
            help="cmnist (Colored MNIST), pacs or officehome, from pixels.",
            autocompletion=among(*BENCHMARKS),
        ),
    ],
    preset: Annotated[
        str | None,
        typer.Option(
            help="How Phase 1 of cmnist trains: paper (default) or best.",
            autocompletion=among(*PRESETS),
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="What Phase 1 of images fine-tunes: efficientnet_lite0 or a name of timm's. "
            "Default: resnet50.ram_in1k."
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Safetensors file of the encoder's weights.", readable=False),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Of Phase 1 of images. Default: 5000.")] = None,
    size: Annotated[
        int | None, typer.Option(help="Pixels of images on each side. Default: 224.")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Default: 3.")] = None,
    seed: Annotated[int, typer.Option(help=FIRST_TRIAL)] = 0,
    configs: Annotated[int | None, typer.Option(help="Default: 20 a trial.")] = None,
    cells: Annotated[
        str | None,
        typer.Option(help='Held-out domains, such as "+90%,-90%" or A,S. Default: all.'),
    ] = None,
    family: Annotated[
        str,
        typer.Option(
            help=f"The adversary's domains: {one_of(*FAMILIES)}.", autocompletion=among(*FAMILIES)
        ),
    ] = "hull",
    surrogate: Annotated[
        str | None,
        typer.Option(
            help="What the learner sees of them: reweighted (of the hull, by default), relabelled "
            "(of the free family) or transplanted.",
            autocompletion=among(*SURROGATES),
        ),
    ] = None,
    device: Device = "cpu",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of MNIST's four files, or of images as domain/class/file.", readable=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the files. Default: regraft-BENCHMARK.", readable=False),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="One cell (the last), one trial, three configurations, 20 steps of images.",
        ),
    ] = False,
    html: Html = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run one of the paper's experiments and set our numbers beside the published ones.

    Stopped at any moment, it goes on from there when the same command is run again.
    """
    screen = Screen(as_json, quiet)
    with screen.working("loading torch"):
        from regraft.cli.reproduce import Options, run_reproduce
        from regraft.cli.session import Run

    out = out or Path(f"regraft-{benchmark}")
    options = Options(
        preset=preset,
        encoder=encoder,
        weights=weights,
        steps=steps,
        size=size,
        cells=cells,
        trials=trials,
        seed=seed,
        configs=configs,
        quick=quick,
        family=family,
        surrogate=surrogate,
        device=device,
        data=data,
        out=out,
    )
    run = Run.of(context, out, html=html, data=[data] if data else [])
    run_reproduce(screen, run, benchmark, options)


@command(resumes=True)
def train(
    context: typer.Context,
    dataset: Annotated[str, Dataset] = "ColoredMNIST",
    algorithm: Annotated[
        str,
        typer.Option(help=f"{one_of(*ALGORITHMS)}.", autocompletion=among(*ALGORITHMS)),
    ] = "ERM",
    test_envs: Annotated[str, typer.Option(help="Held-out domains by number: 0 or 0,1.")] = "0",
    hparams_seed: Annotated[int, typer.Option(help="0 for the default configuration.")] = 0,
    trial_seed: Annotated[int, typer.Option("--seed", "--trial-seed", help=FIRST_TRIAL)] = 0,
    hparams: Hparams = "{}",
    steps: Steps = None,
    holdout_fraction: Holdout = 0.2,
    compat: Compat = False,
    device: Device = "cpu",
    data: Data = None,
    out: Annotated[Path, Folder] = Path("regraft-train"),
    skip_model_save: Annotated[
        bool, typer.Option("--skip-model-save", help="Keep the records only.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train one algorithm with some domains held out, by DomainBed's protocol.

    Stopped at any moment, it goes on from its last checkpoint, of which there is one a minute, when
    the same command is run again.
    """
    screen = Screen(as_json, quiet)
    with screen.working("loading torch"):
        from regraft.cli.session import Run
        from regraft.cli.train import run_train

    run_train(
        screen,
        Run.of(context, out, data=[data] if data else []),
        dataset,
        algorithm,
        test_envs=_integers("test-envs", test_envs),
        hparams_seed=hparams_seed,
        trial_seed=trial_seed,
        hparams=hparams,
        steps=steps,
        holdout_fraction=holdout_fraction,
        compat=compat,
        device=device,
        data=data,
        out=out,
        keep_model=not skip_model_save,
    )


@command(resumes=True)
def sweep(
    context: typer.Context,
    datasets: Annotated[str, Dataset] = "ColoredMNIST",
    algorithms: Annotated[
        str | None,
        typer.Option(
            help="Names, separated by commas. Default: all.", autocompletion=among(*ALGORITHMS)
        ),
    ] = None,
    n_hparams: Annotated[int, typer.Option(help="Configurations, the default one first.")] = 20,
    n_trials: Annotated[int, typer.Option(help="Repetitions of everything.")] = 3,
    seed: Annotated[int, typer.Option(help=FIRST_TRIAL)] = 0,
    test_envs: Annotated[
        str | None, typer.Option(help="Domains to hold out in turn: 0,2. Default: all.")
    ] = None,
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs",
            help="Also hold out every two, which leave-one-domain-out validation needs.",
        ),
    ] = False,
    hparams: Hparams = "{}",
    steps: Steps = None,
    holdout_fraction: Holdout = 0.2,
    compat: Compat = False,
    device: Device = "cpu",
    data: Data = None,
    out: Annotated[Path, Folder] = Path("regraft-sweep"),
    keep_models: Annotated[
        bool, typer.Option("--keep-models", help="Keep each run's trained model.")
    ] = False,
    engine: Annotated[
        str, typer.Option(help=f"{one_of(*ENGINES)}.", autocompletion=among(*ENGINES))
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Processes at once. Default: one a core, or one a GPU.")
    ] = None,
    together: Annotated[
        int | None,
        typer.Option(
            help="Runs side by side in a process. Default: 20 on a GPU, of image folders 1."
        ),
    ] = None,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster.")] = None,
    gpus_per_worker: Annotated[
        float | None, typer.Option(help="Share of a GPU for each process (ray; slurm rounds up).")
    ] = None,
    slurm_partition: Annotated[str | None, typer.Option(help="Partition to submit to.")] = None,
    slurm_time: Annotated[int | None, typer.Option(help="Minutes a job may take.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run DomainBed's protocol: every algorithm, configuration and held-out domain.

    Stopped at any moment, it goes on from there when the same command is run again, here or by
    several launchers at once.
    """
    screen = Screen(as_json, quiet)
    with screen.working("loading torch"):
        from regraft.cli.session import Run
        from regraft.cli.sweep import run_sweep

    run_sweep(
        screen,
        Run.of(context, out, data=[data] if data else []),
        _names(datasets),
        _names(algorithms or ""),
        out=out,
        data=data,
        n_trials=n_trials,
        seed=seed,
        n_hparams=n_hparams,
        pairs=pairs,
        test_envs=None if test_envs is None else _integers("test-envs", test_envs),
        steps=steps,
        hparams=hparams,
        holdout_fraction=holdout_fraction,
        compat=compat,
        keep_models=keep_models,
        device=device,
        together=together,
        engine=engine,
        workers=workers,
        address=address,
        gpus_per_worker=gpus_per_worker,
        slurm_partition=slurm_partition,
        slurm_time=slurm_time,
    )


@command()
def collect(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(help="Folder of runs, ours or DomainBed's.", readable=False)
    ],
    selection: Annotated[
        str | None,
        typer.Option(
            help=f"Selection rule: {one_of(*RULES)}. Default: all.", autocompletion=among(*RULES)
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    out: Out = None,
    html: Html = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make the tables of a sweep by three selection rules, the last of which sees the test."""
    screen = Screen(as_json, quiet)
    from regraft.cli.collect import run_collect
    from regraft.cli.session import Run

    run = Run.of(context, out, html=html, data=[folder])
    run_collect(screen, run, folder, selection=selection, latex=latex, markdown=markdown)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _integers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in _names(text)]
    except ValueError:
        raise ValueError(f"{option} are {text!r}: pass numbers such as 0,1.") from None
