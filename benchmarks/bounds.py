"""Do the certificates hold? Random problems whose truth is known, and real domains left out.

python benchmarks/bounds.py [--repetitions 200] [--families latent,hull,factorized] [--workers 2]

Finished problems are kept in benchmarks/data/bounds.jsonl: delete the file to measure again.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch
from abduction import draw_mixture, measure_worst, rate
from common import HERE, table
from numpy.random import Generator
from numpy.typing import NDArray
from price import read

from regraft import CROClassifier
from regraft.core.head_certificate import HeadCertificate
from regraft.core.hull import (
    attack,
    attack_keeping_inputs,
    factorize_rows,
    fit_hull,
    tilt_rows,
)
from regraft.core.target_rows import TargetRows
from regraft.support.records import Records

RECORDS = HERE / "data" / "bounds.jsonl"
HULL_FRESH_ROWS = 20_000  # of all sources, to measure true risks
LEFT_OUT = ("heart", "adult", "bank", "pacs")
LEFT_OUT_FAMILIES = ("latent", "hull")
MOST_ROWS, MOST_FACTORIZED_ROWS = 5_000, 1_500  # a source
Numbers = dict[str, Any]


def cover_mixtures(seed: int) -> Numbers:
    """The latent family: all mixtures of two groups."""
    random = np.random.default_rng(seed)
    mixture, rows, _ = draw_mixture(random, most_classes=5, most_sources=5, most_rows=MOST_ROWS)
    data = mixture.draw_sources(rows, random)
    model = CROClassifier().fit(data.X, data.y, data.domain)
    c = model.certificate_
    risk, accuracy = measure_worst(model, mixture, random)
    return {
        "found": c.n_groups > 1,
        "is_erm": bool(c.reason),
        "mixtures": [risk, c.risk_bound, accuracy, c.accuracy_bound],
    }


def draw_linear(random: Generator) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Heads (K, C, d + 1) of sources that are exactly logit-linear, input means, rows a source."""
    C, K, d = (int(random.integers(*ends)) for ends in ((2, 6), (2, 6), (3, 15)))
    rows = int(np.exp(random.uniform(np.log(300), np.log(MOST_ROWS))))
    shifts = random.standard_normal((random.integers(1, 3), C, d + 1)) * random.uniform(0.07, 0.57)
    mix = random.standard_normal((K, len(shifts)))
    heads = random.standard_normal((C, d + 1)) + np.tensordot(mix, shifts, 1)
    means = 0.5 * random.standard_normal((K, d)) * (random.random() < 0.5)
    return heads, means, rows


