"""Embed images and texts into banks, block by block, from where it was stopped."""

from __future__ import annotations

import json
import shutil
import warnings
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from regraft.data.bank_inputs import remember_source
from regraft.data.bank_writer import UNFINISHED, BankWriter, Names, Origin, has_blocks
from regraft.data.banks import Bank, claim_place, is_bank, open_bank
from regraft.data.image_inputs import ImageInputs
from regraft.data.input_blocks import InputSource, Survey
from regraft.data.text_inputs import TextInputs
from regraft.encoders.encoded_blocks import RayWorkers, encode_blocks
from regraft.support.files import remove_unfinished, write_text
from regraft.support.json_files import load_json
from regraft.support.plurals import count
from regraft.support.progress import OnCount
from regraft.support.reading import read_file

if TYPE_CHECKING:
    from regraft.encoders.base import Encoder, ImageEncoder, TextEncoder

T = TypeVar("T")
_SETTINGS = "settings.json"


@dataclass(frozen=True)
class Embedding:
    """A finished bank."""

    bank: Bank
    was_there: bool  # finished before, so that nothing was computed


def embed_images(
    path: str | Path,
    encoder: ImageEncoder,
    out: str | Path,
    *,
    on_broken: str = "stop",
    on_count: OnCount | None = None,
    image: str = "path",
    label: str | None = "label",
    domain: str | None = "domain",
    workers: RayWorkers | None = None,
) -> Embedding:
    """Make a bank in the folder ``out`` of the images in ``path``, or go on with it.

    ``path`` is a folder in the layout domain/class/file or a .csv file with the columns ``image``,
    ``label`` and ``domain``. If one of the latter two is None, the bank has no labels, or no
    domains, and a folder may have any layout; such a bank has neither. ``path`` may also be one
    image. A broken image stops the loop, or with ``on_broken="skip"`` is left out with a warning.
    With ``workers``, images are read and encoded on a Ray cluster, whose machines must see them
    under the same path. Raises ``ValueError`` or ``FileNotFoundError`` with one sentence.
    """
    path, out = Path(path), Path(out)
    source = ImageInputs(
        path, encoder.pixels, image=image, label=label, domain=domain, on_broken=on_broken
    )
    if path.is_dir() and out.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"{out} lies in the folder of images {path}: choose one outside it.")
    embedding = _embed(source, encoder, out, on_count, workers)
    remember_source(out, path, image)
    return embedding


def embed_texts(
    path: str | Path,
    encoder: TextEncoder,
    out: str | Path,
    *,
    text: str = "text",
    label: str | None = "label",
    domain: str | None = "domain",
    on_count: OnCount | None = None,
    workers: RayWorkers | None = None,
) -> Embedding:
    """Make a bank in the folder ``out`` of the texts in a table, or go on with it.

    ``path`` is a .csv, .jsonl (both also .gz) or .parquet file with the columns ``text``,
    ``label`` and ``domain``; the bank has no labels, or no domains, if one of the latter two is
    None. The lines of a .txt file have neither. With ``workers``, texts are encoded on a Ray
    cluster. Raises ``ValueError`` or ``FileNotFoundError`` with one sentence.
    """
    path, out = Path(path), Path(out)
    block_rows = encoder.block_rows
    source = TextInputs(path, text=text, label=label, domain=domain, block_rows=block_rows)
    embedding = _embed(source, encoder, out, on_count, workers)
    remember_source(out, path, text)
    return embedding


def _embed(
    source: InputSource[T],
    encoder: Encoder[T],
    out: Path,
    on_count: OnCount | None,
    workers: RayWorkers | None,
) -> Embedding:
    with claim_place(out):
        work = out / UNFINISHED
        listing = _survey(source, work)
        # Lists for tuples, as in files.
        preprocessing = json.loads(json.dumps(dict(encoder.preprocessing)))
        origin = Origin(
            source.kind,
            encoder.name,
            encoder.fingerprint,
            preprocessing,
            listing.digest,
            encoder.weights,
        )
        if is_bank(out):
            shutil.rmtree(work)
            bank = open_bank(out)
            _check_same(out, origin, bank)
            _check_skipped(out, source, bank.n_skipped)
            return Embedding(bank, was_there=True)
        _enter(work, out, origin, encoder.device)
        for note in listing.notes:
            warnings.warn(note, stacklevel=3)
        with closing(BankWriter(out, encoder.n_features, listing.columns)) as writer:
            _check_skipped(out, source, writer.n_skipped)
            _loop(source, listing, encoder, writer, work, on_count, workers)
            if writer.rows + writer.n_skipped != listing.rows:
                raise _changed()
            writer.finish(origin, listing.classes, listing.domains)
    return Embedding(open_bank(out), was_there=False)


