"""Example data to try the library on: a generator with known truth, and Colored MNIST."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from safetensors import safe_open
from sklearn.utils import check_random_state

# The shipped bank of each Colored MNIST cell, a cell being the domain that stays unseen.
_BANKS = {"-90%": "cmnist_2.safetensors", "+90%": "cmnist_0.safetensors"}
_PIXELS = "cmnist_pixels.safetensors"


@dataclass(frozen=True)
class ConfoundedDomains:
    """Rows of K sources and of an unseen domain, with the truth behind them.

    Features are ``cause_directions[cause] + confounder_directions[confounder]`` plus noise.
    """

    X: NDArray[np.float64]  # (n, d)
    y: NDArray[np.int64]  # (n,)
    sample_domain: NDArray[np.str_]  # (n,) "source 0", "source 1", ...
    X_target: NDArray[np.float64]  # (m, d) the unseen domain
    y_target: NDArray[np.int64]  # (m,)
    cause: NDArray[np.int64]  # (n,)
    confounder: NDArray[np.int64]  # (n,)
    cause_target: NDArray[np.int64]  # (m,)
    confounder_target: NDArray[np.int64]  # (m,)
    cause_directions: NDArray[np.float64]  # (C, d)
    confounder_directions: NDArray[np.float64]  # (C, d)
    permutation: NDArray[np.int64]  # (C,) the unseen domain's favoured confounder of each label


@dataclass(frozen=True)
class DemoBank:
    """Colored MNIST embeddings: two source domains and an unseen one.

    A domain is named after the correlation of colour and label. ``colour`` is the truth behind
    the confounder, to measure with and never to fit on.
    """

    X: NDArray[np.float64]  # (n, 128)
    y: NDArray[np.int64]  # (n,) 0 or 1
    sample_domain: NDArray[np.str_]  # (n,)
    X_target: NDArray[np.float64]  # (m, 128)
    y_target: NDArray[np.int64]  # (m,)
    colour: NDArray[np.int64]  # (n,) 0 or 1
    colour_target: NDArray[np.int64]  # (m,)
    target: str  # name of the unseen domain


@dataclass(frozen=True)
class DemoPixels:
    """Coloured digits, and the rows of the demo's sources that were made from them."""

    row: NDArray[np.int64]  # (m,) into the source rows of load_demo
    images: NDArray[np.uint8]  # (m, 28, 28, 3) red, green and blue
    y: NDArray[np.uint8]  # (m,)
    colour: NDArray[np.uint8]  # (m,) 0 is red, 1 is green


def load_demo(cell: str = "-90%") -> DemoBank:
    """Load the shipped Colored MNIST embeddings.

    The featurizer was trained by ERM on the sources.

    Parameters
    ----------
    cell : {"-90%", "+90%"}
        The domain that is unseen. "-90%" reverses the sources' correlation of colour and label;
        "+90%" is the easy cell, for seeing what robustness costs.

    Returns
    -------
    DemoBank
        Rows of two sources and of the unseen domain.

    Raises
    ------
    ValueError
        If there is no such cell.
    """
    with _open_shipped(_demo_file(cell)) as bank:
        metadata = bank.metadata()
        columns = {name: bank.get_tensor(name).astype(np.int64) for name in ("y", "colour")}
        columns["X"] = bank.get_tensor("X").astype(np.float64)
        domain = np.array(metadata["environments"].split(","))[bank.get_tensor("env")]
    unseen = domain == metadata["target"]
    return DemoBank(
        **{name: column[~unseen] for name, column in columns.items()},
        **{f"{name}_target": column[unseen] for name, column in columns.items()},
        sample_domain=domain[~unseen],
        target=metadata["target"],
    )


def load_demo_pixels(cell: str = "-90%") -> DemoPixels:
    """Load the images of the first rows of each source of a cell."""
    number = _demo_file(cell).removeprefix("cmnist_").partition(".")[0]
    with _open_shipped(_PIXELS) as pixels:
        row, grey, y, colour = (
            pixels.get_tensor(f"{name}_{number}") for name in ("row", "images", "y", "colour")
        )
    images = np.zeros((*grey.shape, 3), np.uint8)
    images[np.arange(len(grey)), :, :, colour] = grey
    return DemoPixels(row, images, y, colour)


@contextmanager
def _open_shipped(name: str) -> Iterator[Any]:
    with (
        as_file(files("regraft") / "data" / name) as path,
        safe_open(path, framework="numpy") as file,
    ):
        yield file


def _demo_file(cell: str) -> str:
    if cell not in _BANKS:
        raise ValueError(f"cell is {cell!r}: pass one of {', '.join(map(repr, _BANKS))}.")
    return _BANKS[cell]


