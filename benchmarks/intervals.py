"""How often is the true P(y | x) of a plausible domain outside the interval of its row?

python benchmarks/intervals.py [--repetitions 50]

The laws are known, so the share of rows outside measures what the interval leaves out: the error
of estimating groups and heads. Finished repetitions are kept in benchmarks/data/intervals.jsonl:
delete the file to measure again.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from abduction import Mixture, draw_mixture
from common import HERE, measure_once, percent, table
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from regraft import CROClassifier, Interval, load_demo

RECORDS = HERE / "data" / "intervals.jsonl"
ROWS = 2_000  # to predict
SHIFTS = (None, 3.0, 1.0)  # nats
HULLS = ((2, 2.0), (4, 2.0), (4, 8.0))  # number of classes, radius
SLACKS = (0.01, 0.02, 0.05)


def mixture_conditional(mixture: Mixture, X: NDArray[Any], share: float) -> NDArray[Any]:
    """P(y | x) (n, C) in a domain with this share of group 1."""
    C = mixture.class_shares.shape[1]
    means = mixture.codes[:C, None] + mixture.codes[None, C:]  # (cause, factor, d)
    log_density = X @ means.reshape(C * C, -1).T - 0.5 * (means**2).sum(axis=2).reshape(-1)
    log_density = log_density.reshape(-1, C, C)
    spread = np.full((C, C), mixture.label_noise / C) + (1 - mixture.label_noise) * np.eye(C)
    terms = []
    for u, prior in ((0, 1 - share), (1, share)):
        for_label = [log_density[:, :, (y + 1 - u) % C] for y in range(C)]
        given = np.stack(
            [logsumexp(each, axis=1, b=spread[y]) for y, each in enumerate(for_label)], axis=1
        )
        with np.errstate(divide="ignore"):
            terms.append(given + np.log(prior) + np.log(mixture.class_shares[u]))
    conditional: NDArray[Any] = softmax(np.logaddexp(*terms), axis=1)
    return conditional


def outside(interval: Interval, truth: NDArray[Any]) -> list[float]:
    """Share of rows with a class outside by more than each of the slacks."""
    miss = np.maximum(interval.lower - truth, truth - interval.upper).max(axis=1)
    return [float((miss > slack).mean()) for slack in SLACKS]


def describe(interval: Interval, misses: list[list[float]]) -> dict[str, Any]:
    return {
        "outside": np.mean(misses, axis=0).tolist(),
        "width": float((interval.upper - interval.lower).max(axis=1).mean()),
        "decided": float(interval.decided.mean()),
    }


def look_at_mixture(shift: float | None, seed: int) -> dict[str, Any]:
    """Domains that mix two groups, up to half of the shift away from the pooled sources."""
    random = np.random.default_rng(seed)
    mixture, rows, _ = draw_mixture(random)
    data = mixture.draw_sources(rows, random)
    model = CROClassifier(prior_shift=shift).fit(data.X, data.y, data.domain)
    pooled = mixture.prior.mean()
    reach = 6.0 if shift is None else 0.5 * shift
    X, _ = mixture.draw(ROWS, pooled, random)
    interval, misses = model.predict_interval(X), []
    for delta in np.linspace(-reach, reach, 5):
        share = 1 / (1 + np.exp(-np.log(pooled / (1 - pooled)) - delta))
        misses.append(outside(interval, mixture_conditional(mixture, X, share)))
    return describe(interval, misses)


def look_at_hull(classes: int, radius: float, seed: int) -> dict[str, Any]:
    """Logit-linear sources, and targets on their hull up to half of the radius away."""
    random = np.random.default_rng(seed)
    K, d, n = 3, 10, 2_000
    center, tilts = random.standard_normal((classes, d)), random.standard_normal((K, classes, d))
    tilts -= tilts.mean(axis=0)
    X = random.standard_normal((K, n, d))
    p = [softmax(x @ (center + tilt).T, axis=1) for x, tilt in zip(X, tilts, strict=True)]
    y = [(row.cumsum(axis=1) < random.random((n, 1))).sum(axis=1) for row in p]
    model = CROClassifier("hull", radius=radius).fit(
        X.reshape(-1, d), np.concatenate(y), np.repeat(np.arange(K), n)
    )
    new = random.standard_normal((ROWS, d))
    interval, misses = model.predict_interval(new), []
    for _ in range(5):
        mix = random.standard_normal(K)
        move = np.tensordot(mix - mix.mean(), tilts, axes=1)
        nats = np.sqrt(((move - move.mean(axis=0)) ** 2).sum() / classes)
        head = center + 0.5 * radius / nats * move
        misses.append(outside(interval, softmax(new @ head.T, axis=1)))
    return describe(interval, misses)


def demo_rows(shift: float | None) -> list[list[object]]:
    """Share of the demo's rows that are decided, domain by domain."""
    bank = load_demo()
    model = CROClassifier(prior_shift=shift).fit(bank.X, bank.y, bank.sample_domain)
    domains = {name: bank.X[bank.sample_domain == name] for name in np.unique(bank.sample_domain)}
    rows: list[list[object]] = []
    for name, X in {**domains, bank.target: bank.X_target}.items():
        interval = model.predict_interval(X)
        width = (interval.upper - interval.lower)[:, 1].mean()
        rows.append([name, _shift(shift), f"{width:.2f}", percent(interval.decided.mean())])
    return rows


def _shift(shift: float | None) -> str:
    return "any" if shift is None else f"{shift:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=50)
    repetitions = parser.parse_args().repetitions
    parts: dict[str, Callable[[int], dict[str, Any]]] = {
        f"latent, two groups, prior shift {_shift(shift)}": functools.partial(
            look_at_mixture, shift
        )
        for shift in SHIFTS
    }
    for classes, radius in HULLS:
        name = f"hull, {classes} classes, 3 sources, radius {radius:g}"
        parts[name] = functools.partial(look_at_hull, classes, radius)
    rows = []
    for name, look in parts.items():
        results = [
            measure_once(RECORDS, {"part": name, "seed": seed}, lambda s=seed, f=look: f(s))
            for seed in range(repetitions)
        ]
        missed = np.mean([result["outside"] for result in results], axis=0)
        width, decided = (np.mean([r[key] for r in results]) for key in ("width", "decided"))
        rows.append([name, *map(percent, missed), f"{width:.2f}", percent(decided)])
    print(
        "Share of rows (%) whose true P(y | x) is outside the interval, by more than .01, .02 and "
        f".05, mean over {repetitions} problems and 5 domains each, within half of the shift or "
        "radius.\n"
    )
    slacks = [f"> {slack:g}" for slack in SLACKS]
    print(table(["family", *slacks, "mean width", "decided, %"], rows))
    print("\nThe demo, Colored MNIST: mean width of the interval and rows decided (%).\n")
    demo = [row for shift in SHIFTS for row in demo_rows(shift)]
    print(table(["domain", "prior shift, nats", "mean width", "decided, %"], demo))


if __name__ == "__main__":
    main()
