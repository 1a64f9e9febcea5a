"""P(y, u | x) of the pooled sources, where it is known."""

import numpy as np
import torch

from regraft.core.abduction import find_groups, rows_of_sources
from regraft.core.group_heads import fit_group_heads
from tests.helpers.problems import Problem, make_problem


def _shapes_and_colours(n: int = 4000) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Two normal features, the shape of the label and a colour that agrees with it or not.

    Return the problem, which rows agree, and the true log-odds (n, 2) of the label by group.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=2 * n)
    domain = np.repeat(["a", "b"], n)
    agrees = rng.random(2 * n) < np.where(domain == "a", 0.9, 0.6)
    sign, colour = 2 * y - 1, np.where(agrees, y, 1 - y) * 2 - 1
    X = np.stack([sign, 3.0 * colour], axis=1) + rng.standard_normal((2 * n, 2))
    odds = 2 * X @ np.array([[1.0, -3.0], [1.0, 3.0]]).T  # of groups "differs" and "agrees"
    return Problem(X, y, domain), agrees, odds


def test_each_group_has_the_head_of_its_rows() -> None:
    problem, agrees, odds = _shapes_and_colours()
    sources = problem.sources
    groups = find_groups(rows_of_sources(sources))
    found = fit_group_heads(sources, groups)
    heads = found.heads
    assert heads.shape == (2, 2, 3)
    order = sources.order.numpy()
    logits = (sources.Z @ heads.flatten(0, 1).T).reshape(-1, 2, 2)
    for u in range(2):
        fitted = torch.sigmoid(logits[:, u, 1] - logits[:, u, 0]).numpy()
        truth = 1 / (1 + np.exp(-odds[order, u]))
        assert np.abs(fitted - truth).mean() < 0.02
    # Whether colour and shape agree is no linear function of the two, and is found all the same.
    share = torch.softmax(logits.flatten(1), dim=1).reshape(-1, 2, 2).sum(dim=2)[:, 1].numpy()
    bins = np.digitize(share, [0.5, 0.7, 0.9])
    for b in range(4):
        assert abs(agrees[order][bins == b].mean() - share[bins == b].mean()) < 0.05
    # Models that have not seen the rows say nearly the same of them, and no more on average.
    unseen = found.log_joint.exp()
    assert torch.equal(found.rows, torch.arange(len(order)))
    np.testing.assert_allclose(unseen.sum(dim=2)[:, 1].numpy(), share, atol=0.1)
    np.testing.assert_allclose(unseen.sum(dim=2).mean(0), groups.posterior.mean(0), atol=1e-3)


def test_without_a_factor_the_head_is_the_pooled_one() -> None:
    problem = make_problem()
    shuffled = np.random.default_rng(0).permutation(problem.domain)
    sources = Problem(problem.X, problem.y, shuffled).sources
    groups = find_groups(rows_of_sources(sources))
    assert groups.n_groups == 1
    assert torch.equal(fit_group_heads(sources, groups).heads[0], sources.pooled)
