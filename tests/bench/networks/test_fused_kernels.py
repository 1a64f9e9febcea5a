"""The kernels for GPUs give what torch gives, run line by line on a CPU.

Speed, memory and the order of programs are a GPU's alone; the numbers are not.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_the_kernels_agree_with_torch_in_tritons_interpreter() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.interpreted_kernels"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all agree\n"
