"""A few scenarios that differ in their number alone."""

import numpy as np

from regraft.moral.scenarios import Library, Scenario, collect


def small_library(n: int) -> Library:
    """``n`` scenarios, H_0 and so on, which lean by their number."""
    scenarios = [
        Scenario(f"H_{i}", "Do your duty", f"Case {i}.", "Go.", "Stay.", (0.0,) * 10, (1.0,) * 10)
        for i in range(n)
    ]
    return collect(scenarios, np.arange(n, dtype=float), "small scenarios")
