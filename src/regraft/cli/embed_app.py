"""The command line's part for banks of features: ``regraft embed images | text | verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regraft.cli.console import Screen
from regraft.cli.options import Device, Domain, Json, Label, Quiet, among, app, command
from regraft.encoders import IMAGE_DEFAULT, TEXT_DEFAULT

# The library is imported inside the commands, so that --help does not wait for torch.

embed = typer.Typer(
    help="Make a bank of features from images or texts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(embed, name="embed")

Bank = Annotated[Path, typer.Option(help="Folder for the bank.", readable=False)]


@command("images", group=embed, resumes=True)
def embed_images(
    images: Annotated[
        Path,
        typer.Argument(
            help="A folder in the layout domain/class/file, or a .csv file of paths, labels and "
            "domains.",
            readable=False,
        ),
    ],
    out: Bank,
    encoder: Annotated[
        str,
        typer.Option(
            help="efficientnet_lite0, mnist_cnn, or a name of timm's, timm:NAME.",
            autocompletion=among(IMAGE_DEFAULT, "mnist_cnn", "timm:"),
        ),
    ] = IMAGE_DEFAULT,
    weights: Annotated[
        Path | None,
        typer.Option(help="Safetensors file of the encoder's weights.", readable=False),
    ] = None,
    on_broken: Annotated[
        str,
        typer.Option(
            help="At an image that cannot be read: stop or skip.",
            autocompletion=among("stop", "skip"),
        ),
    ] = "stop",
    path: Annotated[str, typer.Option(help="Column of paths.")] = "path",
    label: Label = "label",
    domain: Domain = "domain",
    device: Device = "cpu",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a bank of features from images.

    Stopped at any moment, it goes on from there when the same command is run again.
    """
    screen = Screen(as_json, quiet)
    with screen.working("loading torch"):
        from regraft.cli.embed import run_embed_images

    run_embed_images(
        screen,
        images,
        encoder=encoder,
        out=out,
        device=device,
        weights=weights,
        on_broken=on_broken,
        image=path,
        label=label,
        domain=domain,
    )


@command("text", group=embed, resumes=True)
def embed_text(
    table: Annotated[
        Path,
        typer.Argument(
            help="A .csv or .jsonl file, which may be gzipped, or a .parquet file.", readable=False
        ),
    ],
    out: Bank,
    encoder: Annotated[
        str,
        typer.Option(
            help="minilm, hashed, sentence-transformers:NAME or transformers:NAME.",
            autocompletion=among(TEXT_DEFAULT, "hashed", "sentence-transformers:", "transformers:"),
        ),
    ] = TEXT_DEFAULT,
    text: Annotated[str, typer.Option(help="Column of texts.")] = "text",
    label: Label = "label",
    domain: Domain = "domain",
    device: Device = "cpu",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a bank of features from the texts of a table.

    Stopped at any moment, it goes on from there when the same command is run again.
    """
    screen = Screen(as_json, quiet)
    with screen.working("loading torch"):
        from regraft.cli.embed import run_embed_texts

    run_embed_texts(
        screen,
        table,
        encoder=encoder,
        out=out,
        device=device,
        text=text,
        label=label,
        domain=domain,
    )


@command("verify", group=embed)
def embed_verify(
    bank: Annotated[Path, typer.Argument(help="A bank of features.", readable=False)],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Read a whole bank and compare it with its checksums."""
    screen = Screen(as_json, quiet)
    from regraft.cli.embed import run_verify

    run_verify(screen, bank)
