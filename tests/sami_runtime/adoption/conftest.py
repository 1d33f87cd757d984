"""Adopts policies that the tests export as other frameworks do."""

import pytest

import sami_runtime.adoption.adopt as adoption
import sami_runtime.adoption.network as network
from sami_runtime import adopt
from tests.making.foreign import Foreign


@pytest.fixture(autouse=True)
def here(monkeypatch, request):
    """Adopt in this process, which saves half a second for each policy; `test_confinement.py` tests the other one."""
    if "confinement" not in request.node.path.name:
        for module in (adoption, network):
            monkeypatch.setattr(
                module, "adopt_reading", lambda reading, policy: adoption.adopt_here(reading, str(policy))
            )


@pytest.fixture
def adopted(tmp_path):
    """Adopts a policy with a recipe; returns the artifact."""

    def make(policy, document):
        return adopt(*Foreign(tmp_path).write(policy, document), tmp_path / "adopted.onnx", force=True)

    return make
