"""What tests of every package share."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _torch_as_it_was():
    """Undo what training sets for its whole process: one that flushes denormals computes 1 / 1e-39 differently."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_flush_denormal(False)
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(1)
