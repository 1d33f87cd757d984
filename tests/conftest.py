"""What tests of every package share."""

import sys

import pytest


def pytest_collection_modifyitems(items):
    """Keep a file's tests in one process, where several share them; those of the examples use the same two ports."""
    for item in items:
        shared = "examples" in item.path.parts
        item.add_marker(pytest.mark.xdist_group("examples" if shared else str(item.path)))


@pytest.fixture(autouse=True)
def _torch_as_it_was():
    """Undo what training sets for its whole process: one that flushes denormals computes 1 / 1e-39 differently."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_flush_denormal(False)
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(1)
