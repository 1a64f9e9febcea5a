from __future__ import annotations

import pytest

from regraft.extras import MissingExtra, require


def test_present_module_is_returned() -> None:
    assert require("json", "plots").loads("1") == 1


def test_missing_module_names_the_extra() -> None:
    with pytest.raises(MissingExtra, match=r'run pip install "regraft\[plots\]"') as caught:
        require("no_such_module.part", "plots")
    assert str(caught.value).startswith("no_such_module is not installed")
