"""``regraft embed images | text | verify``: banks of features."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command, make_group
from regraft.cli.names import ROW_ENGINES
from regraft.cli.option_groups import EngineSettings
from regraft.cli.options import (
    TEXTS,
    Address,
    Device,
    Domain,
    Label,
    NewPath,
    NewText,
    OnBroken,
    Weights,
    choice,
    path_argument,
    path_option,
)
from regraft.cli.session import Session
from regraft.encoders import IMAGE_DEFAULT, TEXT_DEFAULT

if TYPE_CHECKING:
    from regraft.data.banks import Bank
    from regraft.encoders.embedding import Embedding
    from regraft.encoders.encoded_blocks import RayWorkers

group = make_group("embed", "Make a bank of features from images or texts.")

Out = Annotated[Path, path_option("Folder for the bank.")]
Unlabelled = Annotated[
    bool,
    typer.Option(
        "--unlabelled",
        help="Take all inputs without labels and domains, and images from folders in any layout.",
    ),
]
Engine = Annotated[
    str, choice("Where the encoder runs: local, or ray (workers of a Ray cluster).", *ROW_ENGINES)
]
Workers = Annotated[
    int | None, typer.Option(help="Engine ray: number of workers. Default: one a core, or a GPU.")
]


@dataclass(frozen=True)
class TagOptions:
    """Options that say which labels and domains the inputs have."""

    label: Label = "label"
    domain: Domain = "domain"
    unlabelled: Unlabelled = False


@dataclass(frozen=True)
class EncodingWorkers:
    """Options that say where the encoder runs."""

    engine: Engine = "local"
    address: Address = None
    workers: Workers = None

    def choose(self) -> RayWorkers | None:
        """Return the workers of a cluster, None for this process; raises ``ValueError``."""
        from regraft.encoders.encoded_blocks import RayWorkers

        EngineSettings(self.engine, None, self.address, self.workers).check()
        return RayWorkers(self.address, self.workers) if self.engine == "ray" else None


# What a finished bank is known by, beside labels and domains.
_COMPARED = {"images": "images of the same names and sizes", "texts": "the same texts"}


# A bank says itself what it was made of, by what and from what: it needs no provenance.
@command("images", group=group, resumes=True, traced=False, loading="loading torch")
def images_command(
    session: Session,
    images: Annotated[
        Path,
        path_argument(
            "A folder in the layout domain/class/file, a flat one without labels and domains, or a "
            ".csv file of paths, which may have labels and domains."
        ),
    ],
    out: Out,
    encoder: Annotated[
        str,
        choice(
            "efficientnet_lite0, mnist_cnn, or a name of timm's, timm:NAME.",
            *(IMAGE_DEFAULT, "mnist_cnn", "timm:"),
        ),
    ] = IMAGE_DEFAULT,
    weights: Weights = None,
    on_broken: OnBroken = "stop",
    path: NewPath = "path",
    *,
    tags: TagOptions,
    device: Device = "cpu",
    workers: EncodingWorkers,
) -> None:
    """Make a bank of features from images.

    Stopped at any moment, it goes on from there when the same command is run again.
    """
    loading = {"device": device, "weights": weights}
    options = {"on_broken": on_broken, "image": path}
    _embed(session, "images", images, out, encoder, loading, tags, workers, **options)


@command("text", group=group, resumes=True, traced=False, loading="loading torch")
def text_command(
    session: Session,
    table: Annotated[
        Path,
        path_argument(TEXTS),
    ],
    out: Out,
    encoder: Annotated[
        str,
        choice(
            "minilm, hashed, sentence-transformers:NAME or transformers:NAME.",
            *(TEXT_DEFAULT, "hashed", "sentence-transformers:", "transformers:"),
        ),
    ] = TEXT_DEFAULT,
    device: Device = "cpu",
    text: NewText = "text",
    *,
    tags: TagOptions,
    workers: EncodingWorkers,
) -> None:
    """Make a bank of features from the texts of a table.

    Stopped at any moment, it goes on from there when the same command is run again.
    """
    _embed(session, "texts", table, out, encoder, {"device": device}, tags, workers, text=text)


@command("verify", group=group, loading=None)
def verify_command(
    session: Session,
    bank: Annotated[Path, path_argument("A bank of features.")],
) -> None:
    """Read a whole bank and compare it with its checksums."""
    from regraft.data.banks import open_bank, verify

    opened = open_bank(bank)
    with session.working(f"reading {bank}"):
        verify(opened)
    session.say(f"{bank} is as it was written: {len(opened.X)} rows, sha256 {opened.checksum}.")
    session.finish(_describe(opened), [])


def _embed(
    session: Session,
    inputs: str,
    source: Path,
    out: Path,
    encoder: str,
    loading: dict[str, Any],
    tags: TagOptions,
    workers: EncodingWorkers,
    **options: Any,
) -> None:
    """Make a bank of the ``inputs``, images or texts, in ``source``, and show it."""
    from regraft import encoders
    from regraft.data.banks import check_place
    from regraft.data.image_folders import check_source
    from regraft.data.input_tags import choose_tags
    from regraft.data.text_inputs import check_texts
    from regraft.encoders.embedding import embed_images, embed_texts

    check, load, embed = (
        (check_source, encoders.load_image_encoder, embed_images)
        if inputs == "images"
        else (check_texts, encoders.load_text_encoder, embed_texts)
    )
    chosen = workers.choose()
    check(source)
    check_place(out)
    options |= {"workers": chosen, **choose_tags(source, **asdict(tags))}
    with session.working(f"loading {encoder}"):
        loaded = load(encoder, **loading)
    with session.counting(f"listing the {inputs}", inputs) as meter:
        embedding = embed(source, loaded, out, on_count=meter, **options)  # type: ignore[arg-type]
    _show(session, embedding)


def _show(session: Session, embedding: Embedding) -> None:
    """Print what a bank holds, and what to do with it."""
    from regraft.data.bank_writer import ARRAYS, DESCRIPTION, INPUTS

    bank = embedding.bank
    if embedding.was_there:
        session.say(f"{bank.folder} is finished already, from {_COMPARED[bank.kind]}.")
    if bank.domains is not None:
        shares = _count_by_domain(bank)
        rows = [(name, *map(str, each.values())) for name, each in shares.items()]
        total = ("all", *map(str, _count(bank, slice(None)).values()))
        session.table(("domain", *_count(bank, slice(None))), rows, [total])
    if bank.n_skipped:
        session.say(f"Left out: {bank.n_skipped} broken, the first of them in {DESCRIPTION}.")
    document = _describe(bank) | {"was_there": embedding.was_there}
    session.finish(document, [bank.folder / name for name in (DESCRIPTION, ARRAYS, INPUTS)])
    place = quote(str(bank.folder))
    session.say(
        f"Bank: {bank.folder} ({len(bank.X)} rows of {bank.X.shape[1]} features, {bank.encoder})",
        f"Next: regraft fit {place} --out model"
        if bank.y is not None and bank.domain is not None
        else f"Next: regraft predict model {place} --out predictions",
    )


def _count_by_domain(bank: Bank) -> dict[str, dict[str, int]]:
    """Count the rows and the classes of every domain."""
    return {str(name): _count(bank, bank.domain == i) for i, name in enumerate(bank.domains or ())}


def _count(bank: Bank, rows: Any) -> dict[str, int]:
    """Count the ``rows``, and their classes in a bank with labels."""
    if bank.y is None:
        return {"rows": len(bank.X[rows])}
    labels = bank.y[rows].tolist()
    return {"rows": len(labels), "classes": len(set(labels))}


def _describe(bank: Bank) -> dict[str, Any]:
    return {
        "bank": str(bank.folder),
        "rows": len(bank.X),
        "features": bank.X.shape[1],
        "classes": None if bank.classes is None else list(bank.classes),
        "domains": None if bank.domains is None else _count_by_domain(bank),
        "encoder": {"name": bank.encoder, "fingerprint": bank.fingerprint},
        "skipped": bank.n_skipped,
        "checksums": {"features": bank.checksum, "inputs": bank.inputs_checksum},
    }
