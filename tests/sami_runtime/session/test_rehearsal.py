"""Unknown files are tried in a process of their own: what they do to it, they do not do to the one that drives."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from sami_runtime import child
from sami_runtime.errors import ArtifactError
from sami_runtime.model.artifact import Artifact, read_artifact
from sami_runtime.session import admission
from sami_runtime.session.admission import rehearse

CHILD = "import sys; sys.stdin.buffer.read(); "


def growing(side, operator="Expand"):
    """An edit: 1.3 kB of file that become a matrix of side x side, and its product with itself."""

    def edit(model):
        shape = numpy_helper.from_array(np.array([side, side], np.int64), "shape")
        model.graph.initializer.append(shape)
        tensor = numpy_helper.from_array(np.ones((1, 1), np.float32), "one_by_one")
        model.graph.initializer.append(tensor)
        model.graph.node.extend(
            [
                helper.make_node(operator, ["one_by_one", "shape"], ["large"]),
                helper.make_node("MatMul", ["large", "large"], ["product"]),
                helper.make_node("ReduceSum", ["product"], ["total"], keepdims=0),
                helper.make_node("Mul", ["total", "nought"], ["nothing"]),
                helper.make_node("Add", ["nothing", "raw"], ["late"]),
                helper.make_node("Tanh", ["late"], ["action"]),
            ]
        )
        model.graph.initializer.append(numpy_helper.from_array(np.zeros((), np.float32), "nought"))
        del model.graph.node[10]  # which made the action

    return edit


def test_a_policy_comes_through(make, policy):
    rehearse(read_artifact(make.write(policy, golden=make.golden_of(policy))))


def test_a_policy_that_cannot_answer_every_number_comes_through(make):
    rehearse(read_artifact(make.write(make.table())))  # onnxruntime fails for goals that name no row


@pytest.mark.parametrize("signal_name", ["SIGFPE", "SIGSEGV", "SIGABRT", "SIGKILL"])
def test_a_file_that_ends_the_process_is_refused_and_this_one_goes_on(path, monkeypatch, signal_name):
    monkeypatch.setattr(child, "BOOT", f"{CHILD}import os, signal; os.kill(os.getpid(), signal.{signal_name})")
    with pytest.raises(ArtifactError, match=f"was ended by {signal_name}, and so would the process that drives"):
        rehearse(read_artifact(path))


def test_a_file_that_fills_the_memory_is_refused(make, policy):
    with pytest.raises(ArtifactError, match=r"Failed to allocate memory|bad_alloc"):
        rehearse(read_artifact(make.write(policy, edit=growing(60_000))))


def test_a_file_that_takes_the_processor_for_long_is_refused(make, policy):
    with pytest.raises(ArtifactError, match="took more than 1 s of CPU time"):
        rehearse(read_artifact(make.write(policy, edit=growing(8_000))), cpu_s=1)


def test_a_process_that_waits_for_ever_is_ended(path, monkeypatch):
    monkeypatch.setattr(child, "BOOT", f"{CHILD}import time; time.sleep(600)")
    monkeypatch.setattr(admission, "WALL_S", 1.0)
    with pytest.raises(ArtifactError, match="took longer than 1 s"):
        rehearse(read_artifact(path))


@pytest.mark.parametrize("message", ["", "nonsense", "[]", '{"refused": 1}', "{\"refused\": null}'; exit(3); '"])
def test_whatever_else_the_process_says_is_no_pass(path, monkeypatch, message):
    monkeypatch.setattr(child, "BOOT", f"{CHILD}print('{message}')")
    with pytest.raises(ArtifactError):
        rehearse(read_artifact(path))


def test_what_was_read_is_what_is_tried(make, policy):
    """A file that is swapped between its reading and its trial does not matter: the bytes go over, not the path."""
    artifact = read_artifact(make.write(policy))
    artifact.path.unlink()
    rehearse(artifact)
    with pytest.raises(ArtifactError, match="not a complete ONNX file"):
        rehearse(Artifact(artifact.path, artifact.contract, b"nothing", artifact.graph_sha256))
