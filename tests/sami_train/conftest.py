"""What tests of several rooms share."""

import pytest

from tests.making.coarse import coarse_physics
from tests.making.shared import shared_folder

__all__ = ["coarse_physics"]


def _export(folder):
    from sami_train.export.export import compose_model
    from sami_train.export.model_file import write
    from tests.sami_train.export.test_export import make_agent

    agent = make_agent("satesac")
    config = {"env": "panda", "method": "satesac", "network": agent.config.network.model_dump(mode="json")}
    write(compose_model(agent, folder / "tiny.onnx", {"method": "SaTESAC", "config": config}, None))


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """An untrained Panda policy as a file."""
    return shared_folder(tmp_path_factory, "plain", _export) / "tiny.onnx"
