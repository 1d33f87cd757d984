"""What runs the graph is what was asked for, or nothing runs."""

import re
import subprocess
import sys

import numpy as np
import pytest

from sami_runtime.checks.verify import verify
from sami_runtime.distribution import install_hint
from sami_runtime.errors import ProviderError, UnknownName
from sami_runtime.session.session import Session


@pytest.fixture
def observation(make):
    return {name: value[0] for name, value in make.observations(1).items()}


def test_a_provider_has_a_short_and_a_full_name(path, observation):
    first = Session.load(path, provider="cpu").step(observation).action
    for name in ("CPU", "CPUExecutionProvider"):
        session = Session.load(path, provider=name)
        assert session.active_providers == ("CPUExecutionProvider",)
        np.testing.assert_array_equal(session.step(observation).action, first)


def test_a_provider_that_is_not_installed_is_refused_with_what_to_install(path):
    with pytest.raises(
        UnknownName, match=rf"provider 'cdua'.*Valid: .*cpu.*{re.escape(install_hint('gpu'))}.*sami doctor"
    ):
        Session.load(path, provider="cdua")


def test_a_provider_that_leaves_the_work_to_the_cpu_is_refused(make, policy, path, capfd):
    """Azure's provider is in the plain package, starts, reports itself active, and runs no operator of a policy."""
    import onnxruntime

    if "AzureExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has no second provider")
    refused = r"AzureExecutionProvider does not run .*The model was not run on the CPU instead"
    with pytest.raises(ProviderError, match=refused):
        Session.load(path, provider="azure")
    with pytest.raises(ProviderError, match=refused):
        verify(make.write(policy, golden=make.golden_of(policy)), provider="azure")
    assert capfd.readouterr() == ("", "")


def stepping(path, before):
    """The last line that a program prints which loads a session after `before`."""
    script = f"import sys\n{before}\nfrom sami_runtime.session import Session\nSession.load(sys.argv[1])"
    process = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60)
    return process.stderr.splitlines()[-1]


def test_without_onnxruntime_the_two_ways_to_install_it_are_named(path):
    message = stepping(path, "sys.modules['onnxruntime'] = None")
    assert message.startswith("sami_runtime.errors.ProviderError: onnxruntime is not installed")
    assert install_hint("cpu") in message
    assert install_hint("gpu") in message


def test_an_onnxruntime_that_lost_files_to_its_other_build_is_recognised(path, tmp_path):
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").touch()
    message = stepping(path, f"sys.path.insert(0, {str(tmp_path)!r})")
    assert "onnxruntime at ['" in message
    assert "Remove onnxruntime and onnxruntime-gpu with pip uninstall" in message
