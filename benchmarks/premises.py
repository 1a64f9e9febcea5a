"""Do the diagnostics find what is there, and nothing else? Data of which the truth is known.

python benchmarks/premises.py [--repetitions 200] [--answers]

Three domains share a deduction, or do not; groups are observed. ``--answers`` prints only what
``regraft diagnose`` answers on real data: heart disease, adult, bank and PACS. Finished ones are
kept in benchmarks/data/answers.jsonl: delete the file to measure again.
"""

from __future__ import annotations

import argparse
import functools
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process on each core

import numpy as np
import torch
from common import HERE, measure_once, table
from numpy.typing import NDArray
from price import read
from scipy.special import expit, softmax
from scipy.stats import beta

from regraft import fit_latent, fit_observed
from regraft.core.domains import check_domains
from regraft.core.standardization import standardize_columns
from regraft.premises.answers import QUESTIONS, answer_questions
from regraft.premises.deduction_invariance import deduction_test
from regraft.premises.diagnose import gather_evidence
from regraft.premises.factorization import group_rows
from regraft.premises.multinomial_maps import choose_penalty
from regraft.premises.verdicts import LEVEL

DRAWS = 999
REAL = {"heart": "hospital", "adult": "race", "bank": "month", "pacs": "style"}
RECORDS = HERE / "data" / "answers.jsonl"


@dataclass(frozen=True)
class Model:
    """Sizes, and how the first domain differs from the two others."""

    name: str
    rows: int = 1500  # of each domain
    d: int = 10
    groups: int = 3
    own_slopes: bool = False  # abductions differ in slopes, not only in priors
    moved_inputs: bool = False  # P(x) differs by domain
    turn: float = 0.0  # degrees by which the first domain's deduction is turned
    lift: float = 0.0  # nats by which its intercepts are higher
    own_spread: bool = False  # inputs of the domains are spread by 0.6, 1 and 1.5
    curved: bool = False  # a square of the first feature enters every deduction, unknown to maps
    folded: bool = False  # the same for a product of two features, and they are tied in one domain

    @property
    def is_broken(self) -> bool:
        return bool(self.turn or self.lift)


class Data(NamedTuple):
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    domain: NDArray[np.int64]
    group: NDArray[np.int64]
    abductions: NDArray[np.float64]  # (3, d + 1, r) mean zero over groups
    deduction: NDArray[np.float64]  # (d + 1, r) log-odds of y = 1, of all domains but the first
    distance: float  # mean |P^0(y | x, u) - P(y | x, u)| on the first domain's rows


def draw(model: Model, seed: int) -> Data:
    rng = np.random.default_rng(seed)
    n, d, r = model.rows, model.d, model.groups
    domain = np.repeat(np.arange(3), n)
    X = rng.standard_normal((3 * n, d))
    if model.moved_inputs:
        X += 0.5 * rng.standard_normal((3, d))[domain] / np.sqrt(d / 10)
    if model.own_spread:
        X *= np.array([0.6, 1.0, 1.5])[domain, None]
    if model.folded:
        X[domain == 0, 1] = 0.8 * X[domain == 0, 0] + 0.6 * X[domain == 0, 1]
    slopes = rng.standard_normal((3 if model.own_slopes else 1, d, r)) / np.sqrt(d / 5)
    priors = rng.standard_normal((3, 1, r))
    abductions = np.concatenate([np.broadcast_to(slopes, (3, d, r)), priors], axis=1)
    abductions = abductions - abductions.mean(axis=2, keepdims=True)
    deduction = np.concatenate(
        [2 * rng.standard_normal((d, r)) / np.sqrt(d), 0.5 * rng.standard_normal((1, r))]
    )
    rows = np.column_stack([X, np.ones(3 * n)])
    logits = np.einsum("nd,ndr->nr", rows, abductions[domain])
    group = (rng.random((3 * n, 1)) > softmax(logits, axis=1).cumsum(axis=1)[:, :-1]).sum(axis=1)
    other = _turned(deduction, np.radians(model.turn), rng)
    other[-1] += model.lift
    bend = (X[:, :1] ** 2 - 1) * model.curved + X[:, :1] * X[:, 1:2] * model.folded
    own = np.where((domain == 0)[:, None], rows @ other, rows @ deduction) + bend
    at_group = np.arange(3 * n), group
    p = expit(own[at_group])
    y = (rng.random(3 * n) < p).astype(int)
    distance = np.abs(p - expit((rows @ deduction + bend)[at_group]))[domain == 0].mean()
    return Data(X, y, domain, group, abductions, deduction, float(distance))


