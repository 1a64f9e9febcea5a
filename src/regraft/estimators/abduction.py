"""The hidden factor that the sources disagree about, as people ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from regraft.core.abduction import LEVEL, Groups, find_groups, rows_of_domains
from regraft.core.domain_scores import PERMUTATIONS
from regraft.core.domains import Domains, check_domains, index_column
from regraft.core.features import check_features, join_names
from regraft.core.group_models import GroupModels
from regraft.core.group_ties import align_classes, share_errors, source_share_errors
from regraft.core.heads import SourceHeads
from regraft.premises.hidden_factor import CLEAR_SEPARATION
from regraft.premises.verdicts import format_p_value
from regraft.support.shown import ShownResult
from regraft.support.table import Cell, Table, share, whole_percent
from regraft.support.threads import threads_by_size

if TYPE_CHECKING:
    from regraft.estimators.table_features import TableFeatures

_NO_OVERLAP, _MAY_BE_SOURCES = "Overlap is missing", ", so the groups may be the sources"


@dataclass(frozen=True, repr=False)
class Abduction(ShownResult):
    """Hidden groups of rows, and in which shares the sources hold them.

    With one group there is no hidden factor. Group numbers rise with a score that sources with
    positive ``contrast`` have more of; the first source's entry is not negative.
    """

    groups: NDArray[np.float64]  # (n, G) P(u | x, y) of each row, by models that have not seen it
    classes: NDArray[Any]  # (C,)
    domains: NDArray[Any]  # (K,)
    shares: NDArray[np.float64]  # (K, G) of the groups in each source
    share_errors: NDArray[np.float64]  # (K, G) their standard errors
    class_shares: NDArray[np.float64]  # (K, C, G) in each source and class; where a source has no
    # rows of a class, or the class is in one source only, those of the source's other classes
    class_share_errors: NDArray[np.float64]  # (K, C, G) their standard errors
    alignment: NDArray[np.float64]  # (C,) 1 if the last group of a class looks like that of the
    # first class, -1 if it looks like the first group of that class, 0 if neither
    gain: float  # nats a row that the groups tell about the source, on rows that no step has seen
    gain_error: float  # its standard error
    possible_gain: float  # what they would tell if each row's group were known
    separation: float  # of neighbouring groups along the score, in standard deviations
    p_value: float  # of "no hidden factor", by permuting the sources within each class
    contrast: NDArray[np.float64]  # (K,)
    warnings: tuple[str, ...]
    models: GroupModels | None
    features: TableFeatures | None = None  # what made numbers of a table

    @property
    def n_groups(self) -> int:
        """Number G of groups; 1 if no hidden factor was found."""
        return int(self.groups.shape[1])

    def posterior(self, X: Any, y: ArrayLike) -> NDArray[np.float64]:
        """Return P(u | x, y) (n, G) of new rows ``X`` (n, d) with labels ``y`` (n,)."""
        features = check_features(X if self.features is None else self.features.transform(X))
        if self.models is None:
            return np.ones((len(features), 1))
        labels, index = index_column(y, "y", len(features))
        known = np.searchsorted(self.classes, labels).clip(max=len(self.classes) - 1)
        if (self.classes[known] != labels).any():
            raise ValueError(
                f"y has labels other than {list(self.classes)}: pass the same classes."
            )
        device = self.models.mean.device
        rows = torch.as_tensor(features, device=device)
        label = torch.as_tensor(known[index], device=device)
        return self.models.log_posterior(rows, label).exp().cpu().numpy()

    def to_dict(self) -> dict[str, Any]:
        """Return what was found, without the rows, as plain numbers, strings and lists."""
        return {
            "n_groups": self.n_groups,
            "classes": [str(name) for name in self.classes],
            "domains": [str(name) for name in self.domains],
            "shares": self.shares.tolist(),
            "share_errors": self.share_errors.tolist(),
            "class_shares": self.class_shares.tolist(),
            "class_share_errors": self.class_share_errors.tolist(),
            "alignment": self.alignment.tolist(),
            "gain": self.gain,
            "gain_error": self.gain_error,
            "possible_gain": self.possible_gain,
            "separation": self.separation,
            "p_value": self.p_value,
            "contrast": self.contrast.tolist(),
            "warnings": list(self.warnings),
        }

    def paragraphs(self) -> tuple[str, ...]:
        """Say in plain words what was found."""
        return (summarize_factor(self.to_dict()),)

    def table(self) -> Table:
        """Show the share of each group in each source, of all rows and of each class."""
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (str(name), str(u), share(own[u]), *(share(by_class[u]) for by_class in classes))
            for name, own, classes in zip(
                self.domains, self.shares.tolist(), self.class_shares.tolist(), strict=True
            )
            for u in range(self.n_groups)
        )
        columns = "source", "group", "all rows", *(f"class {name}" for name in self.classes)
        return Table("Shares of the groups", columns, rows, align="ll")


def summarize_factor(found: Mapping[str, Any]) -> str:
    """Say in plain words what was found, of an abduction's ``to_dict``."""
    chance = format_p_value(found["p_value"], PERMUTATIONS)
    if len(found["domains"]) == 1:
        return "Whether there is a hidden factor cannot be seen: there is one source only."
    if found["n_groups"] == 1:
        return f"No hidden factor was found ({chance})."
    tie = ", ".join(
        f"{whole_percent(share[-1])} of {name}"
        for name, share in zip(found["domains"], found["shares"], strict=True)
    )
    possible = f"{found['possible_gain']:.4f}"
    told = (
        f"{found['gain']:.4f} ± {found['gain_error']:.4f} nats about the source (± one standard "
        f"error), of {possible} possible at these shares."
    )
    if found["gain"] > found["possible_gain"]:
        told = (
            f"about as much of the source as is possible at these shares ({possible} nats): the "
            "rows are too few to measure it better."
        )
    begin = f"A hidden factor was found ({chance})"
    if is_weak(found):
        begin = f"The sources differ ({chance}), but the signs of a hidden factor are weak"
    return (
        f"{begin}: the sources hold {found['n_groups']} groups of "
        f"rows in different shares. Group {found['n_groups'] - 1} is {tie}. On rows "
        f"that no step has seen, the groups tell {told}"
    )


