"""The paper's own adversary: free abductions under exact biorthogonality, optimized by Adam.

Its objective is eq. `obj`: the learner's risk on the surrogate, minus penalties for misfit on the
sources (eq. `loss-grand`, averaged over them), for transplants that leave the supports (eq.
`match`), and for the operator norms of the transplants. Names are those of `tab:hp-search-cro`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import torch
from torch import Tensor
from torch.nn import functional

from regraft.core.closure import minibatch_hausdorff
from regraft.core.game import Target
from regraft.core.newton import log_probabilities, losses
from regraft.core.surrogates import (
    SurrogateKind,
    WeightedSample,
    pair_with_every_label,
    relabel,
    relabel_moved,
    reweight,
)
from regraft.core.transplant import Witness, measure_witness

_INITIAL_SCALE = 0.1  # of the free parts of the abductions, before division by sqrt(d)


@dataclass(frozen=True)
class FreeAdversaryOptions:
    """Hyperparameters of the free adversary, with the paper's names."""

    cro_rank: int = 8
    cro_adv_lr: float = 3e-3  # Adam's rate at the start of an ascent; it falls to zero at its end
    cro_lambda_consist: float = 30.0  # weight of Fit, averaged over sources
    cro_lambda_hausdorff: float = 0.3  # weight of Closure, summed over ordered source pairs
    cro_lambda_op: float = 0.3  # weight of |L (A_s - A_star)^T|, summed over sources
    cro_val_frac: float = 0.1  # share of each source's rows held out to judge the ascent
    cro_adv_epochs: int = 10
    cro_adv_batch: int = 64  # rows per source and step
    carried: bool = True  # each ascent starts where the last one ended


