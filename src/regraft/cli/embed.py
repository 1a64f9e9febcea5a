"""``regraft embed images | text | verify``: banks of features."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command, make_group
from regraft.cli.options import Device, Domain, Label, Weights, choice, path_argument, path_option
from regraft.cli.session import Session
from regraft.encoders import IMAGE_DEFAULT, TEXT_DEFAULT

if TYPE_CHECKING:
    from regraft.data.banks import Bank
    from regraft.encoders.embedding import Embedding

group = make_group("embed", "Make a bank of features from images or texts.")

Out = Annotated[Path, path_option("Folder for the bank.")]
# What a finished bank is known by, beside labels and domains.
_COMPARED = {"images": "images of the same names and sizes", "texts": "the same texts"}


# A bank says itself what it was made of, by what and from what: it needs no provenance.
@command("images", group=group, resumes=True, traced=False, loading="loading torch")
def images_command(
    session: Session,
    images: Annotated[
        Path,
        path_argument(
            "A folder in the layout domain/class/file, or a .csv file of paths, labels and domains."
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
    on_broken: Annotated[
        str, choice("At an image that cannot be read: stop or skip.", "stop", "skip")
    ] = "stop",
    path: Annotated[str, typer.Option(help="Column of paths.")] = "path",
    label: Label = "label",
    domain: Domain = "domain",
    device: Device = "cpu",
) -> None:
    """Make a bank of features from images.

    Stopped at any moment, it goes on from there when the same command is run again.
    """
    columns = {"image": path, "label": label, "domain": domain}
    loading = {"device": device, "weights": weights}
    _embed(session, "images", images, out, encoder, loading, on_broken=on_broken, **columns)


@command("text", group=group, resumes=True, traced=False, loading="loading torch")
def text_command(
    session: Session,
    table: Annotated[
        Path, path_argument("A .csv or .jsonl file, which may be gzipped, or a .parquet file.")
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
    text: Annotated[str, typer.Option(help="Column of texts.")] = "text",
    label: Label = "label",
    domain: Domain = "domain",
) -> None:
    """Make a bank of features from the texts of a table.

    Stopped at any moment, it goes on from there when the same command is run again.
    """
    columns = {"text": text, "label": label, "domain": domain}
    _embed(session, "texts", table, out, encoder, {"device": device}, **columns)


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
    **options: Any,
) -> None:
    """Make a bank of the ``inputs``, images or texts, in ``source``, and show it."""
    from regraft import encoders
    from regraft.data.banks import check_place
    from regraft.data.image_folders import check_source
    from regraft.data.table_rows import check_table
    from regraft.encoders.embedding import embed_images, embed_texts

    check, load, embed = (
        (check_source, encoders.load_image_encoder, embed_images)
        if inputs == "images"
        else (check_table, encoders.load_text_encoder, embed_texts)
    )
    check(source)
    check_place(out)
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
    shares = _count_by_domain(bank)
    rows = [(name, f"{each['rows']}", f"{each['classes']}") for name, each in shares.items()]
    total = ("all", f"{len(bank.X)}", f"{len(set(bank.y.tolist()))}")
    session.table(("domain", "rows", "classes"), rows, [total])
    if bank.n_skipped:
        session.say(f"Left out: {bank.n_skipped} broken, the first of them in {DESCRIPTION}.")
    document = _describe(bank) | {"was_there": embedding.was_there}
    session.finish(document, [bank.folder / name for name in (DESCRIPTION, ARRAYS, INPUTS)])
    session.say(
        f"Bank: {bank.folder} ({len(bank.X)} rows of {bank.X.shape[1]} features, {bank.encoder})",
        f"Next: regraft fit {quote(str(bank.folder))} --out model",
    )


def _count_by_domain(bank: Bank) -> dict[str, dict[str, int]]:
    """Count the rows and the classes of every domain."""
    shares = {}
    for i, name in enumerate(bank.domains):
        labels = bank.y[bank.domain == i].tolist()
        shares[str(name)] = {"rows": len(labels), "classes": len(set(labels))}
    return shares


def _describe(bank: Bank) -> dict[str, Any]:
    return {
        "bank": str(bank.folder),
        "rows": len(bank.X),
        "features": bank.X.shape[1],
        "classes": list(bank.classes),
        "domains": _count_by_domain(bank),
        "encoder": {"name": bank.encoder, "fingerprint": bank.fingerprint},
        "skipped": bank.n_skipped,
        "checksums": {"features": bank.checksum, "inputs": bank.inputs_checksum},
    }