def _survey(source: InputSource[Any], work: Path) -> Survey:
    """Count the inputs; leave no trace if that fails the first time."""
    if not (work / _SETTINGS).exists():  # what is there was begun by something else
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(exist_ok=True)
    remove_unfinished(work)
    try:
        return source.survey(work)
    except BaseException:
        if not (work / _SETTINGS).exists():
            shutil.rmtree(work)
        raise


def _enter(work: Path, out: Path, origin: Origin, device: str) -> None:
    """Refuse to continue what was begun with other settings, or on another kind of device."""
    path = work / _SETTINGS
    if not has_blocks(work):  # a broken input, which was repaired since, may have come first
        write_text(path, json.dumps({"settings": asdict(origin), "device": device}))
        return
    try:
        document = load_json(read_file(path))
        begun, begun_on = Origin(**document["settings"]), document["device"]
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{path} is damaged: delete {out} and run the same command again."
        ) from None
    _check_same(out, origin, begun)
    if device != begun_on:
        raise ValueError(
            f"{out} was begun with --device {begun_on}: pass that, or choose another folder with "
            "--out."
        )


def _loop(
    source: InputSource[T],
    listing: Survey,
    encoder: Encoder[T],
    writer: BankWriter,
    work: Path,
    on_count: OnCount | None,
    workers: RayWorkers | None,
) -> None:
    label_of, domain_of = (_numbered(names) for names in (listing.classes, listing.domains))

    def report() -> None:
        if on_count is not None:
            on_count(writer.rows + writer.n_skipped, listing.rows)

    report()
    first = writer.rows + writer.n_skipped
    with closing(encode_blocks(source, encoder, work, first, workers)) as blocks:
        for block in blocks:
            tags = ((label_of, block.labels), (domain_of, block.domains))
            try:
                numbers = [
                    np.array([index[name] for name in names], np.int64)
                    for index, names in tags
                    if index
                ]
            except KeyError:
                raise _changed() from None
            writer.append(block.content, numbers, block.inputs, block.skipped)
            report()


def _numbered(names: Names) -> dict[str | None, int]:
    """Number the names of classes or domains; empty if the inputs have none."""
    return {str(name): i for i, name in enumerate(names or ())}


def _check_same(out: Path, asked: Origin, there: Origin) -> None:
    """Raise ``ValueError`` with one sentence at the first setting that differs."""
    way_out = "or choose another folder with --out."
    sentences = {
        "kind": f"a bank of {there.kind}: choose another folder with --out.",
        "encoder": f"features of the encoder {there.encoder}: pass that with --encoder, {way_out}",
        "fingerprint": f"features of {there.encoder} with other weights: pass those, {way_out}",
        "preprocessing": f"features of {asked.kind} that were prepared in another way: prepare "
        f"them in that way, {way_out}",
        "listing": f"features of other {asked.kind}, or some were added, removed or changed "
        f"since: restore them, {way_out}",
    }
    for name, sentence in sentences.items():
        if getattr(asked, name) != getattr(there, name):
            raise ValueError(f"{out} holds {sentence}")


def _check_skipped(out: Path, source: InputSource[Any], n_skipped: int) -> None:
    if n_skipped and not source.may_skip:
        raise ValueError(
            f"{out} leaves out {count(n_skipped, f'broken {source.kind}')}: allow that with "
            "--on-broken skip, or choose another folder with --out."
        )


def _changed() -> ValueError:
    return ValueError("the inputs were changed while they were read: run the same command again.")
