"""Diagnosis of arrays, and of tables as they are."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from regraft.core.domains import check_domains
from regraft.estimators.raw_tables import fit_features
from regraft.premises.diagnose import Diagnosis, diagnose_domains
from regraft.support.progress import OnProgress, ignore_progress
from regraft.support.threads import threads_for


def diagnose(
    X: Any,
    y: ArrayLike,
    sample_domain: ArrayLike,
    group: ArrayLike | None = None,
    *,
    groups: int = 2,
    seed: int = 0,
    device: str = "cpu",
    on_progress: OnProgress = ignore_progress,
) -> Diagnosis:
    """Say what labelled rows of several domains show, what to do, and whether the premises hold.

    Columns are standardized first, so that their units make no difference. Of sources with very
    many rows, some rows are looked at.

    Parameters
    ----------
    X, y, sample_domain : array-like (n, d), (n,), (n,)
        Features, labels and the domain of each row, also of tables, as in :func:`regraft.abduct`.
    group : array-like (n,), optional
        U of each row, where it was observed. Otherwise ``groups`` unobserved values are fitted by
        maximum likelihood, and checks that need U stay undecided.
    groups : int
        Number of unobserved groups.
    seed : int
        Seed of shuffles and random draws.
    device : str
        Where torch computes, such as "cpu" or "cuda".
    on_progress : callable, optional
        Called with a description of each step before it starts.

    Returns
    -------
    Diagnosis

    Raises
    ------
    ValueError
        If the data or an argument is not usable; the message says how to fix it.
    """
    rows = fit_features(X, sample_domain)[1]
    domains = check_domains(rows, y, sample_domain, device=device)
    with threads_for(domains.X.numel()):
        return diagnose_domains(domains, group, groups=groups, seed=seed, on_progress=on_progress)
