"""Adopts policies that the tests export as other frameworks do."""

import pytest

from sami_runtime import adopt
from tests.making.foreign import Foreign, adopt_in_this_process


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch, request):
    if "confinement" not in request.node.path.name:
        adopt_in_this_process(monkeypatch)


@pytest.fixture
def adopted(tmp_path):
    """Adopts a policy with a recipe; returns the artifact."""

    def make(policy, document):
        return adopt(*Foreign(tmp_path).write(policy, document), tmp_path / "adopted.onnx", force=True)

    return make
