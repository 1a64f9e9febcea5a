"""Records of panels as rows of features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regraft.core.domains import check_domains
from regraft.moral.values import PROFILES
from regraft.premises.factorization import GroupedRows, group_rows


@dataclass(frozen=True)
class Sample:
    """Records of some panels, with their features."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    panel: NDArray[np.str_]
    profile: NDArray[np.int64]

    def take(self, rows: NDArray[np.bool_]) -> Sample:
        """Select some of the records."""
        return Sample(self.X[rows], self.y[rows], self.panel[rows], self.profile[rows])

    def grouped(self, seed: int, device: str) -> tuple[GroupedRows, list[str]]:
        """Whiten the records; also return the names of the panels in the order used there."""
        domains = check_domains(self.X, self.y, self.panel, device=device)
        profile = torch.from_numpy(self.profile).to(device)
        rows = group_rows(domains, profile, len(PROFILES), seed=seed)
        return rows, [str(name) for name in domains.names]
