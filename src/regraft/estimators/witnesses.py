"""Transplants behind the plausible targets of a fitted CROClassifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate
from regraft.core.latent_witness import find_factorized_witness, find_latent_witness
from regraft.core.transplant import Witness, affine_combination, find_witness

if TYPE_CHECKING:
    from regraft.estimators.cro import CROClassifier

_LARGEST_SHARE = 0.99  # of the worst group in the default target of a witness


def witness_of(model: CROClassifier, weights: Mapping[Any, float] | None) -> Witness:
    """Return the transplants to a target of ``weights``, in raw features with a constant 1."""
    if isinstance(model.certificate_, GroupCertificate):
        witness = _latent(model, model.certificate_, weights)
    else:
        assert isinstance(model.certificate_, HeadCertificate)
        names = [str(name) for name in model.domains_]
        chosen = model.certificate_.worst_target if weights is None else weights
        given = _shares_of(chosen, names, "domains")
        coefficients = torch.tensor([given[name] for name in names], dtype=torch.float64)
        if model.family == "factorized":
            maps = _scaled(model, model.abductions_)
            deduction = _scaled(model, model.deduction_)
            target = affine_combination(maps, coefficients)
            witness = find_factorized_witness(target, sources=maps, deduction=deduction)
        else:
            heads = _scaled(model, model.hull_heads_)
            witness = find_witness(affine_combination(heads, coefficients), heads)
    return witness.in_features(torch.from_numpy(model.feature_mean_), model.feature_scale_)


def _latent(
    model: CROClassifier, certificate: GroupCertificate, weights: Mapping[Any, float] | None
) -> Witness:
    G = certificate.n_groups
    if G == 1:
        raise ValueError(
            "no hidden factor was found, so there is no target to transplant to: fit on sources "
            'that differ, or pass family="hull".'
        )
    numbers = [str(u) for u in range(G)]
    if weights is None:
        risks = [each.risk for each in certificate.targets[:G]]
        worst = max(range(len(risks)), key=risks.__getitem__)
        rest = (1 - _LARGEST_SHARE) / (G - 1)
        weights = {u: _LARGEST_SHARE if u == worst else rest for u in range(G)}
    given = _shares_of(weights, numbers, "groups")
    shares = torch.tensor(certificate.abduction["shares"], dtype=torch.float64)
    head = model._head
    return find_latent_witness(
        _scaled(model, model.group_map_),
        _scaled(model, head),
        shares.mean(dim=0),
        shares,
        shares.new_tensor([given[u] for u in numbers]),
    )


def _scaled(model: CROClassifier, heads: NDArray[np.float64]) -> Tensor:
    """Return heads on centred and scaled features, where all weights are of one size."""
    tensor = torch.from_numpy(heads)
    coef, mean = tensor[..., :-1], torch.from_numpy(model.feature_mean_)
    intercept = tensor[..., -1:] + (coef @ mean).unsqueeze(-1)
    return torch.cat([model.feature_scale_ * coef, intercept], dim=-1)


def _shares_of(weights: Mapping[Any, float], names: list[str], what: str) -> dict[str, float]:
    given = {str(name): float(value) for name, value in weights.items()}
    if sorted(given) != sorted(names):
        raise ValueError(
            f"weights names the {what} {sorted(given)}: give one weight for each of {names}."
        )
    return given
