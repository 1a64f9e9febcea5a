"""Exported models as TorchScript: numbers in, probabilities out."""

from __future__ import annotations

import io
import json
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

ABOUT = "about.json"  # a file inside the archive


class _Probabilities(nn.Module):
    """Class probabilities (n, C) of raw number columns, or of terms if there are categories."""

    column: Tensor
    is_gap: Tensor
    fill: Tensor
    center: Tensor
    scale: Tensor
    weights: Tensor
    intercepts: Tensor
    correction_weights: Tensor
    correction_intercepts: Tensor
    correction_log_probabilities: Tensor

    def __init__(self, document: dict[str, Any], takes_columns: bool) -> None:
        super().__init__()
        terms, head = document["terms"], document["head"]
        self.takes_columns = takes_columns
        self.n_groups, self.n_classes = len(head["groups"]), len(document["classes"])
        self.is_corrected = head["correction"] is not None
        buffers: dict[str, Any] = {
            "column": [term["column"] for term in terms],
            "is_gap": [term["kind"] == "match" for term in terms],
            "fill": [np.nan if (f := term.get("if_missing")) is None else f for term in terms],
            "center": [term["center"] for term in terms],
            "scale": [term["scale"] for term in terms],
            "weights": np.concatenate([group["weights"] for group in head["groups"]]),
            "intercepts": np.concatenate([group["intercepts"] for group in head["groups"]]),
        }
        for name, values in (head["correction"] or {}).items():
            buffers[f"correction_{name}"] = values
        for name, values in buffers.items():
            array = np.asarray(values)
            kept = array if array.dtype.kind in "bi" else array.astype(float)
            self.register_buffer(name, torch.from_numpy(kept.copy()))

    def forward(self, X: Tensor) -> Tensor:
        """Return the probabilities of rows (n, columns or terms)."""
        terms = X.double()
        if self.takes_columns:
            cells = terms[:, self.column]
            gaps = torch.isnan(cells)
            values = torch.where(gaps, self.fill, cells)
            terms = (torch.where(self.is_gap, gaps.double(), values) - self.center) / self.scale
        logits = terms @ self.weights.T + self.intercepts
        logits = torch.logsumexp(logits.reshape(-1, self.n_groups, self.n_classes), dim=1)
        if self.is_corrected:
            moves = terms @ self.correction_weights.T + self.correction_intercepts
            base = torch.log_softmax(logits, dim=1)
            logits = base @ self.correction_log_probabilities.T + moves
        return torch.softmax(logits, dim=1)


def make_torchscript(document: dict[str, Any]) -> bytes:
    """Return a TorchScript archive; ``about.json`` in it says what its input is."""
    columns = [column["name"] for column in document["columns"]]
    takes_columns = all(column["kind"] == "number" for column in document["columns"])
    about = document["about"] | {
        "classes": document["classes"],
        "input": "columns" if takes_columns else "terms",
        "columns": columns,
    }
    if not takes_columns:
        about["terms"] = document["terms"]
    module = _Probabilities(document, takes_columns).eval()
    example = torch.zeros(2, len(columns) if takes_columns else len(document["terms"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch prefers its newer export
        traced = torch.jit.trace(module, example.double())  # type: ignore[no-untyped-call]
        file = io.BytesIO()
        torch.jit.save(traced, file, _extra_files={ABOUT: json.dumps(about)})
    return file.getvalue()
