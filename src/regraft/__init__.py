"""Regraft: classifiers that hold in domains nobody has data from."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regraft._version import __version__

if TYPE_CHECKING:
    from regraft.core.certificate import Certificate
    from regraft.core.group_certificate import GroupCertificate
    from regraft.core.head_certificate import HeadCertificate
    from regraft.core.intervals import Interval
    from regraft.data.banks import Bank, open_bank, write_bank
    from regraft.data.examples import load_demo, make_confounded_domains
    from regraft.data.planting import plant_confounder
    from regraft.estimators.abduction import Abduction, abduct
    from regraft.estimators.adapted import AdaptedClassifier
    from regraft.estimators.adapting import adapt
    from regraft.estimators.audit import AuditCurve, audit
    from regraft.estimators.baselines import (
        ERMClassifier,
        GroupDROClassifier,
        IRMClassifier,
        VRExClassifier,
    )
    from regraft.estimators.card import model_card
    from regraft.estimators.comparison import Comparison, compare
    from regraft.estimators.cro import CROClassifier
    from regraft.estimators.diagnosing import diagnose
    from regraft.estimators.drift import DriftBatch, in_batches, watch
    from regraft.estimators.exporting import export
    from regraft.estimators.free_audit import FreeAudit, audit_free
    from regraft.estimators.frontier import Frontier, frontier
    from regraft.estimators.group_audit import GroupAudit, audit_groups
    from regraft.estimators.group_search import EIILClassifier, JTTClassifier, XRMClassifier
    from regraft.estimators.literal import LiteralCROClassifier
    from regraft.estimators.placing import Placement, place
    from regraft.estimators.saving import load, save
    from regraft.estimators.table_features import TableFeatures
    from regraft.estimators.target_certificate import TargetCertificate
    from regraft.premises.diagnose import Diagnosis
    from regraft.premises.factorization import Factorization, fit_observed
    from regraft.premises.latent_groups import LatentFit, fit_latent

__all__ = [
    "Abduction",
    "AdaptedClassifier",
    "AuditCurve",
    "Bank",
    "CROClassifier",
    "Certificate",
    "Comparison",
    "Diagnosis",
    "DriftBatch",
    "EIILClassifier",
    "ERMClassifier",
    "Factorization",
    "FreeAudit",
    "Frontier",
    "GroupAudit",
    "GroupCertificate",
    "GroupDROClassifier",
    "HeadCertificate",
    "IRMClassifier",
    "Interval",
    "JTTClassifier",
    "LatentFit",
    "LiteralCROClassifier",
    "Placement",
    "TableFeatures",
    "TargetCertificate",
    "VRExClassifier",
    "XRMClassifier",
    "__version__",
    "abduct",
    "adapt",
    "audit",
    "audit_free",
    "audit_groups",
    "compare",
    "diagnose",
    "export",
    "fit_latent",
    "fit_observed",
    "frontier",
    "in_batches",
    "load",
    "load_demo",
    "make_confounded_domains",
    "model_card",
    "open_bank",
    "place",
    "plant_confounder",
    "save",
    "watch",
    "write_bank",
]

# Imported at first use: torch takes seconds, which `regraft --help` need not wait for.
_HOMES = {
    "estimators.abduction": ("Abduction", "abduct"),
    "estimators.adapted": ("AdaptedClassifier",),
    "estimators.adapting": ("adapt",),
    "estimators.audit": ("AuditCurve", "audit"),
    "estimators.drift": ("DriftBatch", "in_batches", "watch"),
    "estimators.exporting": ("export",),
    "estimators.free_audit": ("FreeAudit", "audit_free"),
    "estimators.frontier": ("Frontier", "frontier"),
    "estimators.group_audit": ("GroupAudit", "audit_groups"),
    "data.banks": ("Bank", "open_bank", "write_bank"),
    "estimators.baselines": (
        "ERMClassifier",
        "GroupDROClassifier",
        "IRMClassifier",
        "VRExClassifier",
    ),
    "estimators.group_search": ("EIILClassifier", "JTTClassifier", "XRMClassifier"),
    "core.certificate": ("Certificate",),
    "core.group_certificate": ("GroupCertificate",),
    "core.head_certificate": ("HeadCertificate",),
    "core.intervals": ("Interval",),
    "estimators.card": ("model_card",),
    "estimators.comparison": ("Comparison", "compare"),
    "data.examples": ("load_demo", "make_confounded_domains"),
    "data.planting": ("plant_confounder",),
    "estimators.diagnosing": ("diagnose",),
    "premises.diagnose": ("Diagnosis",),
    "estimators.cro": ("CROClassifier",),
    "premises.factorization": ("Factorization", "fit_observed"),
    "premises.latent_groups": ("LatentFit", "fit_latent"),
    "estimators.literal": ("LiteralCROClassifier",),
    "estimators.placing": ("Placement", "place"),
    "estimators.saving": ("load", "save"),
    "estimators.table_features": ("TableFeatures",),
    "estimators.target_certificate": ("TargetCertificate",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"regraft.{module}"), name)
    raise AttributeError(f"module 'regraft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
