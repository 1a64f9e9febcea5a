import re
import warnings
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from regraft import Factorization, LatentFit
from regraft.core.domains import Domains, check_domains
from regraft.core.newton import minimax_newton
from regraft.core.whitening import fit_whitening
from regraft.premises.latent_groups import LatentOptions, OnRestart, Shift, fit_latent_domains
from tests.helpers.factorized_domains import FactorizedDomains
from tests.helpers.problems import make_problem


def draw(rng: np.random.Generator, p: NDArray[np.float64]) -> NDArray[np.intp]:
    """An outcome for each row of probabilities."""
    levels = p.cumsum(axis=1)
    return (levels[:, :-1] < rng.random((len(p), 1))).sum(axis=1)


def sample(maps: Factorization, n: int, seed: int) -> FactorizedDomains:
    """Rows of domains of different sizes, groups by the abductions, labels by the deduction."""
    rng = np.random.default_rng(seed)
    sources, d = maps.abductions.shape[0], maps.abductions.shape[1] - 1
    domain = np.sqrt(rng.random(n) * sources**2).astype(int)
    X = rng.standard_normal((n, d)) @ np.diag(np.linspace(0.5, 2, d)) + np.arange(d)
    rows, names = torch.from_numpy(X), torch.from_numpy(domain)
    group = draw(rng, maps.abduce(rows, names).numpy())
    y = draw(rng, maps.deduce(rows).numpy()[np.arange(n), group])
    return FactorizedDomains(X, y, domain, group, maps)


def random_maps(
    seed: int, d: int, groups: int, classes: int, sources: int, turn: float = 0.0
) -> Factorization:
    """Abductions of different intercepts, and slopes that differ by ``turn``."""
    rng = np.random.default_rng(seed)
    A = 1.2 * rng.standard_normal((d + 1, groups)) + np.zeros((sources, 1, 1))
    A[:, :-1] += turn * rng.standard_normal((sources, d, groups))
    D = 1.2 * rng.standard_normal((d + 1, groups, classes))
    centre = np.arange(d)  # of the rows, where both maps should be undecided
    D[-1] = -np.einsum("d,drc->rc", centre, D[:-1]) + rng.standard_normal((groups, classes))
    A[:, -1] = -centre @ A[:, :-1] + 1.5 * rng.standard_normal((sources, groups))
    return Factorization(torch.from_numpy(A), torch.from_numpy(D))


@cache
def well_posed(d: int, groups: int, classes: int) -> FactorizedDomains:
    return sample(random_maps(1, d, groups, classes, 3), 24_000, seed=2)


@cache
def well_fitted(d: int, groups: int, classes: int) -> LatentFit:
    """The fit of a model that the sources identify, which is warned of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return fit_latent_domains(
            well_posed(d, groups, classes).domains, groups, LatentOptions(ridge=1e-6, restarts=5)
        )


SHAPES = [(3, 2, 2), (4, 2, 3), (4, 3, 3)]


def mean_likelihood(maps: Factorization, domains: Domains) -> float:
    p = maps.predict(domains.X, domains.domain).gather(1, domains.y.unsqueeze(1)).squeeze(1)
    return float(domains.weight @ p.log())


def quietly(
    domains: Domains, groups: int, on_restart: OnRestart | None = None, **options: Any
) -> LatentFit:
    """Fit without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_latent_domains(domains, groups, LatentOptions(**options), on_restart)


@pytest.mark.parametrize("shape", SHAPES)
def test_truth_is_recovered_up_to_the_numbers_of_groups(shape: tuple[int, int, int]) -> None:
    truth, fit = well_posed(*shape), well_fitted(*shape)
    domains, found = truth.domains, fit.factorization
    abduced = truth.maps.abduce(domains.X, domains.domain).numpy()
    deduced = truth.maps.deduce(domains.X).numpy()
    ours = found.abduce(domains.X, domains.domain).numpy()
    order = min(permutations(range(shape[1])), key=lambda p: np.abs(abduced - ours[:, p]).sum())
    answers = found.deduce(domains.X).numpy()[:, order]
    for u in range(shape[1]):
        assert np.corrcoef(abduced[:, u], ours[:, order[u]])[0, 1] > 0.97
        assert np.corrcoef(deduced[:, u].ravel(), answers[:, u].ravel())[0, 1] > 0.97