def _turned(
    deduction: NDArray[np.float64], angle: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    slopes = deduction[:-1]
    aside = rng.standard_normal(slopes.shape)
    aside -= slopes * (aside * slopes).sum(axis=0) / (slopes**2).sum(axis=0)
    aside *= np.linalg.norm(slopes, axis=0) / np.linalg.norm(aside, axis=0)
    return np.concatenate([np.cos(angle) * slopes + np.sin(angle) * aside, deduction[-1:]])


def p_value(task: tuple[Model, int]) -> tuple[float, float]:
    """Of the invariance of deductions, and how far they really differ."""
    model, seed = task
    torch.set_num_threads(1)
    data = draw(model, seed)
    domains = check_domains(data.X, data.y, data.domain)
    rows = group_rows(domains, torch.from_numpy(data.group), model.groups)
    penalty = choose_penalty(rows.labels_by_group())
    return deduction_test(rows, penalty, draws=DRAWS).p_value, data.distance


MODELS = (
    Model("prior shift"),
    Model("own slopes", own_slopes=True),
    Model("own slopes and inputs", own_slopes=True, moved_inputs=True),
    Model("200 features", d=200, moved_inputs=True),
    Model("curved deduction", curved=True, moved_inputs=True),
    Model("curved deduction, own spread of inputs", curved=True, own_spread=True),
    Model("a product in the deduction, tied in one domain's inputs", folded=True),
    Model("deduction turned by 30°", turn=30, own_slopes=True, moved_inputs=True),
    Model("deduction turned by 45°", turn=45, own_slopes=True, moved_inputs=True),
    Model("intercepts lifted by 0.5", lift=0.5, own_slopes=True, moved_inputs=True),
    Model("intercepts lifted by 1", lift=1.0, own_slopes=True, moved_inputs=True),
    Model("200 features, turned by 60°", d=200, turn=60, moved_inputs=True),
    Model("200 features, turned by 90°", d=200, turn=90, moved_inputs=True),
)


def verdicts(repetitions: int) -> str:
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for model in MODELS:
            tasks = [(model, seed) for seed in range(repetitions)]
            p, distance = np.array(list(pool.map(p_value, tasks, chunksize=10))).T
            violated = int((p <= LEVEL).sum())
            low, high = _interval(violated, repetitions)
            rows.append(
                [
                    model.name,
                    "broken" if model.is_broken else "invariant",
                    f"{distance.mean():.3f}",
                    f"{violated / repetitions:.3f}",
                    f"{low:.3f}–{high:.3f}",
                    f"{(p <= 0.05).mean():.3f}",
                ]
            )
    columns = [
        "model",
        "truth",
        "mean difference of P(y given x, u)",
        "said violated",
        "95 % interval",
    ]
    return table([*columns, "p ≤ 0.05"], rows)


def _interval(hits: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's."""
    low = beta.ppf(0.025, hits, n - hits + 1) if hits else 0.0
    high = beta.ppf(0.975, hits + 1, n - hits) if hits < n else 1.0
    return float(low), float(high)


def recovery() -> str:
    """Correlations of the fitted maps' entries with the true ones, in the gauge of (P1)."""
    rows = []
    for n in (1_000, 4_000, 16_000):
        data = draw(Model("", rows=n, own_slopes=True, moved_inputs=True), seed=0)
        maps = fit_observed(data.X, data.y, data.domain, data.group)
        ours = (maps.deduction[..., 1] - maps.deduction[..., 0]).numpy()
        rows.append(
            [
                f"{n:,}",
                *(f"{x:.4f}" for x in _likeness(maps.abductions.numpy(), data.abductions)),
                *(f"{x:.4f}" for x in _likeness(ours, data.deduction)),
            ]
        )
    return table(
        ["rows of each domain", "A: correlation", "A: relative error", "D: correlation",
         "D: relative error"],
        rows,
    )  # fmt: skip


def latent_recovery() -> str:
    """The same without groups: likelihood only, matched by the best order of groups."""
    rows = []
    for seed in range(5):
        data = draw(Model("", rows=10_000, d=4, groups=2, own_slopes=False), seed)
        fit = fit_latent(data.X, data.y, data.domain, 2, ridge=1e-6)
        maps = fit.factorization
        D = (maps.deduction[..., 1] - maps.deduction[..., 0]).numpy()
        order = min(([0, 1], [1, 0]), key=lambda o: np.abs(D[:, o] - data.deduction).sum())
        A = maps.abductions.numpy()[..., order]
        rows.append(
            [
                str(seed),
                f"{_likeness(A, data.abductions)[0]:.4f}",
                f"{_likeness(D[:, order], data.deduction)[0]:.4f}",
                f"{fit.agreement:.3f}",
                str(len(fit.warnings)),
            ]
        )
    return table(["seed", "A: correlation", "D: correlation", "agreement", "warnings"], rows)


def _likeness(ours: NDArray[np.float64], truth: NDArray[np.float64]) -> tuple[float, float]:
    error = np.linalg.norm(ours - truth) / np.linalg.norm(truth)
    return float(np.corrcoef(ours.ravel(), truth.ravel())[0, 1]), float(error)


def answers() -> str:
    """The four answers on real data, and the sentences behind them."""
    rows, sentences = [], []
    for name, domain in REAL.items():
        found = measure_once(RECORDS, {"data": name}, functools.partial(ask, name))
        cells = (f"{each['answer']} ({each['number']})" for each in found["answers"])
        rows.append([f"{name} by {domain}", f"{found['rows']:,} × {found['features']}", *cells])
        said = " ".join(each["sentence"] for each in found["answers"])
        sentences.append(f"- **{name} by {domain}.** {said}")
    columns = ["data", "rows × features", *QUESTIONS]
    return table(columns, rows) + "\n\n" + "\n".join(sentences)


def ask(name: str) -> dict[str, Any]:
    """What ``diagnose`` answers, without the checks of the premises, which take longer."""
    data = read(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # features of tables that are constant
        whole = check_domains(data.X, data.y, data.domain)
    domains = standardize_columns(whole)
    rows = group_rows(domains, torch.zeros_like(domains.y), 1)
    found = answer_questions(gather_evidence(whole, domains, rows))
    n, d = data.X.shape
    return {"rows": n, "features": d, "answers": [each.to_dict() for each in found]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--answers", action="store_true")
    args = parser.parse_args()
    real = f"What regraft diagnose answers on real data.\n\n{answers()}\n"
    if args.answers:
        print(real)
        return
    repetitions = args.repetitions
    print(
        f"How often deduction invariance was called violated (p ≤ {LEVEL:g}), in {repetitions} "
        "repetitions: three domains of 1,500 rows, three observed groups, 10 features or 200.\n"
    )
    print(verdicts(repetitions))
    print("\nObserved groups: fitted maps against the true ones (10 features, 3 groups, seed 0).\n")
    print(recovery())
    print("\nUnobserved groups: 3 × 10,000 rows, 4 features, 2 groups, prior shift.\n")
    print(latent_recovery())
    print(f"\n{real}")


if __name__ == "__main__":
    main()
