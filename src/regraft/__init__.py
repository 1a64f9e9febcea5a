"""Regraft: classifiers that hold in domains nobody has data from."""

from regraft._version import __version__
from regraft.audit import AuditCurve, Frontier, audit, frontier
from regraft.baselines import ERMClassifier, GroupDROClassifier, IRMClassifier, VRExClassifier
from regraft.certificate import Certificate
from regraft.datasets import load_demo, make_confounded_domains
from regraft.estimator import CROClassifier
from regraft.persistence import load, save

__all__ = [
    "AuditCurve",
    "CROClassifier",
    "Certificate",
    "ERMClassifier",
    "Frontier",
    "GroupDROClassifier",
    "IRMClassifier",
    "VRExClassifier",
    "__version__",
    "audit",
    "frontier",
    "load",
    "load_demo",
    "make_confounded_domains",
    "save",
]