def is_weak(found: Mapping[str, Any]) -> bool:
    """Return whether the groups lie so near each other that many rows cannot be told."""
    return bool(found["separation"] < CLEAR_SEPARATION)


def describe_lone_group(found: Mapping[str, Any]) -> str:
    """Say which source alone holds a group: "only a has group 1"; "" if two or more hold each."""
    begin = f"{_NO_OVERLAP}: "
    alone = (doubt for doubt in found["warnings"] if doubt.startswith(begin))
    return str(next(alone, "")).removeprefix(begin).partition(_MAY_BE_SOURCES)[0]


@threads_by_size
def abduct(X: Any, y: ArrayLike, sample_domain: ArrayLike, *, device: str = "cpu") -> Abduction:
    """Find the hidden factor that the sources disagree about, from domain labels alone.

    Sources are taken for different mixtures of the same groups of rows. The groups are found within
    each class, along the direction on which the sources differ, and every choice is made by the
    log-likelihood of the source on rows that no step has seen. A class that is in one source only
    tells nothing: its rows are in each group with the group's share. The result does not depend on
    the order of the rows, and no random numbers enter but those of the permutation test, whose seed
    is fixed.

    Parameters
    ----------
    X, y, sample_domain : array-like (n, d), (n,), (n,)
        Features, labels and the source of each row. Of a data frame with texts or gaps, and of a
        mapping of names to columns, :class:`~regraft.estimators.table_features.TableFeatures` makes
        numbers.
    device : str
        Where torch computes, such as "cpu" or "cuda".

    Returns
    -------
    Abduction

    Raises
    ------
    ValueError
        If the data are not usable; the message says how to fix it.
    """
    # Reports read abductions, and need not wait for scikit-learn.
    from regraft.estimators.raw_tables import fit_features

    features, rows = fit_features(X, sample_domain)
    domains = check_domains(rows, y, sample_domain, device=device)
    return replace(
        describe_groups(find_groups(rows_of_domains(domains)), domains), features=features
    )


def describe_source_groups(found: Groups, sources: SourceHeads, domains: Domains) -> Abduction:
    """Return what was found on the rows of ``sources``, by the rows of ``domains``."""
    belief = torch.empty_like(found.posterior)
    belief[sources.order] = found.posterior
    return describe_groups(replace(found, posterior=belief), domains)


def describe_groups(found: Groups, domains: Domains) -> Abduction:
    """Return ``found`` as arrays in the user's labels, with warnings in words."""
    of_rows = domains.domain, domains.y
    return Abduction(
        groups=found.posterior.cpu().numpy(),
        classes=domains.classes,
        domains=domains.names,
        shares=found.source_shares.cpu().numpy(),
        share_errors=source_share_errors(found, *of_rows).cpu().numpy(),
        class_shares=found.shares.cpu().numpy(),
        class_share_errors=share_errors(found, *of_rows).cpu().numpy(),
        alignment=align_classes(found, domains).cpu().numpy(),
        gain=found.gain,
        gain_error=found.gain_error,
        possible_gain=found.possible_gain,
        separation=found.separation,
        p_value=found.p_value,
        contrast=np.array(found.contrast),
        warnings=tuple(_doubts(found, domains)),
        models=found.models,
    )


def _doubts(found: Groups, domains: Domains) -> list[str]:
    """Say what speaks against taking the groups for a hidden factor."""
    if len(domains.names) == 1:
        return ["All rows are of one source, so nothing tells a hidden factor apart: add sources."]
    if found.n_groups == 1:
        if found.p_value <= LEVEL:
            return ["The sources differ given the label, but not as mixtures of the same groups."]
        return []
    doubts = []
    if found.separation < CLEAR_SEPARATION:
        doubts.append(
            "The groups overlap so much that for many rows nobody can tell to which they belong."
        )
    labels = zip(map(str, domains.classes), found.tells.tolist(), strict=True)
    silent = [label for label, tells in labels if not tells]
    if silent:
        doubts.append(
            f"Class {join_names(silent)} tells nothing about the factor, as it is in too few "
            "sources: it is taken for the same in every group."
        )
    for u, column in enumerate(found.holders.T.tolist()):
        names = [str(name) for name, holds in zip(domains.names, column, strict=True) if holds]
        if len(names) < 2:
            only = f"only {names[0]} has" if names else "hardly any source has"
            doubts.append(
                f"{_NO_OVERLAP}: {only} group {u}{_MAY_BE_SOURCES} themselves rather than a "
                "factor within them."
            )
    return doubts
