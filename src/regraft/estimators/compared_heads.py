"""Heads that a comparison puts side by side, solved on shared source heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from regraft.core.heads import SourceHeads
from regraft.core.hull import check_radius
from regraft.estimators.baselines import (
    ERMClassifier,
    GroupDROClassifier,
    IRMClassifier,
    VRExClassifier,
)
from regraft.estimators.cro import CROClassifier
from regraft.estimators.given_estimators import check_estimators
from regraft.estimators.group_search import EIILClassifier, JTTClassifier, XRMClassifier
from regraft.estimators.linear import LinearHead
from regraft.estimators.parameter_types import sort_numbers

ERM = "ERM"
CRO_DEFAULTS, CRO_HULL = "CRO (defaults)", "CRO hull"

_Part = TypeVar("_Part", bound=Any)


@dataclass(frozen=True)
class ComparedHead:
    """Head to compare."""

    name: str
    model: Any  # not fitted: the class and its settings
    radius: float | None = None  # for heads of the sweep over the radius, None for the others
    is_given: bool = False  # by the user, so that its own fit is called

    def settings(self) -> dict[str, Any]:
        """Return the class and its settings as plain data."""
        if self.is_given:
            return describe_settings(self.model)
        return {"head": type(self.model).__name__, "settings": self.model.get_params()}


def describe_settings(model: Any) -> dict[str, Any]:
    """Return the class of any estimator and its settings as plain data, to tell it from others."""
    kind = type(model)
    return {
        "head": f"{kind.__module__}.{kind.__qualname__}",
        "settings": _describe(model.get_params()),
    }


def _describe(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [[_describe(each), _describe(value[each])] for each in value]
    if isinstance(value, list | tuple):
        return [_describe(each) for each in value]
    if isinstance(value, np.ndarray):
        return _describe(value.tolist())
    return value if isinstance(value, str | int | None) else repr(value)


def compared_heads(
    radii: Sequence[float] = (),
    device: str = "cpu",
    estimators: Mapping[str, Any] | None = None,
) -> tuple[ComparedHead, ...]:
    """Return the baselines, what was given, CRO at its defaults, and its hull at each radius.

    An invalid radius or estimator raises ``ValueError``.
    """
    given = estimators or {}
    check_estimators(given)
    steps = sort_numbers(radii, "radii")
    for radius in steps:
        check_radius(radius)
    heads = (
        ComparedHead(ERM, ERMClassifier()),
        ComparedHead("GroupDRO", GroupDROClassifier()),
        ComparedHead("V-REx", VRExClassifier()),
        ComparedHead("IRM", IRMClassifier()),
        ComparedHead("JTT", JTTClassifier()),
        ComparedHead("EIIL", EIILClassifier()),
        ComparedHead("XRM", XRMClassifier()),
        *(ComparedHead(name, model, is_given=True) for name, model in given.items()),
        ComparedHead(CRO_HULL, CROClassifier("hull", device=device)),
        ComparedHead(CRO_DEFAULTS, CROClassifier(device=device)),
        *(
            ComparedHead(
                f"CRO (radius {radius:.15g})",
                CROClassifier("hull", radius=radius, device=device),
                radius,
            )
            for radius in steps
        ),
    )
    names = [head.name for head in heads]
    for name in given:
        if names.count(name) > 1:
            raise ValueError(f"there is a head called {name} already: give another name.")
    return heads


def solve_on_sources(model: LinearHead, sources: SourceHeads) -> Tensor:
    """Return the head (C, d + 1) on ``[x, 1]`` that ``model.fit`` gets from these source heads.

    Cross-validating the source heads is most of the work of a fit, so heads that share them cost
    little more than one.
    """
    if isinstance(model, CROClassifier):
        head = model.solve(sources)
    else:
        head = model.solve(on_cpu(sources)).to(sources.pooled)
    return sources.whitening.to_features(head)


def on_cpu(sources: SourceHeads) -> SourceHeads:
    """Return the source heads on the CPU, where the baselines compute."""
    return _to_cpu(replace(sources, whitening=_to_cpu(sources.whitening)))


def _to_cpu(part: _Part) -> _Part:
    """Move a dataclass's own tensors to the CPU."""
    tensors = {name: each.cpu() for name, each in vars(part).items() if isinstance(each, Tensor)}
    moved: _Part = replace(part, **tensors)
    return moved
