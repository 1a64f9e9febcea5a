"""`make_confounded_domains`, 5 classes, 3 sources (.9/.8/.7), permuted target.

python benchmarks/confounded.py [--seeds 5]
"""

from __future__ import annotations

import argparse

import numpy as np
from common import table

from regraft import (
    CROClassifier,
    ERMClassifier,
    GroupDROClassifier,
    IRMClassifier,
    VRExClassifier,
    make_confounded_domains,
)

STRENGTHS = (0.9, 0.8, 0.7)
CLASSES = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    heads = {
        "ERM": ERMClassifier(),
        "GroupDRO": GroupDROClassifier(),
        **{f"V-REx, penalty {p:g}": VRExClassifier(p) for p in (10, 100, 1000)},
        **{f"IRM, penalty {p:g}": IRMClassifier(p) for p in (100, 1000)},
        **{f"CRO, rank {rank}": CROClassifier(rank=rank) for rank in range(1, CLASSES)},
        "CRO (default)": CROClassifier(),
        "CRO, regret": CROClassifier(objective="regret"),
    }
    scores: dict[str, list[float]] = {name: [] for name in (*heads, "unconfounded head")}
    rounds = []
    for seed in seeds:
        data = make_confounded_domains(n_classes=CLASSES, strengths=STRENGTHS, random_state=seed)
        for name, model in heads.items():
            model.fit(data.X, data.y, data.sample_domain)
            scores[name].append(model.score(data.X_target, data.y_target))
            if isinstance(model, CROClassifier):
                rounds.append(len(model.rounds_))
        free = make_confounded_domains(
            n_classes=CLASSES, strengths=(1 / CLASSES,) * len(STRENGTHS), random_state=seed
        )
        model = ERMClassifier().fit(free.X, free.y, free.sample_domain)
        scores["unconfounded head"].append(model.score(data.X_target, data.y_target))
    erm = np.array(scores["ERM"])
    rows = [
        [
            name,
            *(f"{v:.2f}" for v in values),
            f"{np.mean(values):.3f}",
            f"{(values / erm).min():.2f}",
        ]
        for name, values in scores.items()
    ]
    header = ["head", *(f"seed {s}" for s in seeds), "mean", "least ratio to ERM"]
    print("Accuracy on the unseen domain, whose confounder is permuted.\n")
    print(table(header, rows))
    print(f"\nRounds of CRO: at most {max(rounds)}.")


if __name__ == "__main__":
    main()
