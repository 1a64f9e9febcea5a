"""Every printed cell of a hundred random folders of records, against a slow account of the rules.

The account below follows what DomainBed's collector does with its records, written anew as plain
loops over a list: nothing of the code it checks is used.
"""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from regraft.bench.protocol.collection import collect
from regraft.bench.protocol.collection_tables import tables

FOLDERS = 100
ROWS = 17  # of a part: few, so that configurations tie; prime, so that no mean ends in a 5
RULES = {
    "training-domain validation": "training",
    "leave-one-domain-out validation (selection rule)": "left out",
    "test-domain validation (oracle)": "oracle",
}
Cells = dict[tuple[str, str, str], list[str]]  # by rule, table and algorithm


def write_sweep(folder: Path, rng: random.Random) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Write a random sweep; its records in the order of the folders, and the domains of each."""
    n_trials, n_hparams = rng.choice([1, 2, 3]), rng.choice([1, 2, 3])
    sizes = dict(
        rng.sample([("PACS", 4), ("VLCS", 4), ("ColoredMNIST", 3)], rng.choice([1, 1, 1, 2]))
    )
    algorithms = rng.sample(["ERM", "IRM", "Mine"], rng.choice([1, 1, 1, 2]))
    lost, has_twins = rng.choice([0.0, 0.1, 0.5]), rng.random() < 0.6
    jobs = []
    for dataset, n_envs in sizes.items():
        singles = [[env] for env in range(n_envs)]
        pairs = [[a, b] for a in range(n_envs) for b in range(a + 1, n_envs)] if has_twins else []
        for algorithm in algorithms:
            for envs in singles + pairs:
                jobs += [
                    (dataset, algorithm, envs, trial, config)
                    for trial in range(n_trials)
                    for config in range(n_hparams)
                    if rng.random() >= lost
                ]
    written: dict[str, list[dict[str, Any]]] = {}
    for dataset, algorithm, envs, trial, config in jobs or [("PACS", "ERM", [0], 0, 0)]:
        args = {"dataset": dataset, "algorithm": algorithm, "test_envs": envs}
        args |= {"trial_seed": trial, "hparams_seed": config}
        steps = [0, 300]
        if rng.random() < 0.1:  # a run that was killed and started again in its folder
            steps = steps[: rng.choice([1, 2])] + steps
        lines = []
        for step in steps:
            accuracies = {
                f"env{env}_{part}_acc": rng.randint(0, ROWS) / ROWS
                for env in range(sizes.get(dataset, 4))
                for part in ("in", "out")
            }
            lines.append({"step": step, "hparams": {}, "args": args} | accuracies)
        written[f"{rng.getrandbits(64):016x}"] = lines
    for name, lines in written.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines))
        (folder / name / "done").touch()
    records = [record for name in sorted(written) for record in written[name]]
    return records, {dataset: sizes.get(dataset, 4) for dataset in sizes or {"PACS": 4}}


def judge(records: list[dict[str, Any]], rule: str, env: int, n: int) -> tuple[float, float] | None:
    """Validation and test accuracy of one configuration, None if the rule has no candidate."""
    single = [r for r in records if r["args"]["test_envs"] == [env]]
    found: list[tuple[float, float]] = []
    if rule == "training":
        for r in single:
            others = [r[f"env{i}_out_acc"] for i in range(n) if i != env]
            found.append((float(np.mean(others)), r[f"env{env}_in_acc"]))
    elif rule == "oracle" and single:
        last = single[0]
        for r in single:
            last = r if r["step"] >= last["step"] else last
        found.append((last[f"env{env}_out_acc"], last[f"env{env}_in_acc"]))
    elif rule == "left out":
        for step in sorted({r["step"] for r in records}):
            own = [r for r in single if r["step"] == step]
            seen = [-1.0] * n
            for r in records:
                if r["step"] == step and len(r["args"]["test_envs"]) == 2:
                    (other,) = set(r["args"]["test_envs"]) - {env}
                    seen[other] = r[f"env{other}_in_acc"]
            others = seen[:env] + seen[env + 1 :]
            if len(own) == 1 and -1.0 not in others:
                found.append((float(np.sum(others) / (n - 1)), own[0][f"env{env}_in_acc"]))
    best = None
    for each in found:
        if best is None or each[0] > best[0]:
            best = each
    return best


def pick(records: list[dict[str, Any]], rule: str, env: int, n: int) -> float | None:
    """Test accuracy of the best configuration of a trial; of equal ones the last."""
    best = None
    for config in sorted({r["args"]["hparams_seed"] for r in records}):
        mine = [r for r in records if r["args"]["hparams_seed"] == config]
        judged = judge(mine, rule, env, n)
        if judged is not None and (best is None or judged[0] >= best[0]):
            best = judged
    return None if best is None else best[1]


def show(accuracies: list[float]) -> tuple[float | None, str]:
    if not accuracies:
        return None, "–"
    mean = 100 * np.mean(accuracies)
    return mean, f"{mean:.1f} ± {100 * np.std(np.array(accuracies) / len(accuracies) ** 0.5):.1f}"


def show_mean(means: list[float | None]) -> str:
    known = [mean for mean in means if mean is not None]
    return f"{sum(known) / len(known):.1f}" if len(known) == len(means) else "–"


def expect(records: list[dict[str, Any]], sizes: dict[str, int]) -> Cells:
    """All cells that DomainBed prints, a dash for its X."""
    cells: Cells = {}
    algorithms = sorted({r["args"]["algorithm"] for r in records})
    present = sorted({r["args"]["dataset"] for r in records})
    for title, rule in RULES.items():
        for algorithm in algorithms:
            overall: list[float | None] = []
            averages = []
            for dataset in present:
                chosen: dict[tuple[int, int], float] = {}
                of_it = [r for r in records if r["args"]["dataset"] == dataset]
                of_it = [r for r in of_it if r["args"]["algorithm"] == algorithm]
                for trial in sorted({r["args"]["trial_seed"] for r in of_it}):
                    for env in range(sizes[dataset]):
                        group = [r for r in of_it if env in r["args"]["test_envs"]]
                        group = [r for r in group if r["args"]["trial_seed"] == trial]
                        test = pick(group, rule, env, sizes[dataset])
                        if test is not None:
                            chosen[trial, env] = test
                row: list[str] = []
                means: list[float | None] = []
                for env in range(sizes[dataset]):
                    mean, text = show([v for (_, e), v in sorted(chosen.items()) if e == env])
                    row.append(text)
                    means.append(mean)
                cells[f"{dataset}, {title}", "", algorithm] = [*row, show_mean(means)]
                trials = sorted({trial for trial, _ in chosen})
                mean, text = show(
                    [float(np.mean([v for (t, _), v in chosen.items() if t == u])) for u in trials]
                )
                averages.append(text)
                overall.append(mean)
            cells[f"Averages, {title}", "", algorithm] = [*averages, show_mean(overall)]
    return {key: row for key, row in cells.items() if set(row) != {"–"}}


def test_every_printed_cell_is_that_of_domainbeds_rules(tmp_path: Path) -> None:
    for seed in range(FOLDERS):
        rng = random.Random(seed)
        records, sizes = write_sweep(tmp_path / str(seed), rng)
        printed: Cells = {}
        for table in tables(collect(tmp_path / str(seed), compat=True)):
            for name, *row in table.texts():
                if set(row) != {"–"}:
                    printed[table.title, "", name] = row
        assert printed == expect(records, sizes), f"folder {seed}"
