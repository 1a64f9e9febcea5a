"""A documented model of how people with given values choose, shared by all panels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from regraft.moral.scenarios import Library
from regraft.moral.values import profile_matrix

MECHANISM = (
    "The labels come from a documented model of how people of given moral values choose, not from "
    "people and not from a language model."
)

# How much more, or less, the +1 pole of each axis of AXES minds a violation of each of RULES than
# its -1 pole does. Outcomes (death, pain, disability) matter to consequentialists, and rules to
# deontologists. Freedom and pleasure matter to individualists, and so do truth and freely given
# promises between persons, while law and duty matter to collectivists. Suffering and what is owed
# to the people at hand (promises, duty) matter to those who put care first, while cheating,
# breaches of the law and deceit matter to those who put justice first.
LOADINGS = (
    #  death  pain  disable freedom pleasure deceive cheat promise law   duty
    (1.00, 0.75, 0.75, 0.00, 0.25, -0.50, -0.25, -1.00, -0.25, -0.75),
    (0.00, -0.25, -0.25, 1.00, 0.75, 0.50, 0.00, 0.25, -1.00, -1.00),
    (0.50, 1.00, 0.75, 0.00, 0.00, -1.00, -1.25, 0.75, -1.50, 0.75),
)
# With these, on the 680 high-ambiguity scenarios of MoralChoice and their released answers, the
# likelier action has a probability of 0.80 on average, and P(action 1) has a standard deviation
# of 0.19 over profiles, on average over scenarios: neither clockwork nor coins.
STRENGTH = 1.6
LEAN_WEIGHT = 0.25
# By default no axis moves how much people mind violations in general, and the panels choose action
# 2 almost equally often: 0.06 apart on MoralChoice, and no strength brings more than 0.08. At this
# permissiveness they are 0.215 apart, as the paper's panels are, and in the paper's order.
# It was found by bisection on the expected shares, which need neither draws nor fits.
PAPER_PERMISSIVENESS = 1.68


def loadings() -> NDArray[np.float64]:
    """Make ``LOADINGS`` (3, 10) orthonormal, and orthogonal to the base, axis by axis.

    So no axis moves what another one does, nor how much a person minds violations in general.
    """
    return _basis()[1:]


def weights(permissiveness: float = 0.0) -> NDArray[np.float64]:
    """Compute how much each of ``PROFILES`` minds a violation of each of ``RULES``: (27, 10).

    The base, of length one and the same for all rules, plus pole times loading over the axes. A
    weight may be below zero: such a person rather sees that rule broken. ``permissiveness`` is the
    share of the base that people at +1 on all axes lose, and those at -1 gain; others in proportion
    to the mean of their poles.
    """
    poles = profile_matrix()
    base = np.outer(1 - permissiveness * poles.mean(axis=1), _basis()[0])
    total: NDArray[np.float64] = base + poles @ loadings()
    return total


def describe_mechanism(permissiveness: float = 0.0) -> str:
    """Say what made the labels; ``ValueError`` with one sentence for no number of 0 or more."""
    if not 0 <= permissiveness < math.inf:
        raise ValueError(f"permissiveness is {permissiveness}: pass a number, 0 or more.")
    return f"{MECHANISM} Its permissiveness is {permissiveness:g}."


def response_probabilities(
    library: Library,
    *,
    strength: float = STRENGTH,
    lean_weight: float = LEAN_WEIGHT,
    permissiveness: float = 0.0,
) -> NDArray[np.float64]:
    """Compute P(action 1 | scenario, profile): (n, 27), profiles in the order of ``PROFILES``.

    Its logit is ``lean_weight`` times the scenario's lean, minus ``strength`` times the weighted
    sum of how much more action 1 violates each rule than action 2 does, by the ``weights`` at
    ``permissiveness``.
    """
    minded = library.violation_differences @ weights(permissiveness).T
    probabilities: NDArray[np.float64] = expit(
        lean_weight * library.lean[:, None] - strength * minded
    )
    return probabilities


def _basis() -> NDArray[np.float64]:
    """Return the base and the loadings as orthonormal rows (4, 10), with their signs kept."""
    rows = np.vstack([np.ones(len(LOADINGS[0])), LOADINGS])
    q, r = np.linalg.qr(rows.T)
    basis: NDArray[np.float64] = (q * np.sign(np.diag(r))).T
    return basis