@pytest.mark.parametrize("shape", SHAPES)
def test_well_posed_model_is_as_likely_as_the_truth(shape: tuple[int, int, int]) -> None:
    truth, fit = well_posed(*shape), well_fitted(*shape)
    assert fit.log_likelihood >= mean_likelihood(truth.maps, truth.domains)
    own = mean_likelihood(fit.factorization, truth.domains)
    assert fit.log_likelihood == pytest.approx(own, abs=1e-10)
    assert fit.warnings == () and fit.converged
    assert fit.agreement > 0.999
    assert fit.trace[-1] == max(fit.restart_values)
    assert len(fit.restart_values) == 5
    (d, groups, classes), domains = shape, well_posed(*shape).domains
    maps = well_fitted(*shape).factorization
    assert maps.abductions.shape == (3, d + 1, groups)
    assert maps.deduction.shape == (d + 1, groups, classes)
    for tensor in (maps.abductions, maps.deduction):
        assert float(tensor.mean(dim=2).abs().max()) < 1e-14
    shares = domains.weight @ maps.abduce(domains.X, domains.domain)
    assert bool((shares.diff() < 0).all())
    slopes, intercepts = maps.abductions[:, :-1], maps.abductions[:, -1]
    assert torch.allclose(slopes, slopes[:1].expand(3, -1, -1), atol=1e-13)
    assert float((intercepts[0] - intercepts[1]).abs().max()) > 0.1


def test_full_shift_recovers_slopes_and_contains_prior_shift() -> None:
    truth = sample(random_maps(3, 3, 2, 2, 3, turn=1.0), 12_000, seed=4)
    domains = truth.domains
    full = fit_latent_domains(domains, 2, LatentOptions(shift="full", ridge=1e-6, restarts=4))
    prior = quietly(domains, 2, ridge=1e-6, restarts=4)
    assert full.log_likelihood > prior.log_likelihood + 0.01
    assert full.log_likelihood >= mean_likelihood(truth.maps, domains)
    assert full.warnings == ()
    without = well_posed(3, 2, 2).domains
    nested = fit_latent_domains(without, 2, LatentOptions(shift="full", ridge=1e-6, restarts=3))
    assert nested.trace[-1] >= well_fitted(3, 2, 2).trace[-1]


