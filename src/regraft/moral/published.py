"""What the paper reports of its own run (section 5.4), to stand beside ours.

Its features are RoBERTa's, its labels a language model's, its numbers those of rows fitted on.
"""

from __future__ import annotations

# `tab:factorization-closure`: mean prediction, Brier score, accuracy, log-loss.
CLOSURE = {
    "Pragmatist": {
        "factorized": (0.465, 0.171, 0.809, 0.526),
        "direct": (0.459, 0.148, 0.809, 0.470),
    },
    "Idealist": {
        "factorized": (0.250, 0.142, 0.774, 0.448),
        "direct": (0.250, 0.123, 0.823, 0.395),
    },
    "Centrist": {
        "factorized": (0.337, 0.188, 0.708, 0.559),
        "direct": (0.337, 0.170, 0.761, 0.514),
    },
}
# `tab:principal-angles`: smallest, median and largest, in degrees.
ANGLES = {
    frozenset({"Pragmatist", "Idealist"}): (22, 66, 89),
    frozenset({"Pragmatist", "Centrist"}): (21, 67, 89),
    frozenset({"Idealist", "Centrist"}): (19, 67, 90),
}
# `tab:L-feasibility`: by weight, the residual to I for each A, the norm of L, the Hausdorff term.
BASIS = {
    0.0: (1.06, 282.8, 998.0),
    0.01: (1.06, 282.5, 984.0),
    0.1: (1.06, 280.3, 900.0),
    1.0: (1.06, 267.7, 662.0),
    10.0: (1.19, 210.3, 377.0),
}
