"""``regraft embed``: from names to a bank, and what is shown of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from regraft.cli.console import Screen
from regraft.data.bank_format import ARRAYS, DESCRIPTION, INPUTS
from regraft.data.banks import Bank, check_place, open_bank, verify
from regraft.data.image_folders import check_source
from regraft.data.table_rows import check_table
from regraft.encoders import load_image_encoder, load_text_encoder
from regraft.encoders.embedding import Embedding, embed_images, embed_texts
from regraft.support.progress import Meter, OnCount

_TOLD_EVERY = 0.5  # seconds
# What a finished bank is known by, beside labels and domains.
_COMPARED = {"images": "images of the same names and sizes", "texts": "the same texts"}
_LINE_EVERY = 10.0  # seconds between lines where there is no terminal


def run_embed_images(
    screen: Screen,
    path: Path,
    *,
    encoder: str,
    out: Path,
    device: str,
    weights: Path | None,
    on_broken: str,
    image: str,
    label: str,
    domain: str,
) -> None:
    """Make a bank of images and show it; raises errors with one sentence."""
    check_source(path)
    check_place(out)
    with screen.working(f"loading {encoder}"):
        loaded = load_image_encoder(encoder, device=device, weights=weights)

    def embed(tell: OnCount) -> Embedding:
        return embed_images(
            path,
            loaded,
            out,
            image=image,
            label=label,
            domain=domain,
            on_broken=on_broken,
            on_count=tell,
        )

    _run(screen, "images", embed)


def run_embed_texts(
    screen: Screen,
    path: Path,
    *,
    encoder: str,
    out: Path,
    device: str,
    text: str,
    label: str,
    domain: str,
) -> None:
    """Make a bank of texts and show it; raises errors with one sentence."""
    check_table(path)
    check_place(out)
    with screen.working(f"loading {encoder}"):
        loaded = load_text_encoder(encoder, device=device)

    def embed(tell: OnCount) -> Embedding:
        return embed_texts(path, loaded, out, text=text, label=label, domain=domain, on_count=tell)

    _run(screen, "texts", embed)


def run_verify(screen: Screen, folder: Path) -> None:
    """Read a whole bank and say that it is as it was written; raises errors with one sentence."""
    bank = open_bank(folder)
    with screen.working(f"reading {folder}"):
        verify(bank)
    screen.say(f"{folder} is as it was written: {len(bank.X)} rows, sha256 {bank.checksum}.")
    screen.finish(_to_dict(bank), [])


def _run(screen: Screen, name: str, embed: Callable[[OnCount], Embedding]) -> None:
    every = _TOLD_EVERY if screen.is_live else _LINE_EVERY
    with screen.working(f"listing the {name}") as tell:
        embedding = embed(Meter(tell, name, every))
    _show(screen, embedding)


def _show(screen: Screen, embedding: Embedding) -> None:
    bank = embedding.bank
    if embedding.was_there:
        screen.say(f"{bank.folder} is finished already, from {_COMPARED[bank.kind]}.")
    shares = _by_domain(bank)
    rows = [(name, f"{each['rows']}", f"{each['classes']}") for name, each in shares.items()]
    total = ("all", f"{len(bank.X)}", f"{len(np.unique(bank.y))}")
    screen.table(("domain", "rows", "classes"), rows, [total])
    if bank.n_skipped:
        screen.say(f"Left out: {bank.n_skipped} broken, the first of them in {DESCRIPTION}.")
    document = _to_dict(bank) | {"was_there": embedding.was_there}
    files = [bank.folder / name for name in (DESCRIPTION, ARRAYS, INPUTS)]
    # A bank says itself what it was made of, by what and from what: it needs no provenance.
    screen.finish(document, files)
    screen.say(
        f"Bank: {bank.folder} ({len(bank.X)} rows of {bank.X.shape[1]} features, {bank.encoder})",
        f"Next: regraft fit {quote(str(bank.folder))} --out model",
    )


def _by_domain(bank: Bank) -> dict[str, dict[str, int]]:
    shares = {}
    for i, name in enumerate(bank.domains):
        labels = bank.y[bank.domain == i]
        shares[str(name)] = {"rows": len(labels), "classes": len(np.unique(labels))}
    return shares


def _to_dict(bank: Bank) -> dict[str, Any]:
    return {
        "bank": str(bank.folder),
        "rows": len(bank.X),
        "features": bank.X.shape[1],
        "classes": list(bank.classes),
        "domains": _by_domain(bank),
        "encoder": {"name": bank.encoder, "fingerprint": bank.fingerprint},
        "skipped": bank.n_skipped,
        "checksums": {"features": bank.checksum, "inputs": bank.inputs_checksum},
    }
