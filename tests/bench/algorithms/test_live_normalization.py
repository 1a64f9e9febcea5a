"""What batch normalization that is not frozen sees, and the shortcuts where there is none."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regraft.bench.algorithms import gradient_masks, sagnet, transfer
from regraft.bench.networks.domainbed import Dropout, is_plain
from tests.helpers.small_tasks import draw_batch, gradients, make

K, PIXELS = 2, (3, 32, 32)
# How many batches pass through DomainBed's network in one step with K domains.
TOGETHER = (
    *("ERM", "IRM", "DANN", "CDANN", "ARM", "VREx", "RSC", "SD", "SelfReg", "Fishr", "TRM"),
    *("IB_ERM", "IB_IRM", "CAD", "CondCAD", "RDM", "ADRMX", "ERMPlusPlus", "URM"),
)
ONE_BY_ONE = (
    *("GroupDRO", "Mixup", "CORAL", "MMD", "MTL", "ANDMask", "SANDMask", "IGA"),
    *("CausIRL_CORAL", "CausIRL_MMD", "EQRM"),
)
PASSES = {
    **dict.fromkeys(TOGETHER, 1),
    **dict.fromkeys(ONE_BY_ONE, K),
    "MLDG": 0,  # its network's copies see them
    "SagNet": 3,
    "Transfer": 1 + K + 3 * K,  # the loss, the gap, and three steps of the adversary
}


@pytest.mark.parametrize("name", PASSES)
def test_statistics_see_as_many_batches_as_in_domainbed(name: str) -> None:
    model = make(name, K, input_shape=PIXELS, compat=True, d_steps_per_g=3)
    model.task = replace(model.task, per_domain=True)
    x, y = draw_batch(K, 4, input_shape=PIXELS)
    model.update(0, x, y)
    counts = [
        int(layer.num_batches_tracked)
        for layer in model.featurizer.modules()
        if isinstance(layer, nn.BatchNorm2d)
    ]
    assert counts == [PASSES[name]] * len(counts) and len(counts) == 13


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("ANDMask", gradient_masks),
        ("SANDMask", gradient_masks),
        ("IGA", gradient_masks),
        ("SagNet", sagnet),
        ("Transfer", transfer),
    ],
)
def test_shortcuts_change_nothing(
    name: str, module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = draw_batch(3)
    short, long = (make(name, 3, tau=0.5).double() for _ in range(2))
    for step in range(3):
        logged = short.update(step, x.double(), y)
        with monkeypatch.context() as patch:
            patch.setattr(module, "is_plain", lambda network: False)
            torch.testing.assert_close(long.update(step, x.double(), y), logged)
        torch.testing.assert_close(gradients(long), gradients(short), rtol=1e-9, atol=1e-12)
        state = short.state_dict()
        torch.testing.assert_close(dict(long.state_dict()), dict(state), rtol=1e-9, atol=1e-12)


def test_gradients_of_rows_by_formula_are_those_of_autograd() -> None:
    model = make("Fishr", 2, n_classes=3).double()
    features, labels = torch.randn(9, 8, dtype=torch.double), torch.arange(9) % 3
    by_formula = model.row_gradients(features, labels)
    model.classifier = nn.Sequential(model.classifier)  # which has no formula
    torch.testing.assert_close(by_formula, model.row_gradients(features, labels))


def test_networks_whose_rows_have_nothing_to_do_with_one_another() -> None:
    assert is_plain(make("ERM").featurizer)
    assert is_plain(make("ERM", input_shape=(2, 28, 28)).featurizer)
    assert not is_plain(make("ERM", input_shape=PIXELS).featurizer)
    assert not is_plain(nn.Sequential(nn.Linear(2, 2), Dropout(0.1, torch.Generator())))
