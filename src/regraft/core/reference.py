"""Source rows that stay with a model, so that a new domain can be compared with its sources."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regraft.core.abduction import Groups
from regraft.core.domains import Domains
from regraft.core.evidence import HeldOutRows
from regraft.core.group_heads import GroupHeads
from regraft.core.heads import SourceHeads
from regraft.support.memory_map import release

MAX_ROWS = 4000


@dataclass(frozen=True)
class Reference:
    """Some rows of the pooled sources, and what models that have not seen them say of them."""

    X: Tensor  # (m, d)
    y: Tensor  # (m,)
    domain: Tensor  # (m,) the source of each row
    weight: Tensor  # (m,) equal mass per source; sums to one
    belief: Tensor  # (m, G) P(u | x, y)
    log_joint: Tensor  # (m, G, C) log P(y, u | x)
    loss: Tensor  # (m,) of the model's head
    correct: Tensor  # (m,) 0 or 1
    shares: Tensor  # (G,) of the groups in all rows of the pooled sources
    sampled: Tensor  # (1,) the share of the rows behind log_joint that these are

    @property
    def laws(self) -> Tensor:
        """Weights (G, m) that make the rows those of each group; they sum to one."""
        weight = (self.belief * self.weight.unsqueeze(1)).T
        return weight / weight.sum(dim=1, keepdim=True)


def take_reference(
    domains: Domains,
    sources: SourceHeads,
    groups: Groups,
    group_heads: GroupHeads,
    held_out: HeldOutRows,
) -> Reference:
    """Return a fair sample of the rows, for a head that was judged on rows ``held_out``."""
    # Rows are sorted by source, class and distance from the mean.
    kept = torch.linspace(0, len(group_heads.rows) - 1, min(len(group_heads.rows), MAX_ROWS))
    kept = kept.round().long().to(group_heads.rows.device)
    rows = group_heads.rows[kept]
    weight = sources.weight[rows]
    parts = Reference(
        X=domains.X[sources.order[rows]].float(),
        y=sources.y[rows],
        domain=sources.domain[rows],
        weight=weight / weight.sum(),
        belief=groups.posterior[rows],
        log_joint=group_heads.log_joint[kept],
        loss=held_out.loss[rows],
        correct=held_out.correct[rows],
        shares=sources.weight @ groups.posterior,
        sampled=weight.new_tensor([len(rows) / len(group_heads.rows)]),
    )
    release(domains.mapping)
    return Reference(**{name: value.cpu() for name, value in vars(parts).items()})
