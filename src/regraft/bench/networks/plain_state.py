"""State of an object that nobody wrote for us, as named tensors: no pickle is needed."""

from __future__ import annotations

import json
import types
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_PLAIN = "plain"  # name of the tensor that holds all but tensors, as JSON
_TENSOR = "tensor."
_SCALARS = (bool, int, float, str, type(None))
_CONSTANTS = (
    *(types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType, type),
    *(torch.device, torch.dtype, partial, bytes, range, np.dtype),
)
_KEPT: list[Any] = ["kept"]  # what making the object anew gives


@dataclass(frozen=True)
class PlainState:
    """Tensors by name, and a document that says where they and plain values belong."""

    tensors: Mapping[str, Tensor]
    document: Any
    holders: frozenset[str]  # places of the modules, optimizers and other objects inside

    @classmethod
    def of(cls, value: nn.Module) -> PlainState | None:
        """Read the state of ``value``; None if it holds something that cannot be written down."""
        reader = _StateReader()
        try:
            document = reader.read(value, "")
        except TypeError:
            return None
        return cls(reader.tensors, document, frozenset(reader.holders))

    def restore(self, value: nn.Module, device: torch.device) -> None:
        """Give ``value``, which was made in the same way, this state."""
        with torch.no_grad():
            _StateWriter(self.tensors, device).write(value, self.document)


def pack(state: PlainState) -> dict[str, Tensor]:
    """Return all of it as named tensors."""
    text = json.dumps([state.document, sorted(state.holders)]).encode()
    tensors = {f"{_TENSOR}{name}": tensor for name, tensor in state.tensors.items()}
    return tensors | {_PLAIN: torch.frombuffer(bytearray(text), dtype=torch.uint8)}


def unpack(tensors: Mapping[str, Tensor]) -> PlainState:
    """Read what ``pack`` returned."""
    document, holders = json.loads(tensors[_PLAIN].numpy().tobytes())
    named = {
        name.removeprefix(_TENSOR): tensor
        for name, tensor in tensors.items()
        if name.startswith(_TENSOR)
    }
    return PlainState(named, document, frozenset(holders))


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Return what a module has beside its parameters, buffers, modules and hooks."""
    machinery = vars(nn.Module())
    return {name: value for name, value in vars(module).items() if name not in machinery}


class _StateReader:
    """Turns values into a document, and collects their tensors."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.holders: set[str] = set()
        self._seen: dict[int, Any] = {}  # each is read once, also if it holds itself

    def read(self, value: Any, place: str) -> list[Any]:
        """Describe ``value``; raise ``TypeError`` if that is not possible."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, _SCALARS):
            return ["value", value]
        if isinstance(value, Tensor | np.ndarray):
            name = str(len(self.tensors))
            self.tensors[name] = torch.as_tensor(value).detach()
            return ["array" if isinstance(value, np.ndarray) else "tensor", name]
        if isinstance(value, tuple):
            return ["tuple", [self.read(each, f"{place}/{i}") for i, each in enumerate(value)]]
        if isinstance(value, _CONSTANTS) or id(value) in self._seen:
            return _KEPT
        self._seen[id(value)] = value
        return self._read_container(value, place)

    def _read_container(self, value: Any, place: str) -> list[Any]:
        if isinstance(value, list | deque):
            return ["list", [self.read(each, f"{place}/{i}") for i, each in enumerate(value)]]
        if isinstance(value, dict):
            if not all(isinstance(key, _SCALARS) for key in value):
                raise TypeError("keys that JSON does not have")
            return ["dict", [[key, self.read(v, f"{place}/{key}")] for key, v in value.items()]]
        self.holders.add(place)
        if isinstance(value, nn.Module):
            tensors: dict[str, Tensor] = dict(value.named_buffers(recurse=False))
            tensors |= dict(value.named_parameters(recurse=False))
            parts = (tensors, dict(value.named_children()), _attributes(value))
            return ["module", *(self.read(part, place)[1] for part in parts)]
        if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
            return ["stateful", self.read(value.state_dict(), place)]
        if not hasattr(value, "__dict__"):
            raise TypeError(f"a {type(value).__name__}")
        return ["object", self.read(vars(value), place)[1]]


class _StateWriter:
    """Gives values what a document says of them."""

    def __init__(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        self._tensors, self._device = tensors, device

    def write(self, present: Any, document: list[Any]) -> Any:
        """Return what belongs in the place of ``present``, which is changed where it can be."""
        kind, *content = document
        if kind == "kept":
            return present
        if kind == "value":
            return content[0]
        if kind == "array":
            return self._tensors[content[0]].numpy().copy()
        if kind == "tensor":
            return self._write_tensor(present, self._tensors[content[0]])
        if kind in ("list", "tuple"):
            return self._write_list(present, kind, content[0])
        if kind == "dict":
            return self._write_dict(present, content[0])
        if kind == "module":
            tensors, children, attributes = content
            for name, each in (*tensors, *children, *attributes):
                setattr(present, name, self.write(getattr(present, name, None), each))
        elif kind == "stateful":
            # It brings tensors to their device itself, those that belong there.
            own = _StateWriter(self._tensors, torch.device("cpu"))
            present.load_state_dict(own.write(None, content[0]))
        else:
            self._write_dict(vars(present), content[0])
        return present

    def _write_tensor(self, present: Any, value: Tensor) -> Tensor:
        # In place, for optimizers know parameters by themselves and not by their names.
        if isinstance(present, Tensor) and present.shape == value.shape:
            return present.copy_(value)
        return value.to(self._device, copy=True)

    def _write_list(self, present: Any, kind: str, content: list[Any]) -> Any:
        before = list(present) if isinstance(present, list | tuple | deque) else []
        before += [None] * (len(content) - len(before))
        made = [self.write(*each) for each in zip(before, content, strict=False)]
        if isinstance(present, list | deque):
            present.clear()
            present.extend(made)
            return present
        return tuple(made) if kind == "tuple" else made

    def _write_dict(self, present: Any, content: list[Any]) -> Any:
        before = dict(present) if isinstance(present, dict) else {}
        made = {key: self.write(before.get(key), each) for key, each in content}
        if not isinstance(present, dict):
            return made
        present.clear()
        present.update(made)
        return present