@pytest.mark.parametrize("shift", ["prior", "full"])
def test_end_is_a_peak_of_the_penalized_likelihood(shift: Shift) -> None:
    """Value and slope by another way: the maps taken back to whitened rows, and autograd."""
    truth = sample(random_maps(5, 3, 2, 3, 2), 1_500, seed=6)
    domains = truth.domains
    fit = quietly(domains, 2, shift=shift, ridge=1e-3, restarts=1)
    whitening = fit_whitening(domains.X, domains.weight).with_shrinkage(0.1)
    Z = whitening(domains.X)[:, :-1]
    back = whitening.basis * whitening.scale

    def whiten(maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return back.T @ maps[:-1], maps[-1] + whitening.mean @ maps[:-1]

    slopes, intercepts = zip(*map(whiten, fit.factorization.abductions), strict=True)
    coef, constant = whiten(fit.factorization.deduction.flatten(1))
    if shift == "prior":
        assert torch.allclose(slopes[0], slopes[1])
        slopes = (slopes[0],)
    free = [*slopes, *intercepts, coef, constant]
    for tensor in free:
        tensor.requires_grad_()
    value = torch.zeros((), dtype=torch.float64)
    for s in range(2):
        rows = domains.domain == s
        slope = slopes[s if shift == "full" else 0]
        p_u = torch.softmax(Z[rows] @ slope + intercepts[s], dim=1)
        p_y = torch.softmax((Z[rows] @ coef + constant).reshape(-1, 2, 3), dim=2)
        labels = domains.y[rows, None, None].expand(-1, 2, 1)
        likelihood = (p_u * p_y.gather(2, labels).squeeze(2)).sum(dim=1)
        value = value + domains.weight[rows] @ likelihood.log()
        value = value - 1e-3 / 2 * (slope.square().sum() + intercepts[s].square().sum())
    value = value - 1e-3 * (coef.square().sum() + constant.square().sum())
    assert value.item() == pytest.approx(fit.trace[-1], abs=1e-10)
    for gradient in torch.autograd.grad(value, free):
        assert float(gradient.abs().max()) < 1e-5


@pytest.mark.parametrize("shift", ["prior", "full"])
def test_one_group_is_the_pooled_logistic_regression(shift: Shift) -> None:
    problem = make_problem(seed=1, classes=3, sources=3)
    domains = check_domains(problem.X, problem.y, problem.domain)
    fit = fit_latent_domains(domains, 1, LatentOptions(shift=shift, ridge=1e-2, restarts=2))
    whitening = fit_whitening(domains.X, domains.weight).with_shrinkage(0.1)
    Z = whitening(domains.X)
    zero = Z.new_zeros((3, Z.shape[1]))
    pooled = minimax_newton(
        Z, domains.y, domains.weight[None], ridge=1e-2, start=zero, tolerance=1e-12
    )
    assert -fit.trace[-1] == pytest.approx(pooled.value, abs=1e-9)
    expected = whitening.to_features(pooled.head)
    assert torch.allclose(fit.factorization.deduction[:, 0].T, expected, atol=1e-5)
    assert fit.warnings == ()


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(1, 4), st.sampled_from(["prior", "full"]))
def test_likelihood_never_falls(seed: int, groups: int, shift: Shift) -> None:
    rng = np.random.default_rng(seed)
    problem = make_problem(seed, n=60, d=3, classes=2 + seed % 2, sources=1 + seed % 3)
    domains = check_domains(problem.X, problem.y, problem.domain)
    ridge = float(10 ** rng.uniform(-6, -1))
    fit = quietly(domains, groups, shift=shift, ridge=ridge, restarts=2, seed=seed)
    assert len(fit.trace) > 1
    assert all(np.diff(fit.trace) >= 0)
    assert fit.trace[-1] <= fit.log_likelihood <= 0
    assert 0 <= fit.agreement <= 1


def test_order_of_rows_and_names_make_no_difference() -> None:
    truth = sample(random_maps(1, 3, 2, 3, 3), 3_000, seed=8)
    order = np.random.default_rng(0).permutation(len(truth.y))
    options = LatentOptions(restarts=4)
    fit = fit_latent_domains(truth.domains, 2, options)
    domains = check_domains(truth.X[order], truth.y[order], truth.domain[order])
    maps, others = fit.factorization, fit_latent_domains(domains, 2, options).factorization
    assert torch.allclose(others.abductions, maps.abductions, atol=1e-3)
    assert torch.allclose(others.deduction, maps.deduction, atol=1e-3)
    cycle = [1, 2, 0]  # new names: 0 becomes 1, 1 becomes 2, 2 becomes 0
    domains = check_domains(truth.X, np.take(cycle, truth.y), np.take(cycle, truth.domain))
    renamed = fit_latent_domains(domains, 2, options)
    others = renamed.factorization
    assert torch.allclose(others.abductions[cycle], maps.abductions, atol=1e-3)
    assert torch.allclose(others.deduction[..., cycle], maps.deduction, atol=1e-3)
    assert renamed.log_likelihood == pytest.approx(fit.log_likelihood, abs=1e-7)


def test_order_of_features_makes_no_difference_where_several_maps_fit_alike() -> None:
    truth = sample(random_maps(1, 3, 2, 4, 2), 1_500, seed=3)
    fit = quietly(truth.domains, 3, restarts=4)
    assert fit.agreement < 0.95
    order = np.random.default_rng(0).permutation(truth.X.shape[1])
    assert list(order) != sorted(order)
    moved = check_domains(-truth.X[:, order], truth.y, truth.domain)
    again = quietly(moved, 3, restarts=4)
    assert again.restart_values == pytest.approx(fit.restart_values, abs=1e-6)
    assert again.agreement == pytest.approx(fit.agreement, abs=1e-3)


