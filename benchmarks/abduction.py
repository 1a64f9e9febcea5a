"""Is a hidden factor found where there is one, and only there; does the certificate hold?

python benchmarks/abduction.py [--repetitions 200] [--power-repetitions 100]

Finished repetitions are kept in benchmarks/data/abduction.jsonl: delete the file to measure again.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import HERE, SHARED, measure_once, percent, table
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import beta

from regraft import CROClassifier, abduct, make_confounded_domains

RECORDS = HERE / "data" / "abduction.jsonl"
ROWS, FEATURES = 1_000, 64
STRENGTHS = (0.9, 0.7)
FRESH_ROWS = 100_000  # of each group, to measure true risks


@dataclass(frozen=True)
class Sample:
    """Labelled rows and the source of each."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    domain: NDArray[np.int64]


@dataclass(frozen=True)
class Mixture:
    """Groups whose laws are known, and in which shares the sources hold them.

    A row of group u and label y has a factor that equals y in group 1 and the next label in group
    0. Its features are a code of the label, with noise in the label, plus a code of the factor.
    """

    class_shares: NDArray[np.float64]  # (2, C) of the labels in each group
    prior: NDArray[np.float64]  # (K,) share of group 1 in each source
    codes: NDArray[np.float64]  # (2 C, d) of the labels and of the factor
    label_noise: float

    def draw(self, n: int, share: float, random: Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        """Draw features (n, d) and labels (n,) of a domain with this share of group 1."""
        C = self.class_shares.shape[1]
        u = (random.random(n) < share).astype(int)
        y = np.where(u, *(random.choice(C, size=n, p=self.class_shares[g]) for g in (1, 0)))
        cause = np.where(random.random(n) < self.label_noise, random.integers(C, size=n), y)
        factor = (y + 1 - u) % C
        X = self.codes[cause] + self.codes[C + factor]
        return X + random.standard_normal(X.shape), y

    def draw_sources(self, n: int, random: Generator) -> Sample:
        parts = [self.draw(n, share, random) for share in self.prior]
        X, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return Sample(X, y, np.repeat(np.arange(len(self.prior)), n))


def draw_mixture(
    random: Generator, most_classes: int = 3, most_sources: int = 4, most_rows: int = 3_000
) -> tuple[Mixture, int, float]:
    """Draw groups, rows a source (at least 300) and the groups' distance (3 to 8 deviations)."""
    C, K = int(random.integers(2, most_classes + 1)), int(random.integers(2, most_sources + 1))
    separation = float(random.uniform(3, 8))
    rows = int(np.exp(random.uniform(np.log(300), np.log(most_rows))))
    directions = np.linalg.qr(random.standard_normal((20, 2 * C)))[0].T
    # Two codes of length a in orthogonal directions lie a √2 apart.
    lengths = np.repeat([random.uniform(1.5, 3.5), separation / np.sqrt(2)], C)
    mixture = Mixture(
        class_shares=random.dirichlet(np.full(C, 20.0), size=2),
        prior=random.permutation(np.linspace(random.uniform(0.85, 0.95), 0.6, K)),
        codes=lengths[:, None] * directions,
        label_noise=float(random.uniform(0, 0.3)),
    )
    return mixture, rows, separation


def split_gauss(seed: int) -> Sample:
    """Two random halves of one Gaussian population with two classes."""
    random = np.random.default_rng(seed)
    y = np.arange(2 * ROWS) % 2
    X = random.standard_normal((2 * ROWS, FEATURES))
    X[:, 0] += 2.0 * y
    return Sample(X, y, random.integers(2, size=len(y)))


@functools.cache
def pacs() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    data = np.load(SHARED / "pacs" / "efficientnet_lite0.npz", allow_pickle=False)
    return data["X"].astype(np.float64), data["y"].astype(np.int64)


def split_pacs(seed: int) -> Sample:
    """Two random halves of some PACS features, all styles together."""
    X, y = pacs()
    random = np.random.default_rng(seed)
    rows = random.choice(len(y), size=2 * ROWS, replace=False)
    return Sample(X[rows], y[rows], random.integers(2, size=len(rows)))


def confound(seed: int) -> Sample:
    """Two sources of ``make_confounded_domains``, with a confounder no louder than the cause."""
    data = make_confounded_domains(
        ROWS, strengths=STRENGTHS, n_features=FEATURES, cause_signal=2.7, confounder_signal=2.7,
        random_state=seed,
    )  # fmt: skip
    return Sample(data.X, data.y, np.repeat(np.arange(len(STRENGTHS)), ROWS))


def look(draw: Callable[[int], Sample], seed: int) -> dict[str, Any]:
    """Whether a hidden factor is found."""
    data = draw(seed)
    found = abduct(data.X, data.y, data.domain)
    return {"found": found.n_groups > 1, "p_value": found.p_value, "gain": found.gain}


def measure_worst(model: CROClassifier, mixture: Mixture, random: Generator) -> tuple[float, float]:
    """The largest risk and the lowest accuracy of all mixtures, on fresh rows.

    Both are linear in the shares of the groups, so the worst mixture is a group.
    """
    risks, accuracies = [], []
    for share in (0.0, 1.0):
        X, y = mixture.draw(FRESH_ROWS, share, random)
        p = model.predict_proba(X)
        risks.append(float(-np.log(p[np.arange(len(y)), y]).mean()))
        accuracies.append(float((p.argmax(axis=1) == y).mean()))
    return max(risks), min(accuracies)


def certify(seed: int) -> dict[str, Any]:
    """The certificate of the default head beside its true worst risk and accuracy."""
    random = np.random.default_rng(seed)
    mixture, rows, separation = draw_mixture(random)
    data = mixture.draw_sources(rows, random)
    model = CROClassifier().fit(data.X, data.y, data.domain)
    certificate = model.certificate_
    risk, accuracy = measure_worst(model, mixture, random)
    return {
        "classes": mixture.class_shares.shape[1],
        "sources": len(mixture.prior),
        "rows": rows,
        "separation": separation,
        "found": certificate.n_groups > 1,
        "is_erm": bool(certificate.reason),
        "risk": risk,
        "risk_bound": certificate.risk_bound,
        "accuracy": accuracy,
        "accuracy_bound": certificate.accuracy_bound,
    }


def repeat(
    name: str, measure: Callable[[int], dict[str, Any]], repetitions: int
) -> list[dict[str, Any]]:
    results = []
    for seed in range(repetitions):
        args = {"part": name, "seed": seed}
        results.append(measure_once(RECORDS, args, lambda s=seed: measure(s)))
        if (seed + 1) % 20 == 0:
            print(f"{name}: {seed + 1} of {repetitions}", file=sys.stderr, flush=True)
    return results


def rate(hits: list[bool]) -> str:
    """A share (%) with its exact 95 % interval."""
    k, n = sum(hits), len(hits)
    low = beta.ppf(0.025, k, n - k + 1) if k else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    return f"{percent(k / n)} ({percent(low)} to {percent(high)})" if n else "–"


PARTS: dict[str, Callable[[int], Sample]] = {
    f"no factor: halves of one population, Gaussian, {2 * ROWS:,} × {FEATURES}": split_gauss,
    f"no factor: halves of one population, PACS features, {2 * ROWS:,} × 1280": split_pacs,
    f"strengths .9/.7, {ROWS:,} rows a source, {FEATURES} features": confound,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--power-repetitions", type=int, default=100)
    options = parser.parse_args()
    rows = []
    for name, draw in PARTS.items():
        n = options.power_repetitions if draw is confound else options.repetitions
        results = repeat(name, functools.partial(look, draw), n)
        rows.append([name, n, rate([result["found"] for result in results])])
    print("How often `abduct` finds a hidden factor (%, with the exact 95 % interval).\n")
    print(table(["sources", "repetitions", "found"], rows))

    every = repeat("certificate", certify, options.repetitions)
    found = [result for result in every if result["found"]]
    print(
        "\nThe certificate of the default head, on mixtures of two groups whose laws are known "
        "(2–3 classes, 2–4 sources, 300–3,000 rows a source, groups 3–8 deviations apart): "
        "how often the true risk and accuracy of every mixture are within the bound (%).\n"
    )
    rows = []
    for name, results in (
        ("all", every),
        ("a factor was found: every mixture is certified", found),
        ("… and the head is the game's", [r for r in found if not r["is_erm"]]),
        ("… groups less than 5 deviations apart", [r for r in found if r["separation"] < 5]),
        ("… fewer than 1,000 rows a source", [r for r in found if r["rows"] < 1000]),
    ):
        slack = [result["risk_bound"] - result["risk"] for result in results]
        rows.append(
            [
                name, len(results),
                rate([value >= 0 for value in slack]),
                rate([result["accuracy_bound"] <= result["accuracy"] for result in results]),
                f"{np.median(slack):.3f}" if slack else "–",
            ]
        )  # fmt: skip
    print(table(["repetitions where", "number", "risk", "accuracy", "median slack, nats"], rows))


if __name__ == "__main__":
    main()