def draw_rows(
    heads: NDArray[Any], means: NDArray[Any], n: int, random: Generator
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    X = random.standard_normal((len(heads), n, means.shape[1])) + means[:, None]
    logits = np.einsum("kcd,knd->knc", heads[..., :-1], X) + heads[:, None, :, -1]
    y = (logits + random.gumbel(size=logits.shape)).argmax(axis=2)
    return X.reshape(-1, X.shape[2]), y.flatten(), np.repeat(np.arange(len(heads)), n)


def cover_hull(seed: int) -> Numbers:
    """The hull at its default radius: targets of the true source heads, and of the fitted ones."""
    random = np.random.default_rng(seed)
    heads, means, rows = draw_linear(random)
    data = draw_rows(heads, means, rows, random)
    while any(len(np.unique(data[1][data[2] == s])) < heads.shape[1] for s in range(len(heads))):
        heads, means, rows = draw_linear(random)  # a class that a source lacks is an error
        data = draw_rows(heads, means, rows, random)
    model = CROClassifier("hull").fit(*data)
    c = model.certificate_
    assert isinstance(c, HeadCertificate) and c.radius is not None
    X, y, domain = draw_rows(heads, means, HULL_FRESH_ROWS // len(heads), random)
    Z = torch.from_numpy(np.hstack([X, np.ones((len(X), 1))]))
    labels, weight = torch.from_numpy(y), torch.full((len(y),), 1 / len(y), dtype=torch.float64)
    log_p = torch.from_numpy(model.predict_proba(X)).log().T
    found: Numbers = {"is_erm": bool(c.reason), "radius": c.radius}
    for name, known in (("true", heads), ("fitted", model.source_heads_)):
        tensor = torch.from_numpy(known)
        hull = fit_hull(tensor, Z, weight)
        tilted = tilt_rows(hull, tensor, Z, labels, weight, torch.from_numpy(domain))
        moved, kept = worst_cases(tilted, log_p, c.radius)
        found[f"{name} heads"] = [moved[0], c.risk_bound, moved[1], c.accuracy_bound]
        found[f"{name} heads, inputs kept"] = [kept[0], c.kept_risk, kept[1], c.kept_accuracy]
    return found


def cover_factorized(seed: int) -> Numbers:
    """The factorized family at its default radius: targets of the true maps, two hidden groups."""
    random = np.random.default_rng(seed)
    C, K, d = (int(random.integers(*ends)) for ends in ((2, 6), (2, 6), (3, 8)))
    rows = int(np.exp(random.uniform(np.log(300), np.log(MOST_FACTORIZED_ROWS))))
    abductions = random.standard_normal((2, d + 1)) * np.ones((K, 1, 1))
    abductions[..., -1] += 1.5 * random.standard_normal((K, 2))  # the sources' own priors
    deduction = 2 * random.standard_normal((2, C, d + 1))

    def draw(n: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        domain = np.repeat(np.arange(K), n)
        Z = np.hstack([random.standard_normal((K * n, d)), np.ones((K * n, 1))])
        logits = np.einsum("ngd,nd->ng", abductions[domain], Z)
        u = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
        logits = np.einsum("ncd,nd->nc", deduction[u], Z)
        return Z, (logits + random.gumbel(size=logits.shape)).argmax(axis=1), domain

    Z, y, domain = draw(rows)
    while any(len(np.unique(y[domain == s])) < C for s in range(K)):
        deduction = 2 * random.standard_normal((2, C, d + 1))
        Z, y, domain = draw(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # doubts about the maps; here the truth decides
        model = CROClassifier("factorized").fit(Z[:, :-1], y, domain)
    c = model.certificate_
    assert isinstance(c, HeadCertificate) and c.radius is not None
    Z, y, domain = draw(HULL_FRESH_ROWS // K)
    log_p = torch.from_numpy(model.predict_proba(Z[:, :-1])).log().T
    points, maps = torch.from_numpy(Z), [torch.from_numpy(each) for each in (abductions, deduction)]
    weight = torch.full((len(y),), 1 / len(y), dtype=torch.float64)
    hull = fit_hull(maps[0], points, weight)
    labelled = torch.from_numpy(y), weight, torch.from_numpy(domain)
    tilted = factorize_rows(hull, *(each @ points.T for each in maps), *labelled)
    moved, kept = worst_cases(tilted, log_p, c.radius)
    return {
        "is_erm": bool(c.reason),
        "radius": c.radius,
        "true maps": [moved[0], c.risk_bound, moved[1], c.accuracy_bound],
        "true maps, inputs kept": [kept[0], c.kept_risk, kept[1], c.kept_accuracy],
    }


def worst_cases(
    rows: TargetRows, log_p: torch.Tensor, radius: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The largest risk and the lowest accuracy, with inputs that move and with inputs kept."""
    wrong = torch.ones_like(log_p).scatter_(0, log_p.argmax(dim=0, keepdim=True), 0.0)
    weight = torch.softmax(rows.log_weight, dim=0)
    moved, kept = [], []
    for loss in (-log_p, wrong):
        own = loss.gather(0, rows.y[None]).squeeze(0)
        moved.append(attack(rows, own, radius).value)
        share = attack_keeping_inputs(rows, loss, radius)
        kept.append(float(weight @ (share * loss).sum(dim=0)))
    return (moved[0], 1 - moved[1]), (kept[0], 1 - kept[1])


def leave_out(family: str, name: str, target: str) -> Numbers:
    """A real domain that the head was fitted without: its risk and accuracy beside the bounds."""
    data = read(name)
    unseen = data.domain.astype(str) == target
    model = CROClassifier(family).fit(data.X[~unseen], data.y[~unseen], data.domain[~unseen])  # type: ignore[arg-type]
    c = model.certificate_
    p = model.predict_proba(data.X[unseen])
    at = np.searchsorted(model.classes_, data.y[unseen])
    risk = float(-np.log(p[np.arange(len(at)), at].clip(1e-12)).mean())
    accuracy = float((p.argmax(axis=1) == at).mean())
    found: Numbers = {
        "rows": int(unseen.sum()),
        "bounds": [risk, c.risk_bound, accuracy, c.accuracy_bound],
    }
    if isinstance(c, HeadCertificate):
        found["bounds, inputs kept"] = [risk, c.kept_risk, accuracy, c.kept_accuracy]
    return found


RANDOM: dict[str, Callable[[int], Numbers]] = {
    "latent": cover_mixtures,
    "hull": cover_hull,
    "factorized": cover_factorized,
}


def run(args: Mapping[str, Any]) -> Numbers:
    torch.set_num_threads(1)
    if "seed" in args:
        return RANDOM[args["family"]](args["seed"])
    return leave_out(args["family"], args["data"], args["target"])


def measure(jobs: Sequence[dict[str, Any]], workers: int) -> list[Numbers]:
    """The record of each job, computed in parallel if it is missing."""
    records = Records(RECORDS)
    known = {str(record["args"]): record for record in records.read()}
    missing = [job for job in jobs if str(job) not in known]
    if missing:
        with ProcessPoolExecutor(workers) as pool:
            for job, numbers in zip(missing, pool.map(run, missing), strict=True):
                known[str(job)] = {"args": job, **numbers}
                records.append(known[str(job)])
                print(job, numbers, file=sys.stderr, flush=True)
    return [known[str(job)] for job in jobs]


def show(results: Sequence[Numbers], key: str) -> list[str]:
    """How often risk and accuracy are inside, and how far the bounds are from the truth."""
    risk, risk_bound, accuracy, bound = np.array([result[key] for result in results]).T
    return [
        str(len(results)),
        rate((risk <= risk_bound).tolist()),
        rate((accuracy >= bound).tolist()),
        f"{np.median(risk_bound - risk):.3f}",
        f"{100 * np.median(accuracy - bound):.1f}",
    ]


HEADER = ["problems", "risk inside", "accuracy inside", "median slack, nats", "points"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--families", default=",".join(RANDOM))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    families = options.families.split(",")
    lines = []
    for family in families:
        seeds = range(options.repetitions)
        results = measure([{"family": family, "seed": seed} for seed in seeds], options.workers)
        keys = [key for key, value in results[0].items() if isinstance(value, list)]
        lines += [[f"{family}: {key}", *show(results, key)] for key in keys]
        if family == "latent":
            found = [result for result in results if result["found"]]
            lines.append(["latent: where a factor was found", *show(found, "mixtures")])
    print(
        "How often the true worst risk and accuracy are within the certificate (%, with the exact "
        "95 % interval), on random problems of 2–5 classes and 2–5 sources of 300–5,000 rows (the "
        "factorized family: 300–1,500).\n"
    )
    print(table(["certificate and truth", *HEADER], lines))
    left, each = [], []
    for family in (each for each in families if each in LEFT_OUT_FAMILIES):
        for name in LEFT_OUT:
            names = np.unique(read(name).domain.astype(str)).tolist()
            jobs = [{"family": family, "data": name, "target": target} for target in names]
            results = measure(jobs, options.workers)
            keys = [key for key, value in results[0].items() if isinstance(value, list)]
            left += [[f"{family}, {name}: {key}", *show(results, key)] for key in keys]
            for job, result in zip(jobs, results, strict=True):
                risk, bound, accuracy, least = result["bounds"]
                each.append(
                    [
                        f"{family}, {name}", job["target"], f"{risk:.3f} (≤ {bound:.3f})",
                        f"{100 * accuracy:.1f} (≥ {100 * least:.1f})",
                    ]
                )  # fmt: skip
    print("\nThe same for real domains left out, which need not be plausible.\n")
    print(table(["certificate", *HEADER], left))
    print("\nEvery domain left out: risk and accuracy, with the certified bounds in brackets.\n")
    print(table(["certificate", "domain", "risk", "accuracy"], each))


if __name__ == "__main__":
    main()