def test_seed_decides_and_restarts_and_an_early_end_are_told() -> None:
    domains = sample(random_maps(1, 3, 2, 2, 2), 800, seed=9).domains
    told: list[tuple[int, float]] = []
    fit = quietly(domains, 2, restarts=3, on_restart=lambda *news: told.append(news))
    again = quietly(domains, 2, restarts=3)
    assert told == list(enumerate(fit.restart_values, start=1))
    assert again.trace == fit.trace
    assert torch.equal(again.factorization.deduction, fit.factorization.deduction)
    assert quietly(domains, 2, restarts=3, seed=1).trace != fit.trace
    domains = well_posed(3, 2, 2).domains
    fit = quietly(domains, 2, restarts=1, max_iterations=3)
    assert "the fit did not converge in 3 iterations: raise max_iterations." in fit.warnings
    assert not fit.converged
    assert len(fit.trace) == 4


@pytest.mark.parametrize(
    ("groups", "sources", "n", "options", "sentence"),
    [
        (4, 3, 2_000, {"ridge": 1e-4, "restarts": 5}, "do not identify 4 groups: lower groups"),
        # The ridge makes them one: with it, a group to spare is best spent on halving another.
        (5, 3, 4_000, {"ridge": 1e-2, "restarts": 3}, "groups . and . have the same deduction"),
        (2, 1, 1_000, {"restarts": 2}, "pass sample_domain with two or more domains"),
        (2, 2, 800, {"restarts": 1}, "reached by one of 1 restarts only"),
    ],
    ids=["too many groups", "one deduction twice", "one domain", "a lonely best restart"],
)
def test_doubtful_fits_are_warned_of(
    groups: int, sources: int, n: int, options: dict[str, Any], sentence: str
) -> None:
    domains = sample(random_maps(1, 3, 2, 3, sources), n, seed=10).domains
    with pytest.warns(UserWarning, match=sentence):
        fit = fit_latent_domains(domains, groups, LatentOptions(**options))
    assert sum(re.search(sentence, told) is not None for told in fit.warnings) == 1
    assert (fit.agreement < 0.95) == ("do not identify" in " ".join(fit.warnings))
    if options["restarts"] == 1:
        assert fit.agreement == 1


def test_groups_that_are_one_or_of_hardly_any_rows_are_warned_of() -> None:
    maps = random_maps(1, 3, 2, 3, 3)
    one = Factorization(maps.abductions, maps.deduction[:, :1].expand(-1, 2, -1))
    domains = sample(one, 4_000, seed=11).domains
    with pytest.warns(UserWarning, match="do not identify 2 groups: lower groups"):
        fit_latent_domains(domains, 2, LatentOptions(ridge=1e-5, restarts=6))
    # Labels turn around where the first feature, of deviation 0.5, is above 1.25 or so.
    abduction = torch.tensor([[0.0, 16.0], [0.0, 0.0], [0.0, -20.0]], dtype=torch.float64)
    abductions = abduction.expand(3, -1, -1).clone()
    abductions[:, -1, 1] += torch.tensor([-2.0, 0.0, 1.0])
    logit = torch.tensor([[0.0, 0.0], [2.0, -2.0], [-2.0, 2.0]], dtype=torch.float64)
    maps = Factorization(abductions, torch.stack([torch.zeros_like(logit), logit], dim=2))
    domains = sample(maps, 12_000, seed=12).domains
    with pytest.warns(UserWarning, match="1 of 2 groups have less than 1% of rows: lower groups"):
        fit = fit_latent_domains(domains, 2, LatentOptions(ridge=1e-6, restarts=4))
    assert fit.log_likelihood >= mean_likelihood(maps, domains)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"groups": 0}, "groups is 0: pass a number from 1 to 32"),
        ({"groups": 33}, "groups is 33: pass a number from 1 to 32"),
        ({"restarts": 0}, "restarts is 0: pass 1 or more"),
        ({"max_iterations": 0}, "max_iterations is 0: pass 1 or more"),
        ({"shift": "label"}, "shift is 'label': pass one of prior, full"),
        ({"ridge": 0.0}, "ridge is 0.0: pass a number of 1e-10 or more"),
        ({"ridge": float("nan")}, "ridge is nan"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], sentence: str) -> None:
    domains = well_posed(3, 2, 2).domains
    with pytest.raises(ValueError, match=sentence):
        fit_latent_domains(domains, options.pop("groups", 2), LatentOptions(**options))