class FreeAdversary:
    """Adversary over any (L, A_1 ... A_K, A_star, g*) with A_s^T L = I, exactly, at every step.

    L is the orthonormal factor of a free matrix, and ``A_s = L + (I - L L^T) B_s`` with B_s free.
    (A change of basis of U turns any L into an orthonormal one and leaves every transplant as it
    is; D is whatever L annihilates.) At r = d nothing is left for B_s, and every transplant is the
    identity.

    ``rows`` are the standardized source rows [x, 1], ``slices`` the rows of each source, and
    ``start`` (C, d + 1) is the head at which g* begins.
    """

    def __init__(
        self,
        rows: WeightedSample,
        slices: Sequence[slice],
        start: Tensor,
        options: FreeAdversaryOptions,
        surrogate: SurrogateKind = "relabelled",
        seed: int = 0,
    ) -> None:
        d = rows.Z.shape[1] - 1
        if not 1 <= options.cro_rank <= d:
            raise ValueError(
                f"cro_rank is {options.cro_rank}, but the data has {d} feature(s): pass a rank "
                f"from 1 to {d}."
            )
        self._rows, self._slices, self._start = rows, tuple(slices), start
        self._options, self._surrogate = options, surrogate
        self._generator = torch.Generator().manual_seed(seed)
        self._pairs = pair_with_every_label(rows, len(start))
        held_out = [self._permutation(s) for s in self._slices]
        cuts = [math.ceil(options.cro_val_frac * len(order)) for order in held_out]
        self._validation = [order[:n] for order, n in zip(held_out, cuts, strict=True)]
        self._training = [order[n:] for order, n in zip(held_out, cuts, strict=True)]
        self._initialize()

    def attack(self, head: Tensor) -> Target:
        """Ascend from where the last attack ended, and return the best epoch on held-out rows."""
        if not self._options.carried:
            self._initialize()
        optimizer = torch.optim.Adam(self._parameters, self._options.cro_adv_lr)
        size = self._options.cro_adv_batch
        batches = min(map(len, self._training)) // size or 1
        total = self._options.cro_adv_epochs * batches
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total)
        best, best_value = self._flat_parameters(), -float("inf")
        for _ in range(self._options.cro_adv_epochs):
            orders = [rows[self._permutation(slice(0, len(rows)))] for rows in self._training]
            for i in range(batches):
                batch = slice(i * size, (i + 1) * size)
                objective = self._objective(head, [order[batch] for order in orders])
                optimizer.zero_grad()
                (-objective).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
            with torch.no_grad():
                value = float(self._objective(head, self._validation))
            if value > best_value:
                best, best_value = self._flat_parameters(), value
        self._set_parameters(best)
        return Target(self._sample(), best)

    def bases(self) -> tuple[Tensor, Tensor]:
        """Return L (d, r), and A_1 ... A_K, A_star (K + 1, d, r)."""
        with torch.no_grad():
            basis, free = self._split()
            return basis, basis + free

    def witness(self, target: Target, source_heads: Tensor) -> Witness:
        """Return the transplants behind a target, judged against source heads (K, C, d + 1)."""
        now = self._flat_parameters()
        self._set_parameters(target.z)
        basis, abductions = (functional.pad(m, (0, 0, 0, 1)) for m in self.bases())
        head = self._head.detach().clone()
        self._set_parameters(now)
        center = source_heads.mean(dim=1, keepdim=True)
        return measure_witness(
            head - head.mean(dim=0), source_heads - center, basis, abductions[-1], abductions[:-1]
        )

    def _initialize(self) -> None:
        d, r = self._rows.Z.shape[1] - 1, self._options.cro_rank
        shape = (len(self._slices) + 1, d, r)
        frame = self._draw_normal((d, r))
        free = _INITIAL_SCALE / math.sqrt(d) * self._draw_normal(shape)
        self._parameters = [p.requires_grad_() for p in (frame, free, self._start.clone())]
        self._power = self._draw_normal((len(self._slices), r, 1))

    @property
    def _head(self) -> Tensor:
        return self._parameters[2]

    def _split(self) -> tuple[Tensor, Tensor]:
        """Return L (d, r) and the parts of the abductions (K + 1, d, r) that L annihilates."""
        frame, free, _ = self._parameters
        basis = torch.linalg.qr(frame).Q
        return basis, free - basis @ (basis.T @ free)

    def _objective(self, head: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """Evaluate eq. `obj` on the given rows of each source."""
        options, n = self._options, len(rows)
        basis, free = self._split()
        shifts = free[:-1] - free[-1]  # (K, d, r)
        Z = [self._rows.Z[index] for index in rows]
        moved = [_transplant_rows(z, shift, basis) for z, shift in zip(Z, shifts, strict=True)]
        labels = [self._rows.y[index] for index in rows]
        fit = sum(
            functional.cross_entropy(m @ self._head.T, y) / n
            for m, y in zip(moved, labels, strict=True)
        )
        closure = sum(
            minibatch_hausdorff(_transplant_rows(Z[s], free[s] - free[t], basis), Z[t])
            for s, t in permutations(range(n), 2)
        )
        return (
            self._risk(head, Z, moved, labels)
            - options.cro_lambda_consist * fit
            - options.cro_lambda_hausdorff * closure
            - options.cro_lambda_op * self._operator_norms(free).sum()
        )

    def _risk(
        self, head: Tensor, Z: Sequence[Tensor], moved: Sequence[Tensor], labels: Sequence[Tensor]
    ) -> Tensor:
        """Return the risk of ``head`` on the surrogate of these rows, sources weighing equally."""
        if self._surrogate == "reweighted":
            weight = torch.cat([z.new_full((len(z),), 1 / (len(z) * len(Z))) for z in Z])
            rows = WeightedSample(torch.cat(list(Z)), torch.cat(list(labels)), weight)
            weight = reweight(rows, self._start, self._head).weight
            return weight @ losses(log_probabilities(rows.Z, head), rows.y)
        risks = []
        for points in moved if self._surrogate == "transplanted" else Z:
            share = torch.softmax(points @ self._head.T, dim=1)
            risks.append(-(share * log_probabilities(points, head)).sum(dim=1).mean())
        return torch.stack(risks).mean()

    def _operator_norms(self, free: Tensor) -> Tensor:
        """Return the operator norms (K,) of T_{s->star} - I.

        They are those of A_s - A_star, since L has norm one. One power iteration per step follows
        the slowly moving operators, from below.
        """
        shifts = free[:-1] - free[-1]
        with torch.no_grad():
            power = shifts.mT @ (shifts @ self._power)
            length = torch.linalg.vector_norm(power, dim=1, keepdim=True)
            self._power = torch.where(length > 0, power / length, self._power)
            self._power = self._power / torch.linalg.vector_norm(self._power, dim=1, keepdim=True)
        norms: Tensor = torch.linalg.vector_norm(shifts @ self._power, dim=(1, 2))
        return norms

    @torch.no_grad()
    def _sample(self) -> WeightedSample:
        head = self._head.detach().clone()
        if self._surrogate == "reweighted":
            return reweight(self._rows, self._start, head)
        if self._surrogate == "relabelled":
            return relabel(self._pairs, head)
        basis, free = self._split()
        pairs = zip(self._slices, free[:-1] - free[-1], strict=True)
        moved = [_transplant_rows(self._rows.Z[rows], shift, basis) for rows, shift in pairs]
        return relabel_moved(self._pairs, torch.cat(moved).repeat(len(head), 1), head)

    def _flat_parameters(self) -> Tensor:
        return torch.cat([p.detach().reshape(-1) for p in self._parameters])

    @torch.no_grad()
    def _set_parameters(self, flat: Tensor) -> None:
        pieces = torch.split(flat, [p.numel() for p in self._parameters])
        for parameter, values in zip(self._parameters, pieces, strict=True):
            parameter.copy_(values.reshape(parameter.shape))

    def _permutation(self, rows: slice) -> Tensor:
        n = rows.stop - rows.start
        order: Tensor = rows.start + torch.randperm(n, generator=self._generator)
        return order.to(self._rows.Z.device)

    def _draw_normal(self, shape: tuple[int, ...]) -> Tensor:
        Z = self._rows.Z
        return torch.randn(shape, generator=self._generator, dtype=Z.dtype).to(Z.device)


def _transplant_rows(Z: Tensor, shift: Tensor, basis: Tensor) -> Tensor:
    """Return rows [x, 1] with x transplanted: x + L (A_s - A_t)^T x."""
    x = Z[:, :-1]
    return torch.cat([x + (x @ shift) @ basis.T, Z[:, -1:]], dim=1)
