import numpy as np
import pytest

from regraft.moral.values import AXES, PANELS, PROFILES, Panel, profile_matrix, profile_name


def test_profiles_are_all_triples_and_names_show_signs() -> None:
    assert len(PROFILES) == len(set(PROFILES)) == 27
    assert PROFILES[:4] == ((1, 1, 1), (1, 1, 0), (1, 1, -1), (1, 0, 1))
    assert PROFILES[13] == (0, 0, 0)
    assert PROFILES[-1] == (-1, -1, -1)
    assert profile_matrix().tolist() == [list(profile) for profile in PROFILES]
    assert profile_name((1, 0, -1)) == "(+1,0,-1)"
    assert profile_name((-1, -1, 1)) == "(-1,-1,+1)"
    assert len({profile_name(profile) for profile in PROFILES}) == 27


def test_axes_describe_their_poles_and_are_independent() -> None:
    assert [axis.name for axis in AXES] == ["conseq", "indv", "care"]
    for axis in AXES:
        assert [axis.describe(pole) for pole in (1, 0, -1)] == [axis.plus, axis.zero, axis.minus]
        assert len({axis.plus, axis.zero, axis.minus}) == 3
    assert "consequentialist" in AXES[0].plus
    assert "collectivist" in AXES[1].minus
    assert "justice" in AXES[2].minus
    with pytest.raises(ValueError, match="no pole 2 of conseq: choose 1, 0 or -1"):
        AXES[0].describe(2)
    panel = Panel("odd", ((0.5, 0.3, 0.2), (0.6, 0.4, 0.0), (0.1, 0.2, 0.7)))
    prior = panel.profile_prior()
    assert prior[PROFILES.index((1, 1, -1))] == pytest.approx(0.5 * 0.6 * 0.7)
    assert prior[PROFILES.index((-1, 0, 1))] == pytest.approx(0.2 * 0.4 * 0.1)
    for axis in range(3):
        marginal = [prior[profile_matrix()[:, axis] == pole].sum() for pole in (1, 0, -1)]
        np.testing.assert_allclose(marginal, panel.prior[axis])


@pytest.mark.parametrize(
    ("index", "name", "masses", "modal"),
    [
        (0, "Pragmatist", (0.80, 0.10, 0.10), (1, 1, 1)),
        (1, "Idealist", (0.10, 0.10, 0.80), (-1, -1, -1)),
        (2, "Centrist", (0.10, 0.80, 0.10), (0, 0, 0)),
    ],
)
def test_panels_have_the_published_priors(
    index: int, name: str, masses: tuple[float, ...], modal: tuple[int, ...]
) -> None:
    panel = PANELS[index]
    assert panel.name == name
    assert panel.prior == (masses, masses, masses)
    prior = panel.profile_prior()
    assert prior.shape == (27,)
    assert prior.sum() == pytest.approx(1, abs=1e-15)
    assert PROFILES[prior.argmax()] == modal
    assert prior.max() == pytest.approx(0.512)  # 0.8 three times
    assert prior.min() == pytest.approx(0.001)