def make_confounded_domains(
    n_samples: int = 2000,
    *,
    n_classes: int = 2,
    strengths: Sequence[float] = (0.9, 0.8),
    n_target: int | None = None,
    n_features: int = 20,
    cause_signal: float = 2.7,
    confounder_signal: float = 5.5,
    noise: float = 1.0,
    label_noise: float = 0.25,
    random_state: int | RandomState | None = None,
) -> ConfoundedDomains:
    """Draw sources in which a confounder predicts the label, and a domain in which it misleads.

    A uniform cause in {0..C-1} determines the label. The confounder agrees with the label at a
    rate of its own in each source; in the unseen domain it agrees, at the first source's rate,
    with a cyclic shift of the label. Cause and confounder enter the features linearly, along
    random orthonormal directions, the confounder more loudly: that is what misleads ERM.

    Parameters
    ----------
    n_samples : int
        Rows of each source.
    n_classes : int
        Number C of classes, of causes and of confounders.
    strengths : sequence of float
        Probability, source by source, that the confounder equals the label; else it is uniform
        over the other values. ``(1 / C,) * K`` gives K sources without confounding.
    n_target : int or None
        Rows of the unseen domain; None takes ``n_samples``.
    n_features : int
        Number d of features, at least 2 C.
    cause_signal, confounder_signal : float
        Length of the codes of the cause and of the confounder.
    noise : float
        Standard deviation of the Gaussian noise on every feature.
    label_noise : float
        Probability that the label is not the cause but uniform over the other classes.
    random_state : int, RandomState or None
        As in scikit-learn: an int makes the data reproducible.

    Returns
    -------
    ConfoundedDomains
        The rows, and the truth behind them.

    Raises
    ------
    ValueError
        If a size, a probability or a length is out of range.
    """
    n_target = n_samples if n_target is None else n_target
    _check_sizes(n_samples, n_target, n_classes, n_features)
    _check_probabilities(strengths, label_noise)
    for name, value in (
        ("cause_signal", cause_signal),
        ("confounder_signal", confounder_signal),
        ("noise", noise),
    ):
        if not value >= 0 or not np.isfinite(value):
            raise ValueError(f"{name} is {value}: pass a finite number, 0 or more.")
    random = check_random_state(random_state)
    directions = np.linalg.qr(random.standard_normal((n_features, 2 * n_classes)))[0].T
    cause_directions = cause_signal * directions[:n_classes]
    confounder_directions = confounder_signal * directions[n_classes:]
    identity = np.arange(n_classes)
    permutation = np.roll(identity, -1)

    def draw(n: int, strength: float, favoured: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        cause = random.randint(n_classes, size=n)
        y = _keep_or_change(cause, 1 - label_noise, n_classes, random)
        confounder = _keep_or_change(favoured[y], strength, n_classes, random)
        X = cause_directions[cause] + confounder_directions[confounder]
        X += noise * random.standard_normal(X.shape)
        return {"X": X, "y": y, "cause": cause, "confounder": confounder}

    sources = [draw(n_samples, strength, identity) for strength in strengths]
    target = draw(n_target, strengths[0], permutation)
    return ConfoundedDomains(
        **{name: np.concatenate([source[name] for source in sources]) for name in target},
        **{f"{name}_target": column for name, column in target.items()},
        sample_domain=np.repeat([f"source {s}" for s in range(len(strengths))], n_samples),
        cause_directions=cause_directions,
        confounder_directions=confounder_directions,
        permutation=permutation,
    )


def _keep_or_change(
    values: NDArray[np.int64], probability: float, n_values: int, random: RandomState
) -> NDArray[np.int64]:
    """Keep each value with ``probability``, else draw one of the others uniformly."""
    change = random.uniform(size=len(values)) >= probability
    return (values + change * random.randint(1, n_values, size=len(values))) % n_values


def _check_sizes(n_samples: int, n_target: int, n_classes: int, n_features: int) -> None:
    if n_classes < 2:
        raise ValueError(f"n_classes is {n_classes}: pass 2 or more.")
    if n_features < 2 * n_classes:
        raise ValueError(
            f"n_features is {n_features}, too few for orthogonal codes of {n_classes} causes and "
            f"{n_classes} confounders: pass {2 * n_classes} or more."
        )
    for name, n in (("n_samples", n_samples), ("n_target", n_target)):
        if n < 1:
            raise ValueError(f"{name} is {n}: pass 1 or more.")


def _check_probabilities(strengths: Sequence[float], label_noise: float) -> None:
    if len(strengths) == 0:
        raise ValueError("strengths is empty: pass one probability per source.")
    for strength in strengths:
        if not 0 <= strength <= 1:
            raise ValueError(f"strengths holds {strength}: pass probabilities, from 0 to 1.")
    if not 0 <= label_noise <= 1:
        raise ValueError(f"label_noise is {label_noise}: pass a probability, from 0 to 1.")
