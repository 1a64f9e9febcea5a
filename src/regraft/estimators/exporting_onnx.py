"""Exported models as ONNX graphs, in double precision."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR = 19, 9  # the first in which texts can be compared
_LABELS = {bool: TensorProto.BOOL, int: TensorProto.INT64, float: TensorProto.DOUBLE}


@dataclass(frozen=True)
class _Cell:
    """A part of a term: a number, or 1 where a raw cell is ``value``."""

    term: int
    column: int  # of the inputs of its type
    value: Any = None
    center: float = 0.0


class _Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, values: Any) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.asarray(values)
        if array.dtype.kind in "OU":
            texts: Any = [str(text).encode() for text in array.ravel()]
            tensor = helper.make_tensor(name, TensorProto.STRING, array.shape, texts)
        else:
            tensor = numpy_helper.from_array(array, name)
        self.constants.append(tensor)
        return name

    def add(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        output = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output


def make_onnx(document: dict[str, Any]) -> bytes:
    """Return an ONNX model with the outputs label (n,) and probabilities (n, C)."""
    graph = _Graph()
    inputs, numbers, texts, place = _read_inputs(graph, document)
    units, order = _encode(graph, document, numbers, texts, place)
    logits = _apply_head(graph, document["head"], units, order)
    graph.add("Softmax", logits, name="probabilities", axis=1)
    best = graph.add("ArgMax", "probabilities", axis=1, keepdims=0)
    classes = document["classes"]
    kind = _LABELS.get(type(classes[0]), TensorProto.STRING)
    graph.add("Gather", graph.constant(classes), best, name="label", axis=0)
    outputs = [
        helper.make_tensor_value_info("label", kind, ["rows"]),
        helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, ["rows", len(classes)]),
    ]
    body = helper.make_graph(graph.nodes, "regraft", inputs, outputs, graph.constants)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
    model.producer_name = "regraft"
    about = document["about"]
    facts = {key: value for key, value in about.items() if key not in ("card", "made_by")}
    texts_of = {"card": about["card"], "made_by": about["made_by"], "classes": json.dumps(classes)}
    helper.set_model_props(
        model, texts_of | {key: json.dumps(value) for key, value in facts.items()}
    )
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _read_inputs(
    graph: _Graph, document: dict[str, Any]
) -> tuple[list[onnx.ValueInfoProto], str, str, list[tuple[bool, int]]]:
    """Return the inputs, the names of the joined numbers and texts, and where each column is."""
    columns = document["columns"]
    if document["layout"] == "matrix":
        shape: list[str | int | None] = ["rows", len(columns)]
        whole = helper.make_tensor_value_info("X", TensorProto.DOUBLE, shape)
        return [whole], "X", "", [(False, j) for j in range(len(columns))]
    names: dict[bool, list[str]] = {False: [], True: []}
    inputs, place = [], []
    for column in columns:
        text = column["kind"] == "category"
        place.append((text, len(names[text])))
        names[text].append(column["name"])
        kind = TensorProto.STRING if text else TensorProto.DOUBLE
        inputs.append(helper.make_tensor_value_info(column["name"], kind, ["rows", 1]))
    joined = [graph.add("Concat", *names[text], axis=1) if names[text] else "" for text in names]
    return inputs, joined[0], joined[1], place


def _encode(
    graph: _Graph,
    document: dict[str, Any],
    numbers: str,
    texts: str,
    place: Sequence[tuple[bool, int]],
) -> tuple[str, NDArray[np.int64]]:
    """Return parts of terms (n, k), centred and scaled, and the term of each."""
    terms = document["terms"]
    cells: dict[str, list[_Cell]] = {"number": [], "gap": [], "text": []}
    for t, term in enumerate(terms):
        text, column = place[term["column"]]
        center = term["center"]
        if term["kind"] == "number":
            cells["number"].append(_Cell(t, column, term["if_missing"], center))
            continue
        if not text:
            cells["gap"].append(_Cell(t, column, None, center))
            continue
        for i, value in enumerate([*term["values"], *([""] if term["missing"] else [])]):
            # One part carries the center of its term.
            cells["text"].append(_Cell(t, column, value, 0.0 if i else center))
    parts = [
        _MAKERS[kind](graph, texts if kind == "text" else numbers, found)
        for kind, found in cells.items()
        if found
    ]
    order = [cell for found in cells.values() for cell in found]
    units = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)
    centers = np.array([[cell.center for cell in order]])
    scales = np.array([[terms[cell.term]["scale"] for cell in order]])
    if centers.any():
        units = graph.add("Sub", units, graph.constant(centers))
    if (scales != 1).any():
        units = graph.add("Div", units, graph.constant(scales))
    return units, np.array([cell.term for cell in order], dtype=np.int64)


def _pick(graph: _Graph, source: str, cells: Sequence[_Cell]) -> str:
    columns = np.array([cell.column for cell in cells], dtype=np.int64)
    return graph.add("Gather", source, graph.constant(columns), axis=1)


def _make_numbers(graph: _Graph, source: str, cells: Sequence[_Cell]) -> str:
    picked = _pick(graph, source, cells)
    if all(cell.value is None for cell in cells):
        return picked
    fills = np.array([[np.nan if cell.value is None else cell.value for cell in cells]], float)
    return graph.add("Where", graph.add("IsNaN", picked), graph.constant(fills), picked)


def _make_gaps(graph: _Graph, source: str, cells: Sequence[_Cell]) -> str:
    missing = graph.add("IsNaN", _pick(graph, source, cells))
    return graph.add("Cast", missing, to=TensorProto.DOUBLE)


def _make_matches(graph: _Graph, source: str, cells: Sequence[_Cell]) -> str:
    wanted = graph.constant(np.array([[cell.value for cell in cells]], dtype=object))
    equal = graph.add("Equal", _pick(graph, source, cells), wanted)
    return graph.add("Cast", equal, to=TensorProto.DOUBLE)


_MAKERS = {"number": _make_numbers, "gap": _make_gaps, "text": _make_matches}


def _apply_head(graph: _Graph, head: dict[str, Any], units: str, order: NDArray[np.int64]) -> str:
    """Return the logits (n, C)."""

    def linear(parts: Sequence[dict[str, Any]]) -> str:
        weights = np.concatenate([np.array(part["weights"], float)[:, order] for part in parts])
        intercepts = np.concatenate([np.array(part["intercepts"], float) for part in parts])
        product = graph.add("MatMul", units, graph.constant(np.ascontiguousarray(weights.T)))
        return graph.add("Add", product, graph.constant(intercepts))

    groups, correction = head["groups"], head["correction"]
    logits = linear(groups)
    if len(groups) > 1:
        C = len(groups[0]["intercepts"])
        shape = graph.constant(np.array([-1, len(groups), C]))
        axes = graph.constant(np.array([1]))
        apart = graph.add("Reshape", logits, shape)
        logits = graph.add("ReduceLogSumExp", apart, axes, keepdims=0)
    if correction is None:
        return logits
    base = graph.add("LogSoftmax", logits, axis=1)
    mix = graph.constant(np.array(correction["log_probabilities"]).T.copy())
    return graph.add("Add", graph.add("MatMul", base, mix), linear([correction]))
