"""PACS, frozen EfficientNet-Lite0 features, leave-one-domain-out: what robustness costs.

python benchmarks/pacs.py
"""

from __future__ import annotations

import time

import numpy as np
from common import SHARED, percent, table
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit

from regraft import CROClassifier, ERMClassifier, GroupDROClassifier

TUNED = GridSearchCV(
    LogisticRegression(max_iter=300),
    {"C": [1e-3, 1e-2, 1e-1]},
    cv=StratifiedShuffleSplit(1, test_size=0.2, random_state=0),
    scoring="neg_log_loss",
)
HEADS = {
    "scikit-learn LogisticRegression, C tuned on held-out source rows": TUNED,
    "ERM, cross-validated": ERMClassifier(),
    "GroupDRO": GroupDROClassifier(),
    "CRO, radius 1": CROClassifier(radius=1.0),
    "CRO, radius 1, regret": CROClassifier(radius=1.0, objective="regret"),
    "CRO, radius 8": CROClassifier(radius=8.0),
}


def main() -> None:
    data = np.load(SHARED / "pacs" / "efficientnet_lite0.npz", allow_pickle=False)
    X, y, domain = data["X"].astype(np.float64), data["y"], data["domain"]
    names = [str(name) for name in data["domains"]]
    rows = []
    for head, model in HEADS.items():
        start, scores, rounds = time.perf_counter(), [], []
        for target in range(len(names)):
            source = domain != target
            extra = () if model is TUNED else (domain[source],)
            model.fit(X[source], y[source], *extra)
            scores.append(float((model.predict(X[~source]) == y[~source]).mean()))
            if isinstance(model, CROClassifier):
                rounds.append(len(model.rounds_))
        seconds = (time.perf_counter() - start) / len(names)
        shown = [percent(s) for s in scores]
        average, worst = percent(float(np.mean(scores))), percent(min(scores))
        rows.append([head, *shown, average, worst, max(rounds, default=""), f"{seconds:.1f}"])
    header = ["head", *names, "average", "worst", "rounds", "s a fit"]
    print("Accuracy (%) on the domain left out.\n")
    print(table(header, rows))


if __name__ == "__main__":
    main()
