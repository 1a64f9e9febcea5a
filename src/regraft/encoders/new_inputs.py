"""New images and texts for a fitted model: its encoder, loaded again, makes their features."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regraft import encoders
from regraft.data.banks import is_bank, is_unfinished
from regraft.data.columns import Role
from regraft.data.image_folders import holds_images, is_image_name
from regraft.data.row_files import refuse_parts
from regraft.data.table_rows import read_names
from regraft.data.text_inputs import is_plain
from regraft.encoders.base import ImageEncoder, TextEncoder
from regraft.encoders.embedding import Embedding, embed_images, embed_texts
from regraft.support.progress import OnCount

if TYPE_CHECKING:
    from regraft.estimators.encoder_record import EncoderRecord
    from regraft.estimators.linear import SoftmaxHead

_COLUMNS = {"images": "path", "texts": "text"}  # options, and their defaults


@dataclass(frozen=True)
class NewInputs:
    """Where new images or texts are, and how their features are made.

    Attributes
    ----------
    source : Path
        A folder of images, an image, a table, or a .txt file of one text a line.
    text, path : str
        The columns of texts and of paths in a table.
    encoder : str or None
        The name of the encoder, if not the one that the model recorded.
    weights : Path or None
        Its file of weights.
    device : str
        Where it computes.
    on_broken : str
        What to do at an image that cannot be read: stop or skip.
    """

    source: Path
    text: str = "text"
    path: str = "path"
    encoder: str | None = None
    weights: Path | None = None
    device: str = "cpu"
    on_broken: str = "stop"

    def column(self, kind: str) -> str:
        """Return the column of the images or texts in a table."""
        return self.path if kind == "images" else self.text

    def find_kind(self, model: SoftmaxHead) -> str | None:
        """Return what has to be encoded for the model: images or texts; None for features.

        Raises ``ValueError`` with one sentence if the model cannot take what is there.
        """
        record: EncoderRecord | None = getattr(model, "encoder_", None)
        kind = _kind_by_name(self.source)
        if kind is None:
            return None if record is None else self._kind_of_table(model, record)
        if record is None and self.source.is_dir() and not holds_images(self.source):
            raise ValueError(
                f"{self.source} is a folder without a bank and without images: pass a table or a "
                "bank with the features that the model was fitted on."
            )
        if record is None:
            raise ValueError(
                f"{self.source} holds {kind}, but the model was fitted on plain features, so that "
                "its encoder is not known: pass a table or a bank with the same features."
            )
        if record.kind in _COLUMNS and record.kind != kind:
            raise ValueError(
                f"{self.source} holds {kind}, but the model was fitted on {record.kind}: pass "
                "some of those."
            )
        return kind

    def _kind_of_table(self, model: SoftmaxHead, record: EncoderRecord) -> str | None:
        """Tell a table of texts or paths from one of features, which has a column for each."""
        source = self.source
        kind = record.kind if record.kind in _COLUMNS else "texts"
        if is_bank(source) or is_unfinished(source) or source.suffix.lower() == ".npz":
            return None
        names, column, option = read_names(source), self.column(kind), _COLUMNS[kind]
        if column == option and column not in names and len(names) >= model.n_features_in_:
            return None
        Role(column, option).find(source, names)
        return kind

    def load_encoder(self, record: EncoderRecord, kind: str) -> ImageEncoder | TextEncoder:
        """Load the encoder that a model recorded; refuse one with other weights.

        Raises ``ValueError`` or ``FileNotFoundError`` with one sentence.
        """
        if self.encoder is None and record.kind == "arrays":
            raise ValueError(
                f"the model was fitted on arrays that {record.name} made outside of regraft: make "
                "features of the new inputs in the same way, and pass those."
            )
        if self.weights is None and record.weights:
            raise ValueError(
                f"the features of the model were made with the weights in {record.weights}: pass "
                "that file with --weights."
            )
        name = self.encoder or record.name
        loaded: ImageEncoder | TextEncoder
        if kind == "images":
            loaded = encoders.load_image_encoder(name, device=self.device, weights=self.weights)
        else:
            if self.weights is not None:
                raise ValueError("--weights is for images: name a folder with --encoder for texts.")
            loaded = encoders.load_text_encoder(name, device=self.device)
        if loaded.fingerprint != record.fingerprint:
            raise ValueError(
                f"{name} has other weights here than the encoder {record.name} that made the "
                "features of the model: pass the same ones with "
                f"{'--weights' if kind == 'images' else '--encoder'}."
            )
        if record.preprocessing not in (None, _plain(loaded.preprocessing)):
            raise ValueError(
                f"{name} prepares {kind} in another way here than when the features of the model "
                "were made: install the version of regraft or of its library of then."
            )
        return loaded

    def embed(self, encoder: ImageEncoder | TextEncoder, out: Path, on_count: OnCount) -> Embedding:
        """Make a bank of the new inputs, without labels and domains, or go on with it."""
        options: dict[str, Any] = {"label": None, "domain": None, "on_count": on_count}
        if isinstance(encoder, ImageEncoder):
            return embed_images(
                self.source, encoder, out, image=self.path, on_broken=self.on_broken, **options
            )
        return embed_texts(self.source, encoder, out, text=self.text, **options)


def _kind_by_name(source: Path) -> str | None:
    """Return images or texts for what can be nothing else; None for tables and banks.

    Raises ``TableError`` for a table in parts.
    """
    if source.is_dir():
        if is_bank(source) or is_unfinished(source):
            return None
        refuse_parts(source)
        return "images"
    if is_image_name(source.name):
        return "images"
    return "texts" if is_plain(source) else None


def _plain(document: Any) -> Any:
    """Return lists for tuples, as files have them."""
    return json.loads(json.dumps(dict(document)))
