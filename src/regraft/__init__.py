"""Regraft: classifiers that hold in domains nobody has data from."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regraft._version import __version__

if TYPE_CHECKING:
    from regraft.auditing import AuditCurve, Frontier, audit, frontier
    from regraft.banks import Bank, open_bank, write_bank
    from regraft.baselines import ERMClassifier, GroupDROClassifier, IRMClassifier, VRExClassifier
    from regraft.certificate import Certificate
    from regraft.comparison import Comparison, compare
    from regraft.datasets import load_demo, make_confounded_domains
    from regraft.diagnostics.diagnose import Diagnosis, diagnose
    from regraft.estimator import CROClassifier
    from regraft.factorization import Factorization, fit_observed
    from regraft.latent import LatentFit, fit_latent
    from regraft.literal import LiteralCROClassifier
    from regraft.persistence import load, save

__all__ = [
    "AuditCurve",
    "Bank",
    "CROClassifier",
    "Certificate",
    "Comparison",
    "Diagnosis",
    "ERMClassifier",
    "Factorization",
    "Frontier",
    "GroupDROClassifier",
    "IRMClassifier",
    "LatentFit",
    "LiteralCROClassifier",
    "VRExClassifier",
    "__version__",
    "audit",
    "compare",
    "diagnose",
    "fit_latent",
    "fit_observed",
    "frontier",
    "load",
    "load_demo",
    "make_confounded_domains",
    "open_bank",
    "save",
    "write_bank",
]

# Imported at first use: torch takes seconds, which `regraft --help` need not wait for.
_HOMES = {
    "auditing": ("AuditCurve", "Frontier", "audit", "frontier"),
    "banks": ("Bank", "open_bank", "write_bank"),
    "baselines": ("ERMClassifier", "GroupDROClassifier", "IRMClassifier", "VRExClassifier"),
    "certificate": ("Certificate",),
    "comparison": ("Comparison", "compare"),
    "datasets": ("load_demo", "make_confounded_domains"),
    "diagnostics.diagnose": ("Diagnosis", "diagnose"),
    "estimator": ("CROClassifier",),
    "factorization": ("Factorization", "fit_observed"),
    "latent": ("LatentFit", "fit_latent"),
    "literal": ("LiteralCROClassifier",),
    "persistence": ("load", "save"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"regraft.{module}"), name)
    raise AttributeError(f"module 'regraft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
