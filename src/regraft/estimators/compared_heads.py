"""Heads that a comparison puts side by side, solved on shared source heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

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
from regraft.estimators.group_search import EIILClassifier, JTTClassifier, XRMClassifier
from regraft.estimators.linear import LinearHead

ERM = "ERM"
CRO_DEFAULTS, CRO_HULL = "CRO (defaults)", "CRO hull"
RADII = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)

_Part = TypeVar("_Part", bound=Any)


@dataclass(frozen=True)
class ComparedHead:
    """Head to compare."""

    name: str
    model: LinearHead  # not fitted: the class and its settings
    radius: float | None = None  # for heads of the sweep over the radius, None for the others

    def settings(self) -> dict[str, Any]:
        """Return the class and its settings as plain data."""
        return {"head": type(self.model).__name__, "settings": self.model.get_params()}


def compared_heads(radii: Sequence[float] = RADII, device: str = "cpu") -> tuple[ComparedHead, ...]:
    """Return the baselines and CRO at their defaults, then CRO's hull at each sorted radius.

    An invalid radius raises ``ValueError``.
    """
    steps = sorted({float(radius) for radius in radii})
    for radius in steps:
        check_radius(radius)
    return (
        ComparedHead(ERM, ERMClassifier()),
        ComparedHead("GroupDRO", GroupDROClassifier()),
        ComparedHead("V-REx", VRExClassifier()),
        ComparedHead("IRM", IRMClassifier()),
        ComparedHead("JTT", JTTClassifier()),
        ComparedHead("EIIL", EIILClassifier()),
        ComparedHead("XRM", XRMClassifier()),
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
