"""Names that commands accept, written out so that help and completion need not import torch."""

from __future__ import annotations

CELLS = "-90%", "+90%"  # of the demo
OBJECTIVES = "risk", "regret"
BENCHMARKS = "cmnist", "pacs", "officehome"
PRESETS = "paper", "best"
HEAD_FAMILIES = "latent", "hull", "factorized"  # of CROClassifier
FAMILIES = "latent", "hull", "free"  # of games on trained features
SURROGATES = "reweighted", "relabelled", "transplanted"
EXPORT_FORMATS = "onnx", "sklearn", "torchscript", "json"
ENGINES = "local", "ray", "slurm"
ROW_ENGINES = "local", "ray"  # of commands that read tables in parts
RULES = "training-domain", "leave-one-domain-out", "oracle"
METRICS = "accuracy", "auc", "log_loss", "calibration_error"  # of compare
DRAWN_DATASETS = "Debug28", "Debug224"  # which need no files
DATASETS = (
    *DRAWN_DATASETS,
    *("ColoredMNIST", "RotatedMNIST", "PACS", "VLCS"),
    *("OfficeHome", "TerraIncognita", "DomainNet", "SVIRO", "WILDSCamelyon", "WILDSFMoW"),
    *("SpawriousO2O_easy", "SpawriousO2O_medium", "SpawriousO2O_hard"),
    *("SpawriousM2M_easy", "SpawriousM2M_medium", "SpawriousM2M_hard"),
)
ALGORITHMS = (
    *("ERM", "Fish", "IRM", "GroupDRO", "Mixup", "MLDG", "CORAL", "MMD", "DANN", "CDANN", "MTL"),
    *("SagNet", "ARM", "VREx", "RSC", "SD", "ANDMask", "SANDMask", "IGA", "SelfReg", "Fishr"),
    *("TRM", "IB_ERM", "IB_IRM", "CAD", "CondCAD", "Transfer", "CausIRL_CORAL", "CausIRL_MMD"),
    *("EQRM", "RDM", "ADRMX", "ERMPlusPlus", "URM", "JTT", "EIIL", "XRM"),
    *("CRO", "CROLatent"),
)
MODEL = "claude-haiku-4-5-20251001"  # that moral elicit asks by default
