"""JTT, EIIL and XRM: groups found by mistakes on the features of ERM, then a head for all of them.

Only Phase 2 is theirs: their heads are linear, on features that ERM has trained.
"""

from __future__ import annotations

from torch import Tensor

from regraft.bench.algorithms.base import algorithm
from regraft.bench.algorithms.games import HULL_SPACE
from regraft.bench.algorithms.two_phases import TwoPhases, phase_1
from regraft.bench.protocol.spaces import Group, Space, ten_to
from regraft.core.heads import SourceHeads
from regraft.estimators.group_search import EIILClassifier, JTTClassifier, XRMClassifier


def _space(group: Group) -> Space:
    return {**phase_1(group), "ridge": HULL_SPACE["ridge"]}


def _underfitting_space(group: Group) -> Space:
    return {**_space(group), "reference_ridge": ten_to(1.0, -1, 1)}


def _jtt_space(group: Group) -> Space:
    # The paper's factors are 4 to 100; by default one is chosen on held-out rows.
    return {**_underfitting_space(group), "jtt_upweight": ten_to(None, 0.6, 2)}


@algorithm("JTT", _jtt_space)
class JTT(TwoPhases):
    """Phase 2 fits again with more weight on an underfitted head's mistakes."""

    def find_head(self, sources: SourceHeads) -> Tensor:
        """Fit twice."""
        head = JTTClassifier(
            upweight=self.hparams["jtt_upweight"],
            reference_ridge=self.hparams["reference_ridge"],
            ridge=self.hparams["ridge"],
        )
        return sources.whitening.to_features(head.solve(sources))


@algorithm("EIIL", _underfitting_space)
class EIIL(TwoPhases):
    """Phase 2 is GroupDRO over classes and environments in which a head is least invariant."""

    def find_head(self, sources: SourceHeads) -> Tensor:
        """Infer the environments and fit."""
        head = EIILClassifier(
            reference_ridge=self.hparams["reference_ridge"], ridge=self.hparams["ridge"]
        )
        return sources.whitening.to_features(head.solve(sources))


@algorithm("XRM", _space)
class XRM(TwoPhases):
    """Phase 2 is GroupDRO over classes and the mistakes of two heads that echo each other."""

    def find_head(self, sources: SourceHeads) -> Tensor:
        """Find the cross mistakes and fit."""
        head = XRMClassifier(ridge=self.hparams["ridge"])
        return sources.whitening.to_features(head.solve(sources))
