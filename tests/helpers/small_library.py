"""A few scenarios that differ in their number alone, and files of scenarios."""

import csv
from pathlib import Path

import numpy as np

from regraft.moral.scenarios import RULES, Library, Scenario, collect

ANNOTATIONS = {1.0: "Yes", 0.0: "No", 0.5: "No Agreement"}


def write_scenarios(path: Path, library: Library) -> Path:
    """Write a library in MoralChoice's columns."""
    columns = ["scenario_id", "generation_rule", "context", "action1", "action2"]
    rules = [f"{action}_{rule}" for action in ("a1", "a2") for rule in RULES]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, *rules])
        for s in library.scenarios:
            annotations = [ANNOTATIONS[v] for v in (*s.violations1, *s.violations2)]
            writer.writerow([s.id, s.topic, s.context, s.action1, s.action2, *annotations])
    return path


def small_library(n: int) -> Library:
    """``n`` scenarios, H_0 and so on, which lean by their number."""
    scenarios = [
        Scenario(f"H_{i}", "Do your duty", f"Case {i}.", "Go.", "Stay.", (0.0,) * 10, (1.0,) * 10)
        for i in range(n)
    ]
    return collect(scenarios, np.arange(n, dtype=float), "small scenarios")
