"""Options that several commands share, and how texts with commas are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.names import DATASETS, HEAD_FAMILIES, OBJECTIVES, ROW_ENGINES
from regraft.support.glossary import meaning

if TYPE_CHECKING:
    from regraft.data.columns import ColumnChoice


def among(*values: str) -> Callable[[str], list[str]]:
    """Complete an option that is one of ``values``, or several with commas between them."""

    def complete(incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",")
        return [f"{before}{comma}{value}" for value in values]

    return complete


def one_of(*values: str) -> str:
    """Join the values for a help text: ``a, b or c``."""
    *first, last = values
    return f"{', '.join(first)} or {last}" if first else last


def choice(text: str, *values: str) -> Any:
    """Make an option that completes to ``values``, with ``text`` as its help."""
    return typer.Option(help=text, autocompletion=among(*values))


# Not even readability is left to typer, which knows nothing of banks and known datasets.
def path_option(text: str, *names: str) -> Any:
    """Make an option for a path, with ``text`` as its help."""
    return typer.Option(*names, help=text, readable=False)


def path_argument(text: str) -> Any:
    """Make an argument for a path, with ``text`` as its help."""
    return typer.Argument(help=text, readable=False)


Folder = path_option("Folder for the files.")
Out = Annotated[Path | None, Folder]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document; progress goes to stderr.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Print neither progress nor results, only what is wrong.")
]
Html = Annotated[
    bool,
    typer.Option("--html", help="Also write report.html, a page to look at and to pass on."),
]
Device = Annotated[str, choice("Where torch computes.", "cpu", "cuda", "mps")]
Seed = Annotated[int, typer.Option(help="Seed of all random draws.")]
FIRST_TRIAL = "Number of the trial, or of the first of several."
TrialSeed = Annotated[int, typer.Option(help=FIRST_TRIAL)]
Label = Annotated[str, typer.Option(help="Column of labels.")]
Domain = Annotated[str, typer.Option(help="Column of domains.")]
# For commands that take a model of fit, which knows its columns.
_AS_IN_FIT = "Default: as in fit."
ModelLabel = Annotated[str | None, typer.Option(help=f"Column of labels. {_AS_IN_FIT}")]
ModelDomain = Annotated[str | None, typer.Option(help=f"Column of domains. {_AS_IN_FIT}")]
Features = Annotated[
    str | None,
    typer.Option(
        help="Columns to use, separated by commas. Default: all but ids, free text and constants."
    ),
]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out, separated by commas.")]
Categorical = Annotated[
    str | None,
    typer.Option(help="Columns of numbers that name categories, separated by commas."),
]
_ID = "Column that names the rows: no feature, and shown with results."
Id = Annotated[str | None, typer.Option("--id", help=_ID)]
ModelId = Annotated[str | None, typer.Option("--id", help=f"{_ID} {_AS_IN_FIT[:-1]}, or id.")]
Inputs = Annotated[
    Path | None,
    path_option("Folder or table that a bank was made from. Default: where it was then."),
]

# For what fits, audits and compares heads.
_NAMED_COLUMNS = "A table (.csv, .tsv, .jsonl, all also .gz, .parquet)"
FEATURES = f"{_NAMED_COLUMNS}, a .npz file"
TABLES = f"{FEATURES}, or a bank."
TEXTS = f"{_NAMED_COLUMNS}, or a .txt file of one text a line."
Data = Annotated[Path, path_argument(TABLES)]
PARTS = "With --engine also a folder of Parquet files."
DataOrParts = Annotated[Path, path_argument(f"{TABLES} {PARTS}")]
Model = Annotated[Path, path_argument("Folder of a saved model.")]
_HULLS = "Hull, factorized"
AUDIT_RADII = "0,0.5,1,2,4,8,16"
HullRadius = Annotated[
    float | None,
    typer.Option(help=f"{_HULLS}: {meaning('radius')} Default: what the sources support."),
]
HullRadii = Annotated[
    str | None,
    typer.Option(help=f"{_HULLS}: radii in nats, separated by commas. Default: {AUDIT_RADII}."),
]
_FAMILIES = (
    "Which new domains count as plausible: latent (other shares of the hidden groups of rows), "
    "hull (domains between and somewhat beyond the sources)"
)
_FACTORIZED = "factorized (the same, for the part that differs by hidden group)"
_FREE = "free (any that the paper's adversary finds)"
Family = Annotated[str, choice(f"{_FAMILIES} or {_FACTORIZED}.", *HEAD_FAMILIES)]
AuditFamily = Annotated[
    str, choice(f"{_FAMILIES}, {_FACTORIZED} or {_FREE}.", *HEAD_FAMILIES, "free")
]
NGroups = Annotated[int, typer.Option(help="Factorized: number of hidden groups.")]
PriorShift = Annotated[
    float | None,
    typer.Option(help="Latent: how far the mix of groups may move (nats). Default: any."),
]
ClassGroups = Annotated[
    bool, typer.Option("--class-groups", help="Latent: each class mixes the groups in its own way.")
]
Objective = Annotated[str, choice(meaning("objective"), *OBJECTIVES)]
Ridge = Annotated[float | None, typer.Option(help=f"{meaning('ridge')} Default: cross-validated.")]
Rank = Annotated[int | None, typer.Option(help="Hull: transplant dimension. Default: all.")]
Weights = Annotated[Path | None, path_option("Safetensors file of the network's weights.")]

# For tables that do not fit into memory.
RowEngineName = Annotated[
    str | None,
    choice(
        "Read a bank or a folder of Parquet files in parts: local (from disk) or ray (workers of a "
        "Ray cluster). Default: all rows in memory.",
        *ROW_ENGINES,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(help="Engine local: keep the rows in memory if they fit into this, as in 2GB."),
]
Address = Annotated[
    str | None, typer.Option(help="Engine ray: host:port. Default: start Ray on this machine.")
]
Workers = Annotated[
    int | None, typer.Option(help="Engine ray: parts of the rows. Default: one a core.")
]

# For new images and texts.
NewText = Annotated[str, typer.Option(help="Column of texts.")]
NewPath = Annotated[str, typer.Option(help="Column of paths.")]
NewEncoder = Annotated[
    str | None,
    typer.Option(help="Encoder of new images or texts. Default: the one of the model's bank."),
]
OnBroken = Annotated[str, choice("At an image that cannot be read: stop or skip.", "stop", "skip")]

# For runs of the protocol.
Dataset = Annotated[
    str,
    choice(
        f"{', '.join(DATASETS)}, or in --data the stem of a file of features or the name of a "
        "folder domain/class/image.",
        *DATASETS,
    ),
]
DataFolder = Annotated[Path | None, path_option("Folder of the data. Default: $REGRAFT_DATA.")]
Plugins = Annotated[
    str | None,
    typer.Option(help="Python files with algorithms or datasets, separated by commas; they run."),
]
Steps = Annotated[int | None, typer.Option(help="Default: the dataset's.")]
CheckpointFreq = Annotated[
    int | None, typer.Option(help="Steps between evaluations. Default: the dataset's.")
]
Hparams = Annotated[str, typer.Option(help="Hyperparameters to set, as a JSON object.")]
Holdout = Annotated[float, typer.Option(help="Share of each domain kept for validation.")]
Compat = Annotated[
    bool, typer.Option("--compat", help="Do as DomainBed does, its faults included.")
]
PerDomain = Annotated[
    bool,
    typer.Option(
        "--per-domain-forward",
        help="Pass domains through the network one by one where DomainBed does; so with --compat.",
    ),
]
Task = Annotated[
    str,
    choice(
        "domain_generalization, or domain_adaptation to unlabelled rows of the held-out domains.",
        "domain_generalization",
        "domain_adaptation",
    ),
]
UdaHoldout = Annotated[
    float, typer.Option(help="Share of the held-out domains' rows without labels, to adapt to.")
]
Swad = Annotated[
    bool,
    typer.Option(
        "--swad", help="SWAD: average the weights where the validation loss is flat; one record."
    ),
]


def numbers(text: str, name: str = "radii") -> list[float]:
    """Read numbers separated by commas; raises ``ValueError`` with one sentence."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} are {text!r}: pass numbers such as 0,1,2,4,8.") from None


def words(text: str | None) -> list[str]:
    """Read names separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def choose_columns(
    features: str | None, drop: str | None, categorical: str | None, id_column: str | None
) -> ColumnChoice:
    """Read the options that name columns of a table."""
    from regraft.data.columns import ColumnChoice

    return ColumnChoice(
        None if features is None else tuple(words(features)),
        tuple(words(drop)),
        tuple(words(categorical)),
        id_column,
    )


def environments(text: str) -> list[int]:
    """Read the numbers of domains to hold out; raises ``ValueError`` with one sentence."""
    try:
        return [int(part) for part in words(text)]
    except ValueError:
        raise ValueError(f"test-envs are {text!r}: pass numbers such as 0,1.") from None
