"""The shipped images are those behind the shipped embeddings."""

from importlib.resources import files

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

from regraft.data.examples import load_demo, load_demo_pixels


@pytest.mark.parametrize("cell", ["-90%", "+90%"])
def test_labels_and_colours_are_those_of_the_rows(cell: str) -> None:
    pixels, bank = load_demo_pixels(cell), load_demo(cell)
    np.testing.assert_array_equal(pixels.y, bank.y[pixels.row])
    np.testing.assert_array_equal(pixels.colour, bank.colour[pixels.row])
    _, counts = np.unique(bank.sample_domain[pixels.row], return_counts=True)
    assert counts.tolist() == [120, 120]
    brightness = pixels.images.sum(axis=(1, 2), dtype=int)  # (m, 3)
    np.testing.assert_array_equal(brightness.argmax(axis=1), pixels.colour)
    assert (np.count_nonzero(brightness, axis=1) == 1).all()


@pytest.mark.parametrize("cell", ["-90%", "+90%"])
def test_features_tell_how_much_ink_an_image_has(cell: str) -> None:
    """Those of other images would tell nothing."""
    pixels, bank = load_demo_pixels(cell), load_demo(cell)
    ink = pixels.images.sum(axis=(1, 2, 3), dtype=float)
    X = StandardScaler().fit_transform(bank.X[pixels.row])
    assert np.corrcoef(ink, cross_val_predict(Ridge(100), X, ink))[0, 1] > 0.8


def test_they_are_small_and_a_cell_without_them_is_told() -> None:
    assert (files("regraft") / "data" / "cmnist_pixels.safetensors").stat().st_size <= 400_000
    with pytest.raises(ValueError, match="cell is '50%': pass one of"):
        load_demo_pixels("50%")
