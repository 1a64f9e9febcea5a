import pytest

import regraft
from tests.helpers.commands import run_apart


def test_every_public_name_is_there() -> None:
    for name in regraft.__all__:
        assert getattr(regraft, name) is not None
    assert dir(regraft) == regraft.__all__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        regraft.nothing  # noqa: B018


def test_importing_has_no_side_effects() -> None:
    """Neither torch nor scikit-learn is loaded before it is needed."""
    code = "import regraft.cli.app, sys; print('torch' in sys.modules, 'sklearn' in sys.modules)"
    assert run_apart(code=code).out.split() == ["False", "False"]
    code = "import regraft.report.writing, sys; print('sklearn' in sys.modules)"
    assert run_apart(code=code).out.strip() == "False"
    # Half of the time in which a worker of a sweep starts.
    code = "import regraft.bench.paper.reproduce, regraft.bench.engines, sys"
    assert run_apart(code=f"{code}; print('sklearn' in sys.modules)").out.strip() == "False"
