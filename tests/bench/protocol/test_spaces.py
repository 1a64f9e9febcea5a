"""Hyperparameters against the values that DomainBed's own code draws."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.bench.algorithms import algorithms, find_algorithm
from regraft.bench.protocol.spaces import Group, common_space, constant, draw_configuration

COMMON = {
    "resnet_dropout": 0.5,
    "lr": 0.00011906162909279594,
    "weight_decay": 0.0,
    "batch_size": 372,
}
ADVERSARIAL = {
    "lambda": 3.500347568342894,
    "weight_decay_d": 0.00010096814830489473,
    "d_steps_per_g_step": 7,
    "grad_penalty": 3.044417571888086,
    "beta1": 0.5,
    "mlp_width": 255,
    "mlp_depth": 4,
    "mlp_dropout": 0.5,
    "lr_g": 0.0015950807441571075,
    "lr_d": 6.700771289296927e-05,
    "weight_decay_g": 0.0,
}
# Configuration 1 of trial 0 on images of 28 x 28 pixels, beside the common ones.
RECORDED: dict[str, dict[str, Any]] = {
    "ERM": {},
    "IRM": {"irm_lambda": 65030.52212762795, "irm_penalty_anneal_iters": 2},
    "GroupDRO": {"groupdro_eta": 0.01297606872689568},
    "Mixup": {"mixup_alpha": 0.6313491980790861},
    "MLDG": {"mldg_beta": 5.4211455811356215, "n_meta_test": 1},
    "CORAL": {"mmd_gamma": 1.4227570299330277},
    "MMD": {"mmd_gamma": 1.4227570299330277},
    "DANN": ADVERSARIAL,
    "CDANN": ADVERSARIAL,
    "MTL": {"mtl_ema": 0.99},
    "SagNet": {"sag_w_adv": 0.010638215739319792},
    "ARM": {},
    "VREx": {"vrex_lambda": 3307.1978049278796, "vrex_penalty_anneal_iters": 47},
    "RSC": {"rsc_f_drop_factor": 0.4041248591083744, "rsc_b_drop_factor": 0.2581555339499306},
    "ADRMX": {
        "cnt_lambda": 1.0,
        "dclf_lambda": 1.0,
        "disc_lambda": 0.75,
        "rmxd_lambda": 1.0,
        "d_steps_per_g_step": 2,
        "beta1": 0.5,
        "mlp_width": 256,
        "mlp_depth": 9,
        "mlp_dropout": 0,
        "lr": 0.001,
    },
    "ANDMask": {"tau": 0.6967161137765769},
    "CAD": {
        "lmbda": 0.1,
        "temperature": 0.05,
        "is_normalized": False,
        "is_project": False,
        "is_flipped": True,
    },
    "CausIRL_CORAL": {"mmd_gamma": 1.4227570299330277},
    "CausIRL_MMD": {"mmd_gamma": 1.4227570299330277},
    "CondCAD": {
        "lmbda": 0.1,
        "temperature": 0.05,
        "is_normalized": False,
        "is_project": False,
        "is_flipped": True,
    },
    "EQRM": {
        "eqrm_quantile": 0.7335553271795177,
        "eqrm_burnin_iters": 423.2761238000087,
        "eqrm_lr": 4.377815305398272e-06,
    },
    "ERMPlusPlus": {"linear_lr": 2.7696523567489467e-05},
    "Fish": {"meta_lr": 0.5},
    "Fishr": {"lambda": 809.251247284292, "penalty_anneal_iters": 4072, "ema": 0.9129082782560279},
    "IB_ERM": {"ib_lambda": 2.661822006035993, "ib_penalty_anneal_iters": 1222},
    "IB_IRM": {
        "irm_lambda": 65030.52212762795,
        "irm_penalty_anneal_iters": 2,
        "ib_lambda": 2.661822006035993,
        "ib_penalty_anneal_iters": 1222,
    },
    "IGA": {"penalty": 2400.017030810722},
    "RDM": {
        "rdm_lambda": 9.313185094706313,
        "rdm_penalty_anneal_iters": 1092,
        "variance_weight": 0.004685630281242425,
        "rdm_lr": 1.5055122785774706e-05,
    },
    "SANDMask": {"tau": 0.3934322275531539, "k": 1109.9255081776537},
    "SD": {"sd_reg": 0.00032197228403631824},
    "SelfReg": {},
    "TRM": {"cos_lambda": 2.2217779996347212e-05, "iters": 16, "groupdro_eta": 0.01297606872689568},
    "Transfer": {
        "t_lambda": 0.26535225943004515,
        "delta": 2.702212143805776,
        "d_steps_per_g": 1,
        "weight_decay_d": 0.00010096814830489473,
        "gda": True,
        "beta1": 0.5,
        "lr_d": 6.700771289296927e-05,
    },
    "URM": {
        "urm": "adversarial",
        "urm_adv_lambda": 0.15952849736568256,
        "urm_discriminator_label_smoothing": 0.0,
        "urm_discriminator_optimizer": "adam",
        "urm_discriminator_hidden_layers": 1,
        "urm_generator_output": "relu",
        "urm_discriminator_lr": 0.00023824488158279828,
    },
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "ERM": {},
    "IRM": {"irm_lambda": 100.0, "irm_penalty_anneal_iters": 500},
    "GroupDRO": {"groupdro_eta": 0.01},
    "Mixup": {"mixup_alpha": 0.2},
    "MLDG": {"mldg_beta": 1.0, "n_meta_test": 2},
    "CORAL": {"mmd_gamma": 1.0},
    "MMD": {"mmd_gamma": 1.0},
    "DANN": {
        "lambda": 1.0,
        "weight_decay_d": 0.0,
        "d_steps_per_g_step": 1,
        "grad_penalty": 0.0,
        "beta1": 0.5,
        "mlp_width": 256,
        "mlp_depth": 3,
        "mlp_dropout": 0.0,
        "lr_g": 1e-3,
        "lr_d": 1e-3,
        "weight_decay_g": 0.0,
    },
    "MTL": {"mtl_ema": 0.99},
    "SagNet": {"sag_w_adv": 0.1},
    "ARM": {},
    "VREx": {"vrex_lambda": 10.0, "vrex_penalty_anneal_iters": 500},
    "RSC": {"rsc_f_drop_factor": 1 / 3, "rsc_b_drop_factor": 1 / 3},
    "ADRMX": {
        "cnt_lambda": 1.0,
        "dclf_lambda": 1.0,
        "disc_lambda": 0.75,
        "rmxd_lambda": 1.0,
        "d_steps_per_g_step": 2,
        "beta1": 0.5,
        "mlp_width": 256,
        "mlp_depth": 9,
        "mlp_dropout": 0.0,
        "lr": 0.003,
    },
    "ANDMask": {"tau": 1},
    "CAD": {
        "lmbda": 0.1,
        "temperature": 0.1,
        "is_normalized": False,
        "is_project": False,
        "is_flipped": True,
    },
    "CausIRL_CORAL": {"mmd_gamma": 1.0},
    "CausIRL_MMD": {"mmd_gamma": 1.0},
    "CondCAD": {
        "lmbda": 0.1,
        "temperature": 0.1,
        "is_normalized": False,
        "is_project": False,
        "is_flipped": True,
    },
    "EQRM": {"eqrm_quantile": 0.75, "eqrm_burnin_iters": 2500, "eqrm_lr": 1e-06},
    "ERMPlusPlus": {"linear_lr": 5e-05, "linear_steps": 500, "lars": False},
    "Fish": {"meta_lr": 0.5},
    "Fishr": {"lambda": 1000.0, "penalty_anneal_iters": 1500, "ema": 0.95},
    "IB_ERM": {"ib_lambda": 100.0, "ib_penalty_anneal_iters": 500},
    "IB_IRM": {
        "irm_lambda": 100.0,
        "irm_penalty_anneal_iters": 500,
        "ib_lambda": 100.0,
        "ib_penalty_anneal_iters": 500,
    },
    "IGA": {"penalty": 1000},
    "RDM": {
        "rdm_lambda": 5.0,
        "rdm_penalty_anneal_iters": 1500,
        "variance_weight": 0.004,
        "rdm_lr": 1.5e-05,
    },
    "SANDMask": {"tau": 1.0, "k": 10.0},
    "SD": {"sd_reg": 0.1},
    "SelfReg": {},
    "TRM": {"cos_lambda": 0.0001, "iters": 200, "groupdro_eta": 0.01},
    "Transfer": {
        "t_lambda": 1.0,
        "delta": 2.0,
        "d_steps_per_g": 10,
        "weight_decay_d": 0.0,
        "gda": False,
        "beta1": 0.5,
        "lr_d": 0.001,
    },
    "URM": {
        "urm": "adversarial",
        "urm_adv_lambda": 0.1,
        "urm_discriminator_label_smoothing": 0,
        "urm_discriminator_optimizer": "adam",
        "urm_discriminator_hidden_layers": 1,
        "urm_generator_output": "tanh",
        "urm_discriminator_lr": 0.001,
    },
}
DEFAULTS["CDANN"] = DEFAULTS["DANN"]
GROUPS: tuple[Group, ...] = ("small images", "images", "features")


def draw(name: str, group: Group, hparams_seed: int) -> dict[str, Any]:
    return draw_configuration(find_algorithm(name).space(group), hparams_seed, 0)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_configurations(name: str) -> None:
    expected = {**COMMON, **RECORDED[name]}
    drawn = draw(name, "small images", 1)
    assert {key: drawn[key] for key in expected} == expected


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name: str) -> None:
    expected = {"lr": 1e-3, "weight_decay": 0.0, "batch_size": 64, "resnet_dropout": 0.0}
    drawn = draw(name, "small images", 0)
    # What is not expected is common to all: no algorithm has a hyperparameter too many.
    assert drawn == {**draw("ERM", "small images", 0), **expected, **DEFAULTS[name]}


def test_all_algorithms_have_domainbeds_common_names() -> None:
    """So that hyperparameters copied from one of its records are taken; one more is ours."""
    names = {"data_augmentation", "resnet18", "resnet50_augmix", "dinov2", "vit", "vit_attn_tune"}
    names |= {"freeze_bn", "lars", "linear_steps", "resnet_dropout", "vit_dropout"}
    names |= {"class_balanced", "nonlinear_classifier", "lr", "weight_decay", "batch_size"}
    assert draw("ERM", "small images", 0).keys() == draw("ERM", "images", 0).keys()
    assert draw("ERM", "images", 0).keys() == names | {"pretrained"}


def test_recorded_configuration_of_large_images() -> None:
    """Of VLCS and of PACS."""
    expected = {
        "lr": 2.7028930742148706e-05,
        "batch_size": 39,
        "weight_decay": 0.00044832883881609976,
        "resnet_dropout": 0.5,
    }
    drawn = draw("ERM", "images", 1)
    assert {key: drawn[key] for key in expected} == expected
    default = draw("ERM", "images", 0)
    assert (default["lr"], default["batch_size"], default["weight_decay"]) == (5e-5, 32, 0.0)
    # Over many draws, ends included or not reached.
    drawn = [draw("RSC", "small images", seed) for seed in range(1, 200)]
    rates, sizes = [d["lr"] for d in drawn], [d["batch_size"] for d in drawn]
    assert 10**-4.5 <= min(rates) < 10**-4.3 and 10**-2.7 < max(rates) <= 10**-2.5
    assert min(sizes) == 8 and 400 < max(sizes) < 512
    assert {d["resnet_dropout"] for d in drawn} == {0.0, 0.1, 0.5}
    assert all(0 <= d["rsc_f_drop_factor"] <= 0.5 for d in drawn)


@given(
    st.sampled_from(sorted(algorithms())),
    st.sampled_from(GROUPS),
    st.integers(0, 1000),
    st.integers(0, 10),
)
def test_draws_are_plain_data(name: str, group: Group, hparams_seed: int, trial_seed: int) -> None:
    space = find_algorithm(name).space(group)
    drawn = draw_configuration(space, hparams_seed, trial_seed)
    assert json.loads(json.dumps(drawn)) == drawn
    assert not any(isinstance(value, np.generic) for value in drawn.values())


@pytest.mark.parametrize("group", GROUPS)
def test_a_draw_depends_on_its_own_name_alone(group: Group) -> None:
    """A common hyperparameter is the same for all algorithms and in any order."""
    space = common_space(group)
    backwards = dict(reversed(space.items()))
    for hparams_seed in range(1, 5):
        drawn = draw_configuration(space, hparams_seed, 0)
        assert drawn == draw_configuration(backwards, hparams_seed, 0)
        assert drawn == {key: draw("MLDG", group, hparams_seed)[key] for key in space}
        assert drawn["lr"] != draw_configuration(space, hparams_seed, 1)["lr"]


def test_ranges_that_depend_on_the_dataset_are_domainbeds() -> None:
    """Of RDM's defaults: weight, step of the change, weight of the variance, rows."""
    names = ("rdm_lambda", "rdm_penalty_anneal_iters", "variance_weight", "batch_size")
    for dataset, expected in (
        ("PACS", (5.0, 1500, 0.004, 88)),
        ("TerraIncognita", (5.0, 1500, 0.0, 40)),
        ("OfficeHome", (5.0, 1500, 0.0, 88)),
        ("DomainNet", (0.5, 2400, 0.0, 40)),
    ):
        space = find_algorithm("RDM").space("images", {"batch_size": constant(32)}, dataset)
        drawn = draw_configuration(space, 0, 0)
        assert tuple(drawn[name] for name in names) == expected
